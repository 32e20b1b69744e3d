"""The development score of tuning: EM, page R-precision and KILT-EM of files, fused and by phrases alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from adapters.kilt.downstream import answer_scores
from adapters.kilt.gold_rows import GoldRow
from adapters.kilt.retrieval import PAGE_KEYS, r_precision
from adapters.tasks.defaults import TASK_WEIGHTS
from adapters.tasks.evidence import answer_of
from adapters.tuning.tuning_files import TaskFile
from kbengine.errors import InvalidOptionError
from kbengine.learning.tuning.candidates import PHRASES_ALONE
from kbengine.search.in_halves import in_halves
from kbengine.search.query import Effort, Query, SearchOptions, Weights

if TYPE_CHECKING:
    from adapters.kilt.records import TaskRecord
    from kbengine.inputs import Task
    from kbengine.learning.loop.task import Evaluation
    from kbengine.learning.tuning.losses import Loss
    from kbengine.search.results import Hit
    from kbengine.search.searcher import Searcher

Measured = Literal["em", "rprec", "kilt_em"]
MEASURED: tuple[Measured, ...] = get_args(Measured)
Measure = Literal[Measured, "mean"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
Signals = Literal["fused", "phrase", "both"]
SIGNALS: tuple[Signals, ...] = get_args(Signals)

PAGES = 10
"""Distinct pages searched for: R-precision needs as many as a record has gold pages."""
BATCH = 32


@dataclass(frozen=True)
class ScoreOptions:
    """How a tuned encoder is scored.

    Attributes:
        measure: What decides which weights are best: "em", "rprec", "kilt_em" or "mean", of the last two; the mean over
            the files.
        signals: "fused": as answers are ranked; "phrase": by phrase vectors alone; "both" are measured: fused decides,
            and phrases alone where that is the same (the score is the first plus a thousandth of the second).
        effort: Of the searches; by default that of `kbengine predict`.
    """

    measure: Measure = "rprec"
    signals: Signals = "both"
    effort: Effort = "low"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise InvalidOptionError(f"the measure is {self.measure!r}, wanted one of {', '.join(MEASURES)}")
        if self.signals not in SIGNALS:
            raise InvalidOptionError(f"signals is {self.signals!r}, wanted one of {', '.join(SIGNALS)}")


def usual_measure(loss: Loss) -> Measure:
    """Return the measure that a loss is meant to raise."""
    if loss == "task":
        return "mean"
    return "rprec" if loss in ("doc", "passage") else "kilt_em"


class DevelopmentScore:
    """Scores a searcher on development files; all figures in percent."""

    def __init__(
        self,
        files: Sequence[tuple[TaskFile, Sequence[GoldRow]]],
        options: ScoreOptions,
        weights: Mapping[Task, Weights] | None = None,
    ) -> None:
        """Take the files with their records; weights by task are the tasks' own unless given."""
        self._files = files
        self._options = options
        self._weights = weights or {}

    def __call__(self, searcher: Searcher) -> Evaluation:
        """Return the score of the searcher's encoder: named `FILE SIGNALS MEASURE`, and the means over the files."""
        from kbengine.learning.loop.task import Evaluation

        measured = ("fused", "phrase") if self._options.signals == "both" else (self._options.signals,)
        measures: dict[str, float] = {}
        for file, rows in self._files:
            fused = self._weights.get(file.task) or TASK_WEIGHTS[file.task]
            weights = [PHRASES_ALONE if signals == "phrase" else fused for signals in measured]
            for signals, scores in zip(measured, self._scores(searcher, file.task, rows, weights), strict=True):
                measures |= {f"{file.name} {signals} {name}": value for name, value in scores.items()}
        for signals in measured:
            for name in MEASURED:
                of_files = [measures[f"{file.name} {signals} {name}"] for file, _ in self._files]
                measures[f"mean {signals} {name}"] = sum(of_files) / len(of_files)
        parts = ("rprec", "kilt_em") if self._options.measure == "mean" else (self._options.measure,)
        score, *ties = (sum(measures[f"mean {signals} {part}"] for part in parts) / len(parts) for signals in measured)
        return Evaluation(score + sum(ties) / 1000, measures)

    def _scores(
        self, searcher: Searcher, task: Task, rows: Sequence[GoldRow], weightings: Sequence[Weights]
    ) -> list[dict[str, float]]:
        """Return the figures by each of the weights."""
        sums: list[dict[str, float]] = [dict.fromkeys(map(str, MEASURED), 0.0) for _ in weightings]
        for begin in range(0, len(rows), BATCH):
            batch = rows[begin : begin + BATCH]
            asked = [(row, weights) for weights in weightings for row in batch]
            for i, ((row, _), hits) in enumerate(zip(asked, self._search(searcher, asked), strict=True)):
                rprec = r_precision([hit.document.doc_id.strip() for hit in hits], row.record.outputs, PAGE_KEYS)
                em = _em(answer_of(task, hits), row.record)
                for name, value in (("em", em), ("rprec", rprec), ("kilt_em", em if rprec == 1 else 0.0)):
                    sums[i // len(batch)][name] += value
        return [{name: 100 * value / len(rows) for name, value in each.items()} for each in sums]

    def _search(self, searcher: Searcher, rows: Sequence[tuple[GoldRow, Weights]]) -> list[tuple[Hit, ...]]:
        """Return the best pages of each record by its weights; none for one that cannot be encoded."""
        options = SearchOptions(k=PAGES, unit="document", effort=self._options.effort, truncate=True)

        def search(queries: Sequence[Query]) -> list[tuple[Hit, ...]]:
            return [result.hits for result in searcher.search(queries, options)]

        return in_halves(search, [replace(row.query, weights=weights) for row, weights in rows], lambda _: ())


def _em(answer: str, record: TaskRecord) -> float:
    answers = record.answers()
    return float(answer_scores(answer.strip(), answers).em) if answer.strip() and answers else 0.0
