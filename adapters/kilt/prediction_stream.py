"""Predicting into a stream: the lines of a submission, each batch as soon as it is answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from adapters.errors import RecordError
from adapters.kilt.predict_options import PredictOptions, answer_options
from adapters.kilt.prediction_run import Answering, PredictionRun
from adapters.kilt.records import read_inputs
from adapters.kilt.submission import Prediction, prediction_line
from adapters.kilt.verdicts import Judging, check_judge
from kbengine.inputs import Task
from kbengine.progress import NoProgress


def predict_lines(
    answerer: Answering,
    inputs: Path,
    *,
    task: Task,
    options: PredictOptions,
    notice: Callable[[RecordError], None],
    judge: Judging | None = None,
) -> Iterator[str]:
    """Yield the lines of the submission that `predict_file` would write, each batch as soon as it is answered.

    Args:
        answerer: what is asked.
        inputs: KILT JSONL, plain or gzipped.
        task: of the inputs.
        options: pages, batches, strictness; there is nothing to resume.
        notice: called with every refused record.
        judge: answers claims with verdicts, where the options ask for these.

    Raises:
        InvalidOptionError: verdicts are asked for without a judge.
        RecordError: a bad record when `options.strict`, or a damaged input file.
    """
    check_judge(options.answer, judge)
    answerer.check_threshold(task, answer_options(options))
    lines = _Lines(inputs)
    run = PredictionRun(answerer, lines, task, options, NoProgress(), notice, judge=judge)
    for record in read_inputs(inputs, refuse=run.refuse):
        run.add(record)
        yield from lines.take()
    run.flush()
    yield from lines.take()


class _Lines:
    """Takes predictions in the place of a file, to be taken out again as lines."""

    done_ids: frozenset[str] = frozenset()

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines: list[str] = []

    def write(self, predictions: Iterable[Prediction]) -> int:
        """Take predictions and return how many."""
        lines = [prediction_line(prediction) for prediction in predictions]
        self._lines += lines
        return len(lines)

    def take(self) -> list[str]:
        """Return the lines that came since the last time."""
        lines, self._lines = self._lines, []
        return lines
