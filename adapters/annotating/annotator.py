"""A text without marks goes in, its mentions come out linked: the one path of command line, Python and HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adapters.annotating.coherence import Coherence, Described, coherences
from adapters.annotating.evidence import ALONE, TOGETHER, MentionModel, Support, features_of
from adapters.annotating.linked import Annotation, LinkCandidate, NilReason
from adapters.annotating.overlaps import best_apart
from adapters.annotating.spotting import Spotted, spot
from adapters.annotating.usage import Usage
from adapters.annotating.weighed import Weighed
from adapters.annotating.windows import Window, windows_of
from adapters.annotating.words import words_of
from adapters.tasks.answerer import AnswerOptions
from kbengine.errors import InvalidOptionError
from kbengine.inputs import END_MENTION, START_MENTION, Mention
from kbengine.search.known_names import KnownNames
from kbengine.span import Span

if TYPE_CHECKING:
    from adapters.tasks.answerer import Answerer
    from adapters.tasks.answers import Answer, TaskAnswer
    from kbengine.inputs import TaskInput
    from kbengine.knowledge_base import KnowledgeBase
    from storage.reader import KBReader

Ask = Callable[[Sequence["TaskInput"], AnswerOptions], Sequence["TaskAnswer"]]
"""What answers mentions: an `Answerer`'s method, or a service's queue."""

CANDIDATES = 4
"""Documents that are weighed for a mention."""
BATCH = 16
"""Mentions that are asked at once, so that progress is seen and a service's other users get their turn."""
LEAST_USAGE = 0.2
"""A lower-case word is asked about only if so many of its occurrences name something, or the threshold is low."""
LOW_THRESHOLD = 0.3
AGAIN = 0.5
"""What the linker is taken to say at least of a document that the text named in full before."""
CONTEXT_CHARS = 1500
"""Characters on either side of a mention that the linker is given."""


@dataclass(frozen=True)
class AnnotateOptions:
    """How to annotate.

    Attributes:
        threshold: The probability, 0 to 1, that a link has to reach. Lower-case words that are titles as well
            ("reading", "house") are linked only with a low one, 0.3 or less.
        candidates: How many documents are given with each mention, 1 to 10.
        unlinked: Whether names without a link are given, too.
        where: A filter over the fields of documents.
    """

    threshold: float = 0.5
    candidates: int = 3
    unlinked: bool = True
    where: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.threshold <= 1:
            raise InvalidOptionError(f"the threshold is {self.threshold}, wanted a probability from 0 to 1")
        if not 1 <= self.candidates <= 10:
            raise InvalidOptionError(f"candidates is {self.candidates}, wanted 1 to 10")


@dataclass
class Seen:
    """What the windows before said, for the short forms of names that come after them: "Reagan"."""

    by_word: dict[str, tuple[Described, str | None, float]] = field(default_factory=dict)


