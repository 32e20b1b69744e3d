"""The answers that questions are made for: candidates of a document in a random order that its id and a seed fix."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.corpus.sentences import sentence_spans
from kbengine.errors import InvalidOptionError
from kbengine.inputs import END_MENTION, SEPARATOR, START_MENTION
from kbengine.learning.loop.options import require
from kbengine.learning.questions.candidates import ANSWER_KINDS, AnswerKind, answer_candidates
from kbengine.learning.questions.words import words_of
from kbengine.span import Span

KIND_WEIGHTS: Final[Mapping[str, float]] = {
    "title": 1.0,
    "anchor": 1.5,
    "date": 1.0,
    "quoted": 1.0,
    "name": 1.0,
    "number": 0.7,
    "chunk": 0.2,
}
MARKS: Final = (SEPARATOR, START_MENTION, END_MENTION)
"""What KILT rows mark their parts with: text that holds one cannot be written as part of a row."""


@dataclass(frozen=True)
class AnswerOptions:
    """Which spans of a document get a question.

    Attributes:
        per_document: Most questions for one document.
        per_passage: Most questions whose sentence is in one passage.
        seed: Another seed, other answers and other questions.
        language: Of the corpus, as a code such as "en": for sentence borders and function words.
        max_answer_words: Longer candidates are passed over.
        min_sentence_words: Sentences with fewer words besides the answer are passed over.
        kinds: How likely an answer of each kind is taken, relative to the others; 0 or absent: never.
        exclude: Ids of documents of which nothing is used.
    """

    per_document: int = 8
    per_passage: int = 3
    seed: int = 0
    language: str = "en"
    max_answer_words: int = 10
    min_sentence_words: int = 4
    kinds: Mapping[str, float] = field(default_factory=lambda: dict(KIND_WEIGHTS))
    exclude: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("per_document", "per_passage", "max_answer_words", "min_sentence_words"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        check_weights("answer kind", self.kinds, ANSWER_KINDS)


@dataclass(frozen=True, slots=True)
class Answer:
    """A span that a question is to be made for.

    Attributes:
        passage: Where it stands.
        sentence: The sentence around it, as a span of the passage's text.
        span: The answer, as a span of the passage's text.
        kind: The rule that found it.
    """

    passage: CorpusPassage
    sentence: Span
    span: Span
    kind: AnswerKind

    @property
    def text(self) -> str:
        """Return the answer's characters."""
        return self.passage.text[self.span.start : self.span.end]

    @property
    def place(self) -> str:
        """Return the answer's place in its document: paragraph and offsets in it, the same for every run."""
        shift = self.passage.char_offset
        return f"{self.passage.ordinal}:{self.span.start + shift}-{self.span.end + shift}"


class Quota:
    """Counts the questions of one document: so many a document and a passage, two a sentence, one an answer text.

    Occurrences of the title are two: as an answer and as a mention.
    """

    def __init__(self, options: AnswerOptions) -> None:
        self._options = options
        self._counts: Counter[tuple[object, ...]] = Counter()

    @property
    def is_full(self) -> bool:
        """Return whether the document has all its questions."""
        return self._counts[("document",)] >= self._options.per_document

    def admits(self, answer: Answer) -> bool:
        """Return whether one more question for this answer is wanted."""
        return all(self._counts[key] < most for key, most in self._limits(answer).items())

    def count(self, answer: Answer) -> None:
        """Count a question made for this answer."""
        self._counts.update(self._limits(answer).keys())

    def _limits(self, answer: Answer) -> dict[tuple[object, ...], int]:
        passage = (answer.passage.ordinal, answer.passage.char_offset)
        return {
            ("document",): self._options.per_document,
            ("passage", *passage): self._options.per_passage,
            ("sentence", *passage, answer.sentence.start): 2,
            ("text", answer.text.casefold()): 2 if answer.kind == "title" else 1,
        }


