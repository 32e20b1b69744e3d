"""Cloze questions: the built-in generator that needs no model.

A sentence without its answer span, words dropped at random, becomes a question or a slot ("title [SEP] words"); the
words between two names become a relation; the title's occurrences become mentions to link to the page's first one.
What a document gives depends on the seed and the document alone, so that runs, orders and parts of a corpus agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.encoders.query_input import MentionInput, QueryInput, QuestionInput, SlotInput
from kbengine.errors import InvalidOptionError
from kbengine.questions.answers import (
    Answer,
    AnswerOptions,
    Quota,
    check_weights,
    first_mention,
    random_seed,
    ranked_answers,
)
from kbengine.questions.generated import QUESTION_KINDS, GeneratedQuestion, QuestionKind, QuestionsReport
from kbengine.questions.phrasing import (
    MIN_WORDS,
    cloze_text,
    content_words,
    in_title,
    relation_of,
    remaining_words,
    slot_words,
)
from kbengine.questions.words import context_around
from kbengine.results import Span
from kbengine.training.examples import TrainingExample

MENTION_CONTEXT_CHARS: Final = 300
"""Context kept on each side of a mention, cut at words; the encoder reads less."""

Home = tuple[CorpusPassage, Span]
"""Where the title of a document stands first: what its mentions are to be linked to."""


@dataclass(frozen=True)
class ClozeOptions:
    """How cloze questions are made.

    Attributes:
        answers: Which spans get a question.
        mix: How likely each kind of question is, relative to the others, where an answer allows it.
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
        if not 0 <= self.drop[0] <= self.drop[1] < 1:
            raise InvalidOptionError(f"drop is {self.drop}, wanted two shares from 0 to below 1, the smaller first")
        if not 0 <= self.title_share <= 1:
            raise InvalidOptionError(f"title_share is {self.title_share}, wanted a share from 0 to 1")


class ClozeSource:
    """The cloze generator as a source of questions for documents."""

    def __init__(self, options: ClozeOptions) -> None:
        self.options = options
        self.name = options.source

    def questions(self, documents: Sequence[CorpusDocument]) -> list[list[GeneratedQuestion]]:
        """Return the questions of each document, none for excluded ones."""
        return [self._of(document) for document in documents]

    def _of(self, document: CorpusDocument) -> list[GeneratedQuestion]:
        options = self.options
        if document.doc_id in options.answers.exclude:
            return []
        quota = Quota(options.answers)
        home = first_mention(document)
        made: list[GeneratedQuestion] = []
        for answer in ranked_answers(document, options.answers):
            if quota.is_full:
                break
            if quota.admits(answer):
                question = self._question(document, answer, home)
                if question is not None:
                    quota.count(answer)
                    made.append(question)
        return made

    def _question(self, document: CorpusDocument, answer: Answer, home: Home | None) -> GeneratedQuestion | None:
        options = self.options
        id = f"{options.source}:{document.doc_id}:{answer.place}"
        random = Random(random_seed(options.answers.seed, "question", id))
        wanted: list[QuestionKind] = [kind for kind in QUESTION_KINDS if options.mix.get(kind, 0) > 0]
        while wanted:
            kind = random.choices(wanted, [options.mix[kind] for kind in wanted])[0]
            query = self._query(kind, document.title, answer, home, random)
            if query is not None:
                # A mention is answered where the title stands first, everything else where the answer was cut out.
                passage, span = home if kind == "mention" and home is not None else (answer.passage, answer.span)
                return GeneratedQuestion(id, query, document, passage, span, kind, answer.kind, options.source)
            wanted.remove(kind)
        return None

    def _query(
        self, kind: QuestionKind, title: str, answer: Answer, home: Home | None, random: Random
    ) -> QueryInput | None:
        options = self.options
        language = options.answers.language
        drop = random.uniform(*options.drop)
        if kind == "mention":
            apart = home is not None and (home[0] is not answer.passage)
            return mention_of(answer) if answer.kind == "title" and apart else None
        if kind == "question":
            if len(content_words(answer.passage.text, remaining_words(answer), language)) < MIN_WORDS:
                return None
            share = options.title_share
            return QuestionInput(cloze_text(answer, title, random, drop=drop, language=language, title_share=share))
        if in_title(answer, title) or not title.strip():
            return None
        if kind == "slot":
            words = slot_words(answer, title, random, drop=drop, language=language)
            return SlotInput(title, words) if words else None
        found = relation_of(answer, title, random, language=language)
        return None if found is None else SlotInput(*found)


class ClozeQuestions(Iterator[TrainingExample]):
    """The cloze questions of a corpus, one at a time; `report` counts what was read so far."""

    def __init__(self, corpus: Iterable[CorpusDocument], options: ClozeOptions) -> None:
        self.report: Final = QuestionsReport()
        self._iterator: Final = self._all(corpus, ClozeSource(options))

    def __next__(self) -> TrainingExample:
        return next(self._iterator)

    def _all(self, corpus: Iterable[CorpusDocument], source: ClozeSource) -> Iterator[TrainingExample]:
        for document in corpus:
            (made,) = source.questions([document])
            count_document(self.report, document, made, source.options.answers)
            for question in made:
                self.report.keep(question)
                yield question.example()


def cloze_questions(corpus: Iterable[CorpusDocument], options: ClozeOptions | None = None) -> ClozeQuestions:
    """Return an iterator over the training examples of a corpus, document by document, with a `report` of counts.

    The same documents and options give the same examples, whatever the order and whatever else the corpus holds;
    asking for fewer per document gives the first of them.
    """
    return ClozeQuestions(corpus, options or ClozeOptions())


def mention_of(answer: Answer) -> MentionInput | None:
    """Return the answer as a mention with the text around it, or None when there is no text around it."""
    around = context_around(answer.passage.text, answer.span.start, answer.span.end, MENTION_CONTEXT_CHARS)
    left, right = (text.strip() for text in around)
    return MentionInput(left, answer.text, right) if left or right else None


def count_document(
    report: QuestionsReport, document: CorpusDocument, made: Sequence[GeneratedQuestion], options: AnswerOptions
) -> None:
    """Count one document and the questions made of it."""
    excluded = document.doc_id in options.exclude
    report.documents += 1
    report.excluded_documents += excluded
    report.barren_documents += not made and not excluded
    report.questions += len(made)
