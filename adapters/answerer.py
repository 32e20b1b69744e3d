"""Requests in, answers out: the one path of command line, Python and HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from adapters.answers import TaskAnswer
from adapters.requests import TaskRequest
from kbengine.errors import InvalidOptionError
from kbengine.query import EFFORTS, MAX_K, UNITS, Effort, Unit, Weights

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase


@dataclass(frozen=True)
class AnswerOptions:
    """How to answer; `None` takes the task's own choice, as stored with the knowledge base or by default.

    Attributes:
        k: Distinct answers wanted, 1 to 1000.
        unit: What an answer is; by default phrases for questions and slots, documents for mentions and dialogues.
        weights: Of the three signals. Probabilities are calibrated for the task's own, so there are none with others.
        effort: How many candidates are looked at.
        threshold: The probability, 0 to 1, that the best answer has to reach; 0 answers always, None takes the
            task's stored threshold (no threshold when none is stored).
        explain: Give the parts of each score.
        truncate: Cut a question or slot that is too long instead of refusing it.
        nprobe: Clusters probed per segment, instead of `effort`.
    """

    k: int = 10
    unit: Unit | None = None
    weights: Weights | None = None
    effort: Effort = "normal"
    threshold: float | None = None
    explain: bool = False
    truncate: bool = False
    nprobe: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MAX_K:
            raise InvalidOptionError(f"k is {self.k}, wanted 1 to {MAX_K}; ask for fewer answers")
        if self.unit is not None and self.unit not in UNITS:
            raise InvalidOptionError(f"unit is {self.unit!r}, wanted one of {', '.join(UNITS)}")
        if self.effort not in EFFORTS:
            raise InvalidOptionError(f"effort is {self.effort!r}, wanted one of {', '.join(EFFORTS)}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise InvalidOptionError(
                f"the threshold is {self.threshold}, wanted a probability from 0 (answer always) to 1"
            )
        if self.nprobe is not None and self.nprobe < 1:
            raise InvalidOptionError(f"nprobe is {self.nprobe}, wanted 1 or more (or leave it out)")


class Answerer:
    """Answers requests of all tasks from one knowledge base; usable from several threads at once."""

    def __init__(self, knowledge_base: KnowledgeBase) -> None:
        self._knowledge_base = knowledge_base

    def answer(self, requests: Sequence[TaskRequest], options: AnswerOptions | None = None) -> list[TaskAnswer]:
        """Return one result per request, in order; each is what the request would get alone.

        Raises:
            TaskInputError: a request has not the form that its task wants.
            UnknownRelationError: a slot's relation is a Wikidata id that the table lacks.
            QueryError: a request is empty or longer than the encoder takes (unless `options.truncate`).
            InvalidOptionError: a threshold is asked for and a task has no calibration for what is asked.
        """
        raise NotImplementedError
