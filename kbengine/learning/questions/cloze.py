"""Cloze questions: the built-in generator that needs no model.

A sentence without its answer span, words dropped at random, becomes a question or a slot ("title [SEP] words"); the
words between two names become a relation; the title's occurrences become mentions to link to the page's first one, and
names of other documents mentions to link to theirs. What a document gives depends on the seed and the document alone
(links: on the names in the corpus too), so that runs, orders and parts of a corpus agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from kbengine.corpus.document import CorpusDocument
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Mention, Question, Slot, TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.loop.options import require
from kbengine.learning.questions.answers import (
    Answer,
    AnswerOptions,
    Quota,
    check_weights,
    random_seed,
    ranked_answers,
)
from kbengine.learning.questions.generated import QUESTION_KINDS, GeneratedQuestion, QuestionKind, QuestionsReport
from kbengine.learning.questions.name_index import NameIndex, TitleMention, first_mention
from kbengine.learning.questions.phrasing import (
    MIN_WORDS,
    cloze_text,
    content_words,
    in_title,
    relation_of,
    remaining_words,
    slot_words,
)
from kbengine.learning.questions.words import context_around

MENTION_CONTEXT_CHARS: Final = 300
"""Context kept on each side of a mention, cut at words; the encoder reads less."""
LINK_WEIGHT: Final = 4.0
"""Of links in a mix that wants them."""


@dataclass(frozen=True)
class ClozeOptions:
    """How cloze questions are made.

    Attributes:
        answers: Which spans get a question.
        mix: How likely each kind of question is, relative to the others, where an answer allows it. Kinds that are not
            named are not made; "link" needs an index of the documents' names.
        drop: The least and the most probable share of words dropped; each question draws its own from between.
        title_share: Share of the questions not naming their document that get its title put to them.
        source: The name given to the examples.
    """

    answers: AnswerOptions = field(default_factory=AnswerOptions)
    mix: Mapping[str, float] = field(
        default_factory=lambda: {"question": 5.0, "slot": 2.0, "relation": 2.0, "mention": 4.0}
    )
    drop: tuple[float, float] = (0.1, 0.6)
    title_share: float = 0.7
    source: str = "cloze"

    def __post_init__(self) -> None:
        check_weights("question kind", self.mix, QUESTION_KINDS)
        rising = 0 <= self.drop[0] <= self.drop[1] < 1
        require(rising, "drop", self.drop, "two shares from 0 to below 1, the smaller first")
        require(0 <= self.title_share <= 1, "title_share", self.title_share, "a share from 0 to 1")

    @property
    def wants_links(self) -> bool:
        """Return whether mentions of other documents are made."""
        return self.mix.get("link", 0.0) > 0


class ClozeSource:
    """The cloze generator as a source of questions for documents."""

    def __init__(self, options: ClozeOptions, names: NameIndex | None = None) -> None:
        """Take the options, and the names of the documents that links may lead to.

        Raises:
            InvalidOptionError: links are wanted, and there are no names.
        """
        if options.wants_links and names is None:
            raise InvalidOptionError('mix wants questions of the kind "link", which need the names of the documents')
        self.options = options
        self.name = options.source
        self.names = names

    def questions(self, documents: Sequence[CorpusDocument]) -> list[list[GeneratedQuestion]]:
        """Return the questions of each document, none for excluded ones."""
        return [self._of(document) for document in documents]

    def _of(self, document: CorpusDocument) -> list[GeneratedQuestion]:
        options = self.options
        if document.doc_id in options.answers.exclude:
            return []
        quota = Quota(options.answers)
        own = first_mention(document)
        made: list[GeneratedQuestion] = []
        for answer in ranked_answers(document, options.answers):
            if quota.is_full:
                break
            if quota.admits(answer):
                question = self._question(document, answer, own)
                if question is not None:
                    quota.count(answer)
                    made.append(question)
        return made

    def _question(self, document: CorpusDocument, answer: Answer, own: TitleMention | None) -> GeneratedQuestion | None:
        options = self.options
        id = f"{options.source}:{document.doc_id}:{answer.place}"
        random = Random(random_seed(options.answers.seed, "question", id))
        wanted: list[QuestionKind] = [kind for kind in QUESTION_KINDS if options.mix.get(kind, 0) > 0]
        while wanted:
            kind = random.choices(wanted, [options.mix[kind] for kind in wanted])[0]
            # A mention is answered where the title stands first, everything else where the answer was cut out.
            where = (document, answer.passage, answer.span)
            query: TaskInput | None
            if kind in ("mention", "link"):
                found = own if kind == "mention" else self._linked(document, answer)
                query = None if found is None else self._mention(kind, answer, found)
                where = where if found is None else (found.document, found.passage, found.span)
            else:
                query = self._query(kind, document.title, answer, random)
            if query is not None:
                return GeneratedQuestion(id, query, *where, kind, answer.kind, options.source)
            wanted.remove(kind)
        return None

    def _linked(self, document: CorpusDocument, answer: Answer) -> TitleMention | None:
        """Return where the other document that the answer names is first named."""
        is_name = answer.kind in ("anchor", "name", "quoted")
        return self.names.named(answer.text, within=document) if is_name and self.names is not None else None

    def _mention(self, kind: QuestionKind, answer: Answer, found: TitleMention) -> Mention | None:
        """Return the answer as a mention; one of its own document only outside the passage that names it first."""
        if kind == "mention" and (answer.kind != "title" or found.passage is answer.passage):
            return None
        return answer_mention(answer)

    def _query(self, kind: QuestionKind, title: str, answer: Answer, random: Random) -> TaskInput | None:
        options = self.options
        language = options.answers.language
        drop = random.uniform(*options.drop)
        if kind == "question":
            if len(content_words(answer.passage.text, remaining_words(answer), language)) < MIN_WORDS:
                return None
            share = options.title_share
            return Question(cloze_text(answer, title, random, drop=drop, language=language, title_share=share))
        if in_title(answer, title) or not title.strip():
            return None
        if kind == "slot":
            words = slot_words(answer, title, random, drop=drop, language=language)
            return Slot(title, words) if words else None
        found = relation_of(answer, title, random, language=language)
        return None if found is None else Slot(*found)


class ClozeQuestions(Iterator[TrainingExample]):
    """The cloze questions of a corpus, one at a time; `report` counts what was read so far."""

    def __init__(self, corpus: Iterable[CorpusDocument], options: ClozeOptions, names: NameIndex | None = None) -> None:
        self.report: Final = QuestionsReport()
        self._iterator: Final = self._all(corpus, ClozeSource(options, names))

    def __next__(self) -> TrainingExample:
        return next(self._iterator)

    def _all(self, corpus: Iterable[CorpusDocument], source: ClozeSource) -> Iterator[TrainingExample]:
        for document in corpus:
            (made,) = source.questions([document])
            count_document(self.report, document, made, source.options.answers)
            for question in made:
                self.report.keep(question)
                yield question.example()


def cloze_questions(
    corpus: Iterable[CorpusDocument], options: ClozeOptions | None = None, *, names: NameIndex | None = None
) -> ClozeQuestions:
    """Return an iterator over the training examples of a corpus, document by document, with a `report` of counts.

    The same documents and options give the same examples, whatever the order and whatever else the corpus holds
    (links also want the same names); asking for fewer per document gives the first of them.

    Args:
        corpus: the documents.
        options: how.
        names: of the documents that links may lead to, where the mix has links.

    Raises:
        InvalidOptionError: links are wanted, and there are no names.
    """
    return ClozeQuestions(corpus, options or ClozeOptions(), names)


def with_links(options: ClozeOptions) -> ClozeOptions:
    """Return the options with mentions of other documents among the questions, as likely as those of their own."""
    return replace(options, mix={**options.mix, "link": LINK_WEIGHT})


def answer_mention(answer: Answer) -> Mention | None:
    """Return the answer as a mention with the text around it, or None when there is no text around it."""
    around = context_around(answer.passage.text, answer.span.start, answer.span.end, MENTION_CONTEXT_CHARS)
    left, right = (text.strip() for text in around)
    return Mention.from_parts(left and f"{left} ", answer.text, right and f" {right}") if left or right else None


def count_document(
    report: QuestionsReport, document: CorpusDocument, made: Sequence[GeneratedQuestion], options: AnswerOptions
) -> None:
    """Count one document and the questions made of it."""
    excluded = document.doc_id in options.exclude
    report.documents += 1
    report.excluded_documents += excluded
    report.barren_documents += not made and not excluded
    report.questions += len(made)
