"""`kbengine evaluate`: reading, the baseline of BM25 and a reader, and open-domain questions as published."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from adapters.commands.open_domain import open_questions, passages
from kbengine.terminal.console import standard_output
from kbengine.terminal.evaluate_reading_command import reading
from kbengine.terminal.options import device_option, dtype_option, json_option, kb_option, option

if TYPE_CHECKING:
    from adapters.kilt.pipeline import PipelineReport
    from kbengine.encoders.device import DTypeChoice
    from kbengine.inputs import Task

READ_TASK_NAMES = ("question", "slot-filling")


@click.group()
def evaluate() -> None:
    """Measure reading, BM25 with a reader, or answers and passages of open-domain questions.

    \b
    Example:
      kbengine evaluate reading dev-v1.1.json --small-corpus
      kbengine evaluate pipeline squad.dev.jsonl.gz --kb my-kb --reader my-reader
      kbengine evaluate open nq-test.qa.csv --kb my-kb
    """


evaluate.add_command(reading)
evaluate.add_command(open_questions)
evaluate.add_command(passages)


@evaluate.command()
@click.argument("dev", nargs=-1, required=True, type=click.Path(path_type=Path))
@kb_option
@option("--reader reader_path", Path, "Read with the cross-encoder in this directory.", required=True)
@option("--task", READ_TASK_NAMES, "Take the files for this task; by default each file's name tells.")
@option("--top-k", int, "Read so many passages for each record.", default=5)
@option("--passages", int, "Find so many passages, whose pages count.", default=20)
@option("--min-margin", float, "Leave answers with a smaller margin over 'no answer' blank; by default none.")
@option("--limit", int, "Read only the first so many records of each file; by default all.")
@option("--out", Path, "Keep the submissions in this directory; by default they are not kept.")
@device_option
@dtype_option
@json_option
def pipeline(
    dev: tuple[Path, ...],
    kb: Path,
    reader_path: Path,
    task: Task | None,
    out: Path | None,
    device: str,
    dtype: DTypeChoice,
    as_json: bool,
    **given: Any,
) -> None:
    """Score BM25's best passages read by a cross-encoder: EM, F1, R-precision and KILT-EM of each KILT file.

    \b
    Example:
      kbengine evaluate pipeline squad.dev.jsonl.gz docred.dev.jsonl.gz --kb my-kb --reader my-reader --top-k 5
    """
    from adapters.kilt.pipeline import PipelineOptions, run_pipeline
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.progress import progress_for_terminal
    from kbengine.reading.reader import Reader

    options = PipelineOptions(**given)
    model = Reader.load(reader_path, device=device, dtype=dtype)
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kbengine-")))
        folder.mkdir(parents=True, exist_ok=True)
        knowledge_base = stack.enter_context(KnowledgeBase.open(kb))
        progress = stack.enter_context(progress_for_terminal())
        reports = [
            run_pipeline(knowledge_base, model, path, folder, task=task, options=options, progress=progress)
            for path in dev
        ]
    _show(reports, as_json)


def _show(reports: list[PipelineReport], as_json: bool) -> None:
    """Write a row for each file and, of several, their unweighted mean."""
    from adapters.kilt.pipeline import FIGURES

    rows = [report.facts() for report in reports]
    if len(rows) > 1:
        macro = {name: round(sum(row[name] for row in rows) / len(rows), 2) for name in FIGURES}
        rows.append({**dict.fromkeys(rows[0]), "file": "macro", **macro})
    standard_output(as_json=as_json).table(tuple(rows[0]), [tuple(row.values()) for row in rows])
