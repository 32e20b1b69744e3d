"""How a KILT file is predicted: pages a record, records a search, effort, and what is done about bad records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.kilt.answer_forms import (
    ANSWER_FORMS,
    MAX_STEPS,
    AnswerForm,
)
from adapters.kilt.datasets import Dataset
from adapters.kilt.task_files import output_path as output_path
from adapters.kilt.task_files import task_of_file as task_of_file
from adapters.tasks.answerer import AnswerOptions
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Task
from kbengine.search.query import MAX_K, Effort, Strategy, Weights

if TYPE_CHECKING:
    pass

MIN_PAGES = 5
"""The leaderboards show recall@5."""


@dataclass(frozen=True)
class PredictOptions:
    """How to predict: pages a record, records a search, effort, and what to do about files and bad records.

    Every record that has an answer gets it, however improbable, unless a `threshold` is given: then an answer that is
    less probable is left blank, its pages stay. `encoder` names one tuned for the knowledge base; `strategy`
    and `read`, how many passages are read, are the task's own unless given. `answer` (a phrase, the best sentences,
    pages alone, or with a model for it a verdict) and `steps` (1 or 2 searches for the pages) are the data set's own
    unless given.

    The effort is low by default: with three signals naming candidates, a quarter of the lists gives the same figures
    (300 rows each of docred, fewrel and squad: R-precision and KILT-EM equal to the last digit) in half the time.
    """

    pages: int = 10
    batch_size: int = 64
    effort: Effort = "low"
    weights: Weights | None = None
    resume: bool = False
    overwrite: bool = False
    strict: bool = False
    threshold: float | None = None
    encoder: str | None = None
    strategy: Strategy | None = None
    read: int | None = None
    where: str | None = None
    answer: AnswerForm | None = None
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.answer is not None and self.answer not in ANSWER_FORMS:
            raise InvalidOptionError(f"answer is {self.answer!r}, wanted one of {', '.join(ANSWER_FORMS)}")
        if self.steps is not None and self.steps not in range(1, MAX_STEPS + 1):
            raise InvalidOptionError(f"steps is {self.steps}, wanted 1 or {MAX_STEPS} searches for the pages")
        if not MIN_PAGES <= self.pages <= MAX_K:
            raise InvalidOptionError(
                f"pages is {self.pages}, wanted {MIN_PAGES} to {MAX_K}: recall@{MIN_PAGES} is on the leaderboards"
            )
        if not 1 <= self.batch_size <= 4096:
            raise InvalidOptionError(f"the batch size is {self.batch_size}, wanted 1 to 4096")
        answer_options(self)  # checks the others

    def of_dataset(self, dataset: Dataset | None, task: Task) -> PredictOptions:
        """Return the options with what the data set wants where nothing was said.

        Raises:
            InvalidOptionError: the task's answers are no sentences or verdicts, or its pages are found in one step.
        """
        as_asked = dataset if dataset is not None and dataset.task == task else None
        answer = self.answer or (as_asked.answer if as_asked else "phrase")
        steps = self.steps or (as_asked.steps if as_asked else 1)
        if steps > 1 and task != "question":
            raise InvalidOptionError(f"{steps} steps were asked for and the task is {task}; only questions take two")
        if answer == "verdict" and task != "question":
            raise InvalidOptionError(f"verdicts were asked for and the task is {task}; claims are asked as questions")
        if answer == "sentences" and task not in ("question", "dialogue"):
            raise InvalidOptionError(
                f"sentences were asked for and the task is {task}, which has an answer of its own; leave them out"
            )
        return replace(self, answer=answer, steps=steps)


def answer_options(options: PredictOptions) -> AnswerOptions:
    """Return the options of each search: without a threshold of its own a submission answers always."""
    return AnswerOptions(
        k=options.pages,
        weights=options.weights,
        effort=options.effort,
        # That of a verdict is compared with the verdict's own probability.
        threshold=0.0 if options.answer == "verdict" else options.threshold or 0.0,
        truncate=True,
        encoder=options.encoder,
        strategy=options.strategy,
        read=options.read,
        where=options.where,
    )
