"""Calibrating a task on development files: weights, probabilities and a threshold, ready to be stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from adapters.calibration.confidence_fitting import (
    ConfidenceFit,
    Judgement,
    ThresholdRule,
    fit_confidence,
    linear_model,
)
from adapters.calibration.weight_fitting import (
    SEEN_PASSAGES,
    SEEN_WITH,
    SPARSE_WEIGHTS,
    Candidates,
    WeightFit,
    candidates_of,
    fit_weights,
)
from adapters.errors import CalibrationError
from adapters.kilt.gold_rows import GoldRow, read_rows, rows_of
from adapters.kilt.records import TaskRecord
from adapters.tasks.answerer import read_by_default
from adapters.tasks.calibration import (
    SETTING,
    TaskCalibration,
    calibrations_of,
    with_task,
)
from adapters.tasks.confidence import shares_of
from adapters.tasks.defaults import DEFAULT_UNITS, PHRASE_TASKS, TASK_WEIGHTS
from adapters.tasks.grouping import Group
from adapters.tasks.retrieval import Retrieved, retrieve
from kbengine.corpus.normalise import norm
from kbengine.errors import InvalidOptionError, QueryError
from kbengine.inputs import Task
from kbengine.progress import NoProgress, ProgressSink
from kbengine.search.query import Effort, SearchOptions, Weights

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase

T = TypeVar("T")

BATCH = 32
JUDGED_ANSWERS = 5
"""Answers of each record that probabilities are learned from."""


@dataclass(frozen=True)
class CalibrateOptions:
    """How to calibrate.

    Attributes:
        with_weights: Whether to fit the passage, lexical, sparse and name weights too; else those in use stay.
        threshold_for: What the threshold is chosen for: `f1`, `precision=P`, `coverage=C` or `none`.
        rows: Records of each file, drawn at random where it has more.
        seed: Of the draw, the folds and the halves.
        effort: Of the searches that weights are fitted on.
    """

    with_weights: bool = True
    threshold_for: str = "f1"
    rows: int = 1000
    seed: int = 13
    effort: Effort = "normal"

    def __post_init__(self) -> None:
        ThresholdRule(self.threshold_for)
        if not 1 <= self.rows <= 1_000_000:
            raise InvalidOptionError(f"the rows of a file are {self.rows}, wanted 1 to 1,000,000")


def calibrate(
    knowledge_base: KnowledgeBase,
    files: Sequence[Path],
    task: Task,
    *,
    options: CalibrateOptions | None = None,
    encoder: str | None = None,
    progress: ProgressSink | None = None,
    notice: Callable[[str], None] | None = None,
) -> TaskCalibration:
    """Return the calibration of a task fitted on KILT files with gold answers; nothing is stored yet.

    A question's or slot's answer is right when it equals a gold answer after KILT's normalisation, a mention's or a
    dialogue's when its document is a gold page of the record. A file of which no answer is ever right (its answers may
    be sentences) is left out of the probabilities, with a notice.

    Args:
        knowledge_base: what is asked.
        files: KILT JSONL, plain or gzipped; each counts alike, however many rows it has.
        task: of all the files.
        options: what to fit.
        encoder: the name of an encoder tuned for the knowledge base; None is the one that answers the task.
        progress: shows how far it is.
        notice: told of each record and file that is left out.

    Raises:
        CalibrationError: too few records, or nothing to tell apart in them.
        RecordError: a file cannot be read, or has no gold.
        MissingExtraError: scikit-learn is not installed.
    """
    options = options or CalibrateOptions()
    progress = progress or NoProgress()
    tell = notice or _ignore
    linear_model()  # what is missing is told before the searches, not after them
    rows = {name: _rows(path, task, options, tell) for name, path in _named(files).items()}
    encoder = knowledge_base.encoder_name(encoder, task=task)
    fingerprint = knowledge_base.encoder_for(encoder).fingerprint
    weights = calibrations_of(knowledge_base.setting(SETTING), encoder=fingerprint).weights(task)
    weight_fit: WeightFit | None = None
    if options.with_weights:
        weight_fit = _weight_fit(knowledge_base, rows, task, weights, options, encoder, progress, tell)
        weights = weight_fit.weights
    progress.begin("probabilities: searching", sum(len(each) for each in rows.values()), "")
    judged = {
        name: _judged(knowledge_base, encoder, task, each, weights, progress, tell) for name, each in rows.items()
    }
    fit = fit_confidence(_useful(judged, tell), ThresholdRule(options.threshold_for), seed=options.seed)
    return TaskCalibration(
        task=task,
        encoder=fingerprint,
        weights=weights,
        weights_fitted=weights != TASK_WEIGHTS[task],
        confidence=fit.confidence,
        threshold=fit.threshold,
        threshold_for=options.threshold_for,
        answerable_threshold=fit.answerable_threshold,
        report=_report(knowledge_base, rows, weight_fit, fit),
    )


def refit_weights(
    knowledge_base: KnowledgeBase,
    files: Sequence[Path],
    task: Task,
    *,
    options: CalibrateOptions | None = None,
    encoder: str | None = None,
    progress: ProgressSink | None = None,
    notice: Callable[[str], None] | None = None,
) -> WeightFit:
    """Return the weights fitted for an encoder, with figures of rows that they were not chosen from; none is stored.

    Arguments and errors are those of `calibrate`, of which this is the first half.
    """
    options = options or CalibrateOptions()
    tell = notice or _ignore
    rows = {name: _rows(path, task, options, tell) for name, path in _named(files).items()}
    encoder = knowledge_base.encoder_name(encoder, task=task)
    fingerprint = knowledge_base.encoder_for(encoder).fingerprint
    current = calibrations_of(knowledge_base.setting(SETTING), encoder=fingerprint).weights(task)
    return _weight_fit(knowledge_base, rows, task, current, options, encoder, progress or NoProgress(), tell)


def _weight_fit(
    knowledge_base: KnowledgeBase,
    rows: Mapping[str, Sequence[GoldRow]],
    task: Task,
    current: Weights,
    options: CalibrateOptions,
    encoder: str | None,
    progress: ProgressSink,
    notice: Callable[[str], None],
) -> WeightFit:
    sparse_weights = {current.sparse, *(SPARSE_WEIGHTS if knowledge_base.has_sparse(encoder) else ())}
    progress.begin("weights: searching", len(sparse_weights) * sum(len(each) for each in rows.values()), "")
    candidates = {
        sparse: {
            name: _candidates(knowledge_base, encoder, each, options.effort, sparse, progress, notice)
            for name, each in rows.items()
        }
        for sparse in sorted(sparse_weights)
    }
    return fit_weights(candidates, current, phrases=task in PHRASE_TASKS, seed=options.seed)


def judge_records(
    knowledge_base: KnowledgeBase,
    records: Sequence[TaskRecord],
    task: Task,
    *,
    progress: ProgressSink | None = None,
    notice: Callable[[str], None] | None = None,
) -> list[Judgement]:
    """Return the features of the answers to each record by the task's default weights, and which are right."""
    tell = notice or _ignore
    rows = rows_of(records, task, tell)
    return _judged(
        knowledge_base,
        knowledge_base.encoder_name(task=task),
        task,
        rows,
        TASK_WEIGHTS[task],
        progress or NoProgress(),
        tell,
    )


