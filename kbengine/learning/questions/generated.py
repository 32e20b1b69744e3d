"""A generated question with its exact place, and what generating came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.inputs import TaskInput
from kbengine.learning.data.examples import TrainingExample
from kbengine.learning.questions.candidates import AnswerKind
from kbengine.span import Span

QuestionKind = Literal["question", "slot", "relation", "mention", "link"]
QUESTION_KINDS: Final[tuple[QuestionKind, ...]] = get_args(QuestionKind)


@dataclass(frozen=True, slots=True)
class GeneratedQuestion:
    """One question made from a corpus.

    Attributes:
        id: The generator, the document and the answer's place: the same in every run.
        query: What would be asked.
        document: Which answers it: the one the question was made from, or the one that a link leads to.
        passage: Of that document, with the answer in it.
        answer: The answer's span in the passage's text.
        kind: Of the question.
        answer_kind: The rule that found the answer.
        source: The generator's name.
    """

    id: str
    query: TaskInput
    document: CorpusDocument
    passage: CorpusPassage
    answer: Span
    kind: QuestionKind
    answer_kind: AnswerKind
    source: str

    @property
    def answer_text(self) -> str:
        """Return the answer's characters."""
        return self.passage.text[self.answer.start : self.answer.end]

    def example(self) -> TrainingExample:
        """Return the question as training reads it."""
        return TrainingExample(
            id=self.id,
            query=self.query,
            title=self.document.title,
            passage=self.passage.text,
            answers=(self.answer,),
            source=self.source,
            doc_id=self.document.doc_id,
        )


@dataclass
class QuestionsReport:
    """Counts of a generation.

    Attributes:
        documents: Read, the excluded ones included.
        excluded_documents: Passed over because they were to be left out.
        barren_documents: Gave no question: no text, or no answer with enough words around it.
        questions: Made, before any filter.
        refused: Of them, those the filter did not let through.
        kinds: Kept questions by kind.
        answer_kinds: Kept questions by the kind of their answer.
    """

    documents: int = 0
    excluded_documents: int = 0
    barren_documents: int = 0
    questions: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    answer_kinds: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        """Return the number of questions that are left."""
        return self.questions - self.refused

    def keep(self, question: GeneratedQuestion) -> None:
        """Count one question that is kept; `questions` is counted apart, when it is made."""
        self.kinds[question.kind] += 1
        self.answer_kinds[question.answer_kind] += 1

    def to_json(self) -> dict[str, Any]:
        """Return the counts as plain JSON values; `from_json` reads them."""
        kinds = {name: dict(sorted(getattr(self, name).items())) for name in ("kinds", "answer_kinds")}
        return {**vars(self), **kinds}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> QuestionsReport:
        """Return the counts that `to_json` gave."""
        counts = dict(value)
        kinds, answer_kinds = Counter(counts.pop("kinds")), Counter(counts.pop("answer_kinds"))
        return cls(**counts, kinds=kinds, answer_kinds=answer_kinds)