class Annotator:
    """Annotates texts from one knowledge base; usable from several threads at once."""

    def __init__(
        self,
        reader: KBReader,
        ask: Ask,
        *,
        name_weight: float,
        models: tuple[MentionModel, MentionModel] = (ALONE, TOGETHER),
    ) -> None:
        """Annotate with what `ask` says of mentions.

        Args:
            reader: of names, links and texts.
            ask: answers mentions.
            name_weight: what the name signal counts in the scores that `ask` gives, to undo it.
            models: of a document by itself, and beside those of the other mentions.
        """
        self._reader = reader
        self._ask = ask
        self._name_weight = name_weight or 1.0
        self._alone, self._together = models

    def annotate(
        self, text: str, options: AnnotateOptions | None = None, *, progress: Callable[[int, int], None] | None = None
    ) -> Iterator[Annotation]:
        """Yield the mentions of a text in order, as they are found: of each window of it together.

        Args:
            text: any text, of any length.
            options: how to annotate.
            progress: is told how many characters of how many are done.
        """
        options = options or AnnotateOptions()
        for window, weighed in self.weigh(text, options):
            for chosen in best_apart(weighed, options.threshold):
                annotation = _annotation(window, chosen, options)
                if annotation.link is not None or options.unlinked:
                    yield annotation
            if progress is not None:
                progress(window.start + len(window.text), len(text))

    def weigh(self, text: str, options: AnnotateOptions) -> Iterator[tuple[Window, list[Weighed]]]:
        """Yield each window of the text with the spans that may be mentions, and what they may mean."""
        names, usage = KnownNames(self._reader), Usage(self._reader)
        seen = Seen()
        for window in windows_of(text):
            spotted = spot(window.text, words_of(window.text), names)
            if options.threshold > LOW_THRESHOLD:
                spotted = [each for each in spotted if not each.is_lower or _is_worth_asking(each, usage)]
            yield window, self._weighed(text, window, spotted, usage, seen, options)

    def _weighed(
        self,
        text: str,
        window: Window,
        spotted: Sequence[Spotted],
        usage: Usage,
        seen: Seen,
        options: AnnotateOptions,
    ) -> list[Weighed]:
        answers = self._answers(text, window, spotted, options)
        names = list(dict.fromkeys(each.name for each in spotted))
        first = {each.name: each for each in reversed(spotted)}
        supports: dict[str, list[tuple[Described, str | None, Support]]] = {
            name: self._supports(answers[name]) if name in answers else [] for name in names
        }
        shares = {name: usage.of_name(word.text for word in first[name].words) for name in names}
        alone = {
            name: [
                self._alone.probability(features_of(first[name], support, Coherence(), shares[name]))
                for _, _, support in supports[name]
            ]
            for name in names
        }
        among = coherences(
            names,
            [
                [(document, p) for (document, _, _), p in zip(supports[name], alone[name], strict=True)]
                for name in names
            ],
        )
        of_name = dict(zip(names, among, strict=True))
        found = []
        for each in spotted:
            rows = [
                (document, url, support, coherence)
                for (document, url, support), coherence in zip(supports[each.name], of_name[each.name], strict=True)
            ]
            found.append(self._scored(each, rows, shares[each.name], seen))
            _remember(seen, found[-1])
        return found

    def _answers(
        self, text: str, window: Window, spotted: Sequence[Spotted], options: AnnotateOptions
    ) -> dict[str, TaskAnswer]:
        """Return what the linker says of each name, asked where it stands first: a name means one thing in a text."""
        first = {each.name: each for each in reversed(spotted)}
        asked = []
        for name, each in first.items():
            start = window.start + each.span.start
            left, right = text[max(0, start - CONTEXT_CHARS) : start], text[start + len(each.name) :][:CONTEXT_CHARS]
            asked.append((name, Mention.from_parts(_unmarked(left), name, _unmarked(right))))
        how = AnswerOptions(k=CANDIDATES, explain=True, where=options.where, threshold=0.0)
        answers: dict[str, TaskAnswer] = {}
        for i in range(0, len(asked), BATCH):
            batch = asked[i : i + BATCH]
            given = self._ask([mention for _, mention in batch], how)
            answers |= zip([name for name, _ in batch], given, strict=True)
        return answers

    def _supports(self, answer: TaskAnswer) -> list[tuple[Described, str | None, Support]]:
        found = []
        for i, each in enumerate(answer.answers):
            rival = answer.answers[1 if i == 0 else 0] if len(answer.answers) > 1 else None
            parts = each.evidence[0].parts
            support = Support(
                probability=each.probability if each.probability is not None else 0.5,
                answerable=answer.answerable if answer.answerable is not None else 0.5,
                name=0.0 if parts is None else parts.name / self._name_weight,
                is_best=i == 0,
                lead=each.score - rival.score if rival is not None else 20.0,
            )
            found.append((self._described(each), each.document.url, support))
        return found

    def _described(self, answer: Answer) -> Described:
        document = answer.document
        passages = tuple(dict.fromkeys(each.passage.text for each in answer.evidence))
        return Described(document.doc_id, document.title, passages, self._targets(document.doc_id))

    def _targets(self, doc_id: str) -> frozenset[str]:
        """Return the ids and titles that a document links to."""
        found = self._reader.live_documents([doc_id])
        if doc_id not in found:
            return frozenset()
        return frozenset(link.target for link in self._reader.document_names(found[doc_id].document_id).links)

    def _scored(
        self,
        spotted: Spotted,
        rows: Sequence[tuple[Described, str | None, Support, Coherence]],
        usage: float,
        seen: Seen,
    ) -> Weighed:
        again = seen.by_word.get(spotted.name) if len(spotted.words) == 1 and not spotted.is_lower else None
        rows = list(rows)
        if again is not None and all(again[0].doc_id != document.doc_id for document, _, _, _ in rows):
            rows.append((again[0], again[1], Support(0.0, 0.0, 0.0, False, -20.0), Coherence()))
        best = Coherence(
            max((each.said for *_, each in rows), default=0.0),
            max((each.alike for *_, each in rows), default=0.0),
            max((each.linked for *_, each in rows), default=0.0),
        )
        options = []
        for document, url, support, coherence in rows:
            behind = Coherence(coherence.said - best.said, coherence.alike - best.alike, coherence.linked - best.linked)
            is_again = again is not None and again[0].doc_id == document.doc_id
            if is_again:
                # The linker looks at the short name alone: that the text named it in full speaks for itself.
                support = replace(
                    support,
                    probability=max(AGAIN, support.probability),
                    answerable=max(AGAIN, support.answerable),
                    is_again=True,
                )
            features = tuple(features_of(spotted, support, behind, usage))
            options.append((document, url, self._together.probability(features), features))
        return Weighed(spotted, tuple(sorted(options, key=lambda each: -each[2])))