def store(knowledge_base: KnowledgeBase, calibration: TaskCalibration) -> None:
    """Store the calibration with the knowledge base: a commit, after which every reader answers by it."""
    knowledge_base.set_setting(SETTING, with_task(knowledge_base.setting(SETTING), calibration))


def _named(files: Sequence[Path]) -> dict[str, Path]:
    """Return the files by their names."""
    named: dict[str, Path] = {}
    for path in files:
        if path.name in named:
            raise InvalidOptionError(f"two files are called {path.name}; rename one, or give it once")
        named[path.name] = path
    if not named:
        raise InvalidOptionError("no file was given, wanted one or more development files with gold answers")
    return named


def _rows(path: Path, task: Task, options: CalibrateOptions, notice: Callable[[str], None]) -> list[GoldRow]:
    """Return records of the file, those that cannot be used told of."""
    rows = read_rows(path, task, limit=options.rows, seed=options.seed, notice=notice)
    if not rows:
        raise CalibrationError(f"{path} holds no record that can be asked as {task}; check the file and --task")
    return rows


def _candidates(
    knowledge_base: KnowledgeBase,
    encoder: str | None,
    rows: Sequence[GoldRow],
    effort: Effort,
    sparse: float,
    progress: ProgressSink,
    notice: Callable[[str], None],
) -> list[Candidates]:
    """Return the passages found for each record, with the parts of their scores, unweighted but for the sparse one."""
    seen_with = replace(SEEN_WITH, sparse=sparse)

    def ask(batch: Sequence[GoldRow]) -> list[Candidates]:
        queries = [replace(row.query, unit="passage", weights=seen_with) for row in batch]
        results = knowledge_base.search(
            queries, k=SEEN_PASSAGES, effort=effort, explain=True, truncate=True, encoder=encoder
        )
        return [
            candidates_of(
                result.hits,
                seen_with=seen_with,
                gold_answers=row.record.answers(),
                gold_pages=_gold_pages(row.record),
            )
            for row, result in zip(batch, results, strict=True)
        ]

    return _in_batches(rows, ask, progress, notice)


