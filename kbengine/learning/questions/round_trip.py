"""The round-trip filter: a question stays when a reader, given its passage, finds the answer it was made for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbengine.encoders.encoder import PassageText
from kbengine.learning.loop.options import require
from kbengine.learning.questions.generated import GeneratedQuestion
from kbengine.learning.reading.answer_scores import exact_match, f1_score

if TYPE_CHECKING:
    from kbengine.reading.reader import Reader


@dataclass(frozen=True)
class RoundTripOptions:
    """When a question passes.

    Attributes:
        min_f1: Words that the reader's answer has to share with the wanted one (F1 after SQuAD's normalisation); 1 asks
            for the same answer, as the papers do.
        min_probability: Of the reader's answer among all spans of the passage and no answer.
    """

    min_f1: float = 1.0
    min_probability: float = 0.0

    def __post_init__(self) -> None:
        for name in ("min_f1", "min_probability"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share from 0 to 1")


def passes_round_trip(
    questions: Sequence[GeneratedQuestion], reader: Reader, options: RoundTripOptions | None = None
) -> list[bool]:
    """Return for each question whether the reader gives its answer back."""
    options = options or RoundTripOptions()
    if not questions:
        return []
    passages = [PassageText(question.document.title, question.passage.text) for question in questions]
    readings = reader.read([question.query for question in questions], passages, truncate=True)
    passed: list[bool] = []
    for question, reading in zip(questions, readings, strict=True):
        found = question.passage.text[reading.span.start : reading.span.end]
        same = exact_match(found, question.answer_text) or f1_score(found, question.answer_text) >= options.min_f1
        passed.append(same and reading.probability >= options.min_probability)
    return passed