def ranked_answers(document: CorpusDocument, options: AnswerOptions) -> list[Answer]:
    """Return all answers that the document offers, in the order in which they are to be used.

    The order is random, weighted by kind (Efraimidis and Spirakis, 2006), and depends on the seed and the answer's
    place alone: not on other documents, and not on how many questions are asked for.
    """
    if any(mark in document.title for mark in MARKS):
        return []
    ranked: list[tuple[float, Answer]] = []
    links = _anchors(document)
    for passage in document.passages:
        if not any(mark in passage.text for mark in MARKS):
            for answer in _answers_of(document.title, passage, links, options):
                weight = options.kinds.get(answer.kind, 0.0)
                if weight > 0:
                    chance = fraction(options.seed, document.doc_id, answer.place)
                    ranked.append((math.log(chance) / weight, answer))
    ranked.sort(key=lambda item: (-item[0], item[1].place))
    return [answer for _, answer in ranked]


def fraction(seed: int, *parts: str) -> float:
    """Return a number in (0, 1) that looks random and is the same for the same arguments, on any machine."""
    return (random_seed(seed, *parts) + 0.5) / 2**64


def random_seed(seed: int, *parts: str) -> int:
    """Return a 64-bit seed made of a seed and texts."""
    digest = hashlib.blake2b("\x1f".join((str(seed), *parts)).encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def check_weights(what: str, weights: Mapping[str, float], known: Sequence[str]) -> None:
    """Raise InvalidOptionError unless the weights are of known names, finite, not negative and not all 0."""
    unknown = [name for name in weights if name not in known]
    if unknown:
        raise InvalidOptionError(f"{what} {unknown[0]!r} is unknown, wanted one of {', '.join(known)}")
    for name, weight in weights.items():
        if not math.isfinite(weight) or weight < 0:
            raise InvalidOptionError(f"{what} {name!r} has the weight {weight}, wanted a finite number from 0 up")
    if not any(weight > 0 for weight in weights.values()):
        raise InvalidOptionError(f"every {what} has the weight 0, so no question could be made; give one a weight")


def _answers_of(
    title: str, passage: CorpusPassage, links: Mapping[int, list[Span]], options: AnswerOptions
) -> list[Answer]:
    text = passage.text
    sentences = sentence_spans(text, options.language)
    anchors = [
        Span(span.start - passage.char_offset, span.end - passage.char_offset)
        for span in links.get(passage.ordinal, ())
        if span.start - passage.char_offset >= 0 and span.end - passage.char_offset <= len(text)
    ]
    candidates = answer_candidates(text, title=title, anchors=anchors, sentences=sentences, language=options.language)
    n_words = {sentence: len(words_of(text, sentence.start, sentence.end)) for sentence in sentences}
    answers: list[Answer] = []
    i = 0
    for candidate in candidates:
        while i + 1 < len(sentences) and sentences[i].end <= candidate.span.start:
            i += 1
        sentence = sentences[i]
        if not (sentence.start <= candidate.span.start and candidate.span.end <= sentence.end):
            continue  # crosses a sentence's border: two sentences would make the question
        n_answer = len(words_of(text, candidate.span.start, candidate.span.end))
        if n_answer > options.max_answer_words or n_words[sentence] - n_answer < options.min_sentence_words:
            continue
        answers.append(Answer(passage, sentence, candidate.span, candidate.kind))
    return answers


def _anchors(document: CorpusDocument) -> dict[int, list[Span]]:
    """Return the links of a KILT page by paragraph; entries without usable offsets are left out."""
    links = document.meta.get("anchors")
    if isinstance(links, dict):  # the Hugging Face copy keeps one list a field
        columns = [links.get(name) for name in ("paragraph_id", "start", "end")]
        triples = list(zip(*(column if isinstance(column, list) else [] for column in columns), strict=False))
    else:
        entries = [each for each in links if isinstance(each, dict)] if isinstance(links, list) else []
        triples = [(each.get("paragraph_id"), each.get("start"), each.get("end")) for each in entries]
    found: dict[int, list[Span]] = {}
    for paragraph, start, end in triples:
        if isinstance(paragraph, int) and isinstance(start, int) and isinstance(end, int) and 0 <= start < end:
            found.setdefault(paragraph, []).append(Span(start, end))
    return found