def _judged(
    knowledge_base: KnowledgeBase,
    encoder: str | None,
    task: Task,
    rows: Sequence[GoldRow],
    weights: Weights,
    progress: ProgressSink,
    notice: Callable[[str], None],
) -> list[Judgement]:
    """Return the answers to each record as they would be given with the weights, and which are right."""
    options = SearchOptions(k=JUDGED_ANSWERS, truncate=True, encoder=encoder)

    def ask(batch: Sequence[GoldRow]) -> list[Judgement]:
        n_read = read_by_default(task, knowledge_base)
        queries = [replace(row.query, unit=DEFAULT_UNITS[task], weights=weights, read=n_read) for row in batch]
        found = retrieve(knowledge_base, [row.asked for row in batch], queries, options)
        return [_judgement(task, row.record, answers) for row, answers in zip(batch, found, strict=True)]

    return _in_batches(rows, ask, progress, notice)


def _in_batches(
    rows: Sequence[GoldRow],
    ask: Callable[[Sequence[GoldRow]], list[T]],
    progress: ProgressSink,
    notice: Callable[[str], None],
) -> list[T]:
    """Return what `ask` gives for the rows, a batch at a time; a row that cannot be encoded is told of and left out."""
    if len(rows) > BATCH:
        batches = [rows[begin : begin + BATCH] for begin in range(0, len(rows), BATCH)]
        return [each for batch in batches for each in _in_batches(batch, ask, progress, notice)]
    try:
        found = ask(rows)
    except QueryError as error:
        if len(rows) == 1:
            record = rows[0].record
            notice(f"left out: {record.file}:{record.line}: {error.message:.300}")
            return []
        middle = len(rows) // 2
        halves = (rows[:middle], rows[middle:])
        return [each for half in halves for each in _in_batches(half, ask, progress, notice)]
    progress.advance(len(rows))
    return found


def _judgement(task: Task, record: TaskRecord, found: Retrieved) -> Judgement:
    # Of the first round alone, as where the probabilities are used.
    groups = found.groups[: found.round_ends[0]]
    is_right = _right_answers(task, record)
    return Judgement(
        features=found.features()[:JUDGED_ANSWERS],
        is_right=np.asarray([is_right(group) for group in groups[:JUDGED_ANSWERS]], dtype=np.bool_),
        share=shares_of(groups)[0] if groups else 0.0,
        has_gold=bool(record.answers()) if task in PHRASE_TASKS else any(_gold_pages(record)),
    )


def _right_answers(task: Task, record: TaskRecord) -> Callable[[Group], bool]:
    """Return what tells whether an answer to the record is right."""
    if task in PHRASE_TASKS:
        answers = {norm(answer) for answer in record.answers()}
        return lambda group: norm(group.text) in answers
    pages = {page for ids in _gold_pages(record) for page in ids}
    return lambda group: group.hits[0].document.doc_id.strip() in pages


def _gold_pages(record: TaskRecord) -> list[list[str]]:
    """Return the page ids of each gold output that names one."""
    return [
        [entry.partial_key(("wikipedia_id",)) for entry in output.provenance if "wikipedia_id" in entry.fields]
        for output in record.outputs
    ]


def _useful(judged: Mapping[str, Sequence[Judgement]], notice: Callable[[str], None]) -> list[Judgement]:
    """Return the judgements of the files of which some answer is right."""
    useful: list[Judgement] = []
    for name, judgements in judged.items():
        if any(each.is_right.any() for each in judgements):
            useful += judgements
        else:
            notice(
                f"{name}: none of the answers to its {len(judgements)} records is right, so it says nothing about "
                "probabilities and is left out of them"
            )
    return useful


def _report(
    knowledge_base: KnowledgeBase, rows: Mapping[str, Sequence[GoldRow]], weights: WeightFit | None, fit: ConfidenceFit
) -> dict[str, Any]:
    return {
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": knowledge_base.generation,
        "files": {name: len(each) for name, each in rows.items()},
        "weights": None if weights is None else dict(weights.report),
        "confidence": fit.report,
    }


def _ignore(_: str) -> None:
    """Do nothing."""
