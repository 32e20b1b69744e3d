"""Tuning from rows to a stored encoder: prepare, run the loop, keep what beats the start."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kbengine.encoders.encoder import Encoder
from kbengine.encoders.query_input import QueryIds
from kbengine.encoders.tuned_encoders import base_checkpoint, store_tuned
from kbengine.encoders.tuned_info import TunedInfo
from kbengine.errors import EncoderError, QueryError, TrainingDataError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.processes import Processes, join_processes
from kbengine.learning.loop.report import TrainingReport
from kbengine.learning.loop.task import Evaluation
from kbengine.learning.tuning.candidates import CandidateSource
from kbengine.learning.tuning.options import TuningOptions
from kbengine.learning.tuning.query_side import QuerySide
from kbengine.learning.tuning.rows import TuningRow
from kbengine.learning.tuning.task import TuningTask
from kbengine.progress import NoProgress, ProgressSink
from kbengine.reading.reader import Reader
from kbengine.search.searcher import Searcher
from storage.durable import write_durably
from storage.tuned_files import check_name, list_tuned

TUNING_FILE = "tuning.json"
Score = Callable[[Searcher], Evaluation]


@dataclass(frozen=True)
class TunedEncoder:
    """What a tuning gave.

    Attributes:
        info: The stored encoder; None when nothing beat the start on the development set, which is kept then, or when
            nothing was learned.
        report: How the run went.
        rows: By file, the rows learned from.
        unusable: By file and reason, the rows that were left out.
        without_right: By file, rows seen in the last epoch and those of them without a right candidate.
        taught: Whether any row had a right candidate to learn from.
        run: The directory with log, curves and checkpoints.
    """

    info: TunedInfo | None
    report: TrainingReport
    rows: Counter[str]
    unusable: dict[str, Counter[str]]
    without_right: dict[str, dict[str, int]]
    taught: bool
    run: Path

    def facts(self) -> dict[str, Any]:
        """Return what people want to know at the end."""
        report = self.report
        return {
            "stored": self.info is not None,
            "encoder": None if self.info is None else self.info.name,
            "fingerprint": None if self.info is None else self.info.fingerprint,
            "bytes": None if self.info is None else self.info.n_bytes,
            "rows": dict(self.rows),
            "unusable_rows": {file: dict(reasons) for file, reasons in self.unusable.items()},
            "last_epoch": self.without_right,
            "taught": self.taught,
            "steps": report.n_steps,
            "best_step": report.best_step,
            "score_before": report.first_score,
            "score_after": report.best_score,
            "first_loss": report.first_loss,
            "last_loss": report.last_loss,
            "elapsed_s": report.elapsed_s,
            "run": str(self.run),
        }


@dataclass(frozen=True)
class PreparedRows:
    """Rows that can be learned from with their token ids, and what was left out."""

    rows: list[TuningRow] = field(default_factory=list)
    ids: list[QueryIds] = field(default_factory=list)
    unusable: dict[str, Counter[str]] = field(default_factory=dict)


def tune(
    knowledge_base: KnowledgeBase,
    rows: Sequence[TuningRow],
    name: str,
    options: TuningOptions,
    *,
    score: Score | None = None,
    run: Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TunedEncoder:
    """Return what came of tuning the knowledge base's own encoder; the result is stored with it under the name.

    The index and the encoder's passage side stay as they are. With a development score the best weights are stored, and
    nothing is when none of them beats the start; without one the last are. Nothing is stored either when no row had a
    right candidate.

    Args:
        knowledge_base: what is searched.
        rows: what is learned from.
        name: of the tuned encoder.
        options: how.
        score: gives the development score of a searcher.
        run: where the log, checkpoints and curves go; by default `KB.tuning/NAME` beside the knowledge base.
        overwrite: whether an encoder of the name is replaced.
        resume: go on with the interrupted run of the same rows and options.
        processes: those this one belongs to.
        progress: where to report.
        stop: asked after every step.

    Raises:
        EncoderError: there is an encoder of the name and `overwrite` is off, or no reader where the options name one.
        EncoderMismatchError: the knowledge base's encoder is of no directory that could be tuned from.
        TrainingDataError: no row can be learned from.
        TrainingError: the run's directory holds another run, or a gradient is not finite.
        KeyboardInterrupt: as asked for by `stop`; a checkpoint was written before.
    """
    progress = progress or NoProgress()
    refuse_existing(knowledge_base.path, name, overwrite=overwrite)
    processes = processes or join_processes(options.loop.device)
    base = knowledge_base.encoder
    reader = None if options.reader is None else Reader.load(options.reader, device=str(processes.device))
    prepared = prepare(rows, base, options)
    searcher = knowledge_base.searcher(base)
    task = TuningTask(
        QuerySide(base_checkpoint(base).model(dropout=options.dropout), options.parameters, seed=options.loop.seed),
        base,
        prepared.rows,
        prepared.ids,
        CandidateSource(
            searcher,
            top_k=options.top_k,
            retrieval=options.retrieval,
            loss=options.loss,
            effort=options.effort,
            with_lexical=options.scores != "phrase",
            reader=reader,
            n_read=options.reader_passages,
        ),
        options,
        evaluate=None if score is None else lambda encoder: score(knowledge_base.searcher(encoder)),
    )
    run = run or run_directory(knowledge_base.path, name)
    report = train(task, options.loop, run, resume=resume, processes=processes, progress=progress, stop=stop)
    counted = Counter(row.source for row in prepared.rows)
    result = TunedEncoder(None, report, counted, prepared.unusable, task.without_right(), task.was_taught(), run)
    if processes.is_main and result.taught and (report.best_step is None or report.best_step > 0):
        info = store_tuned(
            knowledge_base.path,
            name,
            task.model.deltas(),
            base=base,
            options=options.parameters,
            tasks=tuple(dict.fromkeys(row.task for row in prepared.rows)),
            report={
                "loss": options.loss,
                "reader": options.reader,
                "rows": dict(counted),
                "steps": report.n_steps,
                "best_step": report.best_step,
                "before": dict(report.first),
                "after": dict(report.best),
                "generation": knowledge_base.generation,
            },
        )
        result = replace(result, info=info)
    if processes.is_main:
        facts = result.facts() | {"options": options.to_json()}
        write_durably(run / TUNING_FILE, [(json.dumps(facts, indent=2, default=str) + "\n").encode()], replace=True)
    processes.wait()
    return result


def run_directory(path: Path, name: str) -> Path:
    """Return where the log, checkpoints and report of a tuning are unless another place is given."""
    resolved = path.resolve()
    return resolved.with_name(f"{resolved.name}.tuning") / name


def refuse_existing(path: Path, name: str, *, overwrite: bool) -> None:
    """Raise EncoderError if an encoder has the name, better now than after hours; InvalidOptionError if none may."""
    if check_name(name) in list_tuned(path) and not overwrite:
        raise EncoderError(f"{path} has a tuned encoder {name!r} already; choose another name, or pass --overwrite")


def prepare(rows: Sequence[TuningRow], encoder: Encoder, options: TuningOptions) -> PreparedRows:
    """Return the rows that the loss can learn from, tokenised, and why others cannot be used.

    Raises:
        TrainingDataError: none can.
    """
    prepared = PreparedRows()
    for row in rows:
        problem = row.lacks(options.loss) if options.reader is None else None  # a reader teaches without gold
        if problem is None:
            try:
                prepared.ids.extend(encoder.query_ids([row.query.input], truncate=True))
                prepared.rows.append(row)
            except QueryError as error:
                problem = error.code
        if problem is not None:
            prepared.unusable.setdefault(row.source, Counter())[problem] += 1
    if not prepared.rows:
        reasons = sum(prepared.unusable.values(), Counter())
        raise TrainingDataError(
            f"none of {len(rows)} rows can be learned from with --loss {options.loss} ({dict(reasons)}); give other "
            "rows or another loss"
        )
    return prepared