def annotator_for(answerer: Answerer, knowledge_base: KnowledgeBase, ask: Ask | None = None) -> Annotator:
    """Return what annotates texts from a knowledge base.

    Args:
        answerer: what links its mentions.
        knowledge_base: the engine of it.
        ask: what is asked instead of the answerer itself: a service's queue, which asks it in its turn.
    """
    weights = answerer.calibrations_of_task("entity-linking").weights("entity-linking")
    return Annotator(knowledge_base.reader, ask or answerer.answer, name_weight=weights.name)


def _is_worth_asking(spotted: Spotted, usage: Usage) -> bool:
    """Tell whether a name without a capital letter may be meant as one."""
    return all(usage.share(word.text) >= LEAST_USAGE for word in spotted.words if not word.is_stop_word)


def _remember(seen: Seen, weighed: Weighed) -> None:
    """Keep what a name of several words means for its last and its first word alone."""
    words = weighed.spotted.words
    if len(words) < 2 or weighed.spotted.is_lower or weighed.probability < LOW_THRESHOLD:
        return
    document, url, probability, _ = weighed.options[0]
    for word in (words[0], words[-1]):
        if word.is_capitalised and not word.is_stop_word:
            known = seen.by_word.get(word.text)
            if known is None or known[2] <= probability:
                seen.by_word[word.text] = document, url, probability


def _unmarked(text: str) -> str:
    """Return the text without the marks that a mention's text may not have."""
    return text.replace(START_MENTION, " ").replace(END_MENTION, " ")


def _annotation(window: Window, weighed: Weighed, options: AnnotateOptions) -> Annotation:
    span = Span(window.start + weighed.spotted.span.start, window.start + weighed.spotted.span.end)
    candidates = tuple(
        LinkCandidate(document.doc_id, document.title, url, probability)
        for document, url, probability, _ in weighed.options[: options.candidates]
    )
    link = candidates[0] if candidates and candidates[0].probability >= options.threshold else None
    reason: NilReason | None = None
    if link is None:
        reason = "below_threshold" if weighed.spotted.is_known else "unknown_name"
    return Annotation(
        span, window.text[weighed.spotted.span.start : weighed.spotted.span.end], link, reason, candidates
    )
