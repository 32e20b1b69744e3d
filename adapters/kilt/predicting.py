"""Predicting a KILT file: records in, a submission out, in batches, resumable; bad records are named and left blank."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from adapters.errors import RecordError, SubmissionError
from adapters.kilt.datasets import dataset_of
from adapters.kilt.lines import open_text
from adapters.kilt.records import read_inputs
from adapters.kilt.submission import SubmissionWriter
from adapters.kilt.task_files import output_path as output_path
from adapters.kilt.task_files import task_of_file as task_of_file
from adapters.kilt.verdicts import Judging, check_judge
from adapters.tasks.answerer import Answerer
from kbengine.inputs import Task
from kbengine.progress import NoProgress, ProgressSink

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase

from adapters.kilt.predict_options import PredictOptions as PredictOptions
from adapters.kilt.predict_options import answer_options
from adapters.kilt.prediction_run import PredictionRun
from adapters.kilt.prediction_run import PredictReport as PredictReport


def predict_file(
    knowledge_base: KnowledgeBase,
    inputs: str | Path,
    out: Path,
    *,
    task: Task | None = None,
    options: PredictOptions | None = None,
    progress: ProgressSink | None = None,
    notice: Callable[[RecordError], None] | None = None,
    judge: Judging | None = None,
) -> PredictReport:
    """Return the report of predicting every record of a KILT file into a submission.

    Records are read, searched and written in batches: memory does not grow with the file but for its ids. A bad record
    is told to `notice` and, when its id is known, written without an answer, so that the submission is accepted.

    Args:
        knowledge_base: what is asked; its document ids are the pages' ids.
        inputs: KILT JSONL, plain or gzipped; `-` is standard input.
        out: the submission's file, or a directory in which it gets its conventional name.
        task: by default known by the file's name.
        options: pages, batches, resuming, strictness.
        progress: shows how far it is.
        notice: called with every refused record, and with dialogues whose older turns were left out.
        judge: answers each record, a claim, with SUPPORTS or REFUTES by the pages found for it; with it the answer is
            the verdict unless another is asked for.

    Raises:
        InvalidOptionError: the task is not known, `out` cannot be used, or verdicts are asked for without a judge.
        RecordError: a bad record when `options.strict`, or a damaged input file.
        SubmissionError: a file is in the way, or the inputs hold no record with an id.
        StorageFullError: no space; the unfinished file can be resumed.
    """
    options = options or PredictOptions()
    task = task or task_of_file(inputs)
    if judge is not None and options.answer is None:
        options = replace(options, answer="verdict")
    options = options.of_dataset(dataset_of(inputs), task)
    check_judge(options.answer, judge)
    path = output_path(inputs, Path(out))
    progress = progress or NoProgress()
    if str(inputs) != "-":
        with open_text(inputs):  # a wrong path is told before anything is made
            pass
    answerer = Answerer(knowledge_base)
    answerer.check_threshold(task, answer_options(options))
    began = time.perf_counter()
    signature = run_signature(knowledge_base, task, options, judge=judge)
    with SubmissionWriter(path, resume=options.resume, overwrite=options.overwrite, signature=signature) as writer:
        run = PredictionRun(answerer, writer, task, options, progress, notice or _ignore, judge=judge)
        total = None if str(inputs) == "-" or isinstance(progress, NoProgress) else _count_lines(inputs)
        progress.begin(f"predicting {path.name}", total, "")
        for record in read_inputs(inputs, refuse=run.refuse):
            run.add(record)
        run.flush()
        if not run.ids:
            raise SubmissionError(f"{inputs}: no record with an id, so there is nothing to submit; check the file")
        writer.finish()
    run.report.elapsed_s = time.perf_counter() - began
    return run.report


def run_signature(
    knowledge_base: KnowledgeBase, task: Task, options: PredictOptions, *, judge: Judging | None = None
) -> str:
    """Return what the predictions depend on; an unfinished file is only resumed under the same."""
    return json.dumps(
        {
            "kb": str(knowledge_base.path.resolve()),
            "generation": knowledge_base.info().generation,
            "encoder": knowledge_base.encoder_for(options.encoder, task=task).fingerprint,
            "task": task,
            "pages": options.pages,
            "effort": options.effort,
            "weights": None if options.weights is None else asdict(options.weights),
            "strategy": options.strategy,
            "read": options.read,
            "threshold": options.threshold,
            "where": options.where,
            "answer": options.answer,
            "steps": options.steps,
            **({} if judge is None else {"verdict": judge.fingerprint}),
        }
    )


def _count_lines(path: str | Path) -> int | None:
    """Return the number of lines, for the progress bar only; None when the file cannot be read to its end."""
    try:
        with open_text(path) as stream:
            return sum(1 for _ in stream)
    except (OSError, EOFError, RecordError):
        return None


def _ignore(_: RecordError) -> None:
    """Do nothing."""
