"""One training example: a query, the passage that answers it, and where in it the answer stands."""

from __future__ import annotations

from dataclasses import dataclass

from kbengine.errors import TrainingDataError
from kbengine.inputs import TaskInput
from kbengine.span import Span


@dataclass(frozen=True, slots=True)
class TrainingExample:
    """A query with its gold passage.

    Attributes:
        id: Of the row it was made from, unique in its source.
        query: What the query encoder reads.
        title: Of the gold document.
        passage: Text of the gold passage, as the corpus has it.
        answers: Half-open character offsets into `passage`, every occurrence that counts; empty when the passage as a
            whole is the answer (passage loss alone) or holds none (`answerable` tells which).
        answerable: False for questions that their passage does not answer (SQuAD 2.0).
        source: The data set's name, for reports and per-set figures.
        doc_id: Of the gold document in the corpus; empty when unknown.
        negatives: Texts of mined passages that look right and are not.
        negative_titles: Their documents' titles, one for each; empty when they are not known.
    """

    id: str
    query: TaskInput
    title: str
    passage: str
    answers: tuple[Span, ...]
    answerable: bool = True
    source: str = ""
    doc_id: str = ""
    negatives: tuple[str, ...] = ()
    negative_titles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.negative_titles and len(self.negative_titles) != len(self.negatives):
            raise TrainingDataError(
                f"example {self.id!r} has {len(self.negatives)} negatives and {len(self.negative_titles)} titles of "
                "them, wanted one for each, or none"
            )

    @property
    def answer_texts(self) -> tuple[str, ...]:
        """Return the distinct answer strings, in order."""
        return tuple(dict.fromkeys(self.passage[span.start : span.end] for span in self.answers))
