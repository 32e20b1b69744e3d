"""The job that fills a table: every row comes back, with what the knowledge base says of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, cast

from adapters.filling.filler import Filler, FillOptions
from adapters.filling.filling import fill_file
from adapters.filling.table import MEDIA_TYPES, format_of
from web.jobs.job import Outcome, ResultFile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adapters.tasks.answerer import AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from web.deadline import Deadline
    from web.engine import Engine
    from web.jobs.context import JobContext


def fill(engine: Engine, context: JobContext) -> Outcome:
    """Fill the uploaded table; after an interruption it goes on behind the last rows that were noted.

    Raises:
        TableError: the table cannot be read.
        MissingExtraError: a library for Excel or Parquet is not installed.
    """
    given = context.arguments
    options = options_of(given["options"])
    source = next(iter(context.input.iterdir()))
    kind = format_of(source, given["out"])
    context.result.unlink(missing_ok=True)  # of a process that ended before it could say so
    report = fill_file(
        source,
        context.result,
        filler_of(engine, options),
        options,
        format=given["format"],
        out_format=kind,
        keep_partial=True,
        progress=lambda done, total: context.progress("rows filled", done, total),
    )
    facts = report.facts()
    del facts["resumed"]
    stem = PurePosixPath(source.name).stem
    return Outcome(facts, ResultFile(f"{stem}-filled.{kind}", MEDIA_TYPES[kind]))


def options_of(given: Mapping[str, Any]) -> FillOptions:
    """Return the options that a job keeps as JSON values."""
    return FillOptions(**{**given, "relations": tuple(given["relations"])})


def filler_of(engine: Engine, options: FillOptions, deadline: Deadline | None = None) -> Filler:
    """Return what fills rows through the service's queue, so that other callers have their turn between."""

    def ask(requests: Sequence[TaskInput], how: AnswerOptions) -> list[TaskAnswer | Exception]:
        return cast("list[TaskAnswer | Exception]", engine.ask_each([(each, how) for each in requests], deadline))

    return Filler(options, ask, engine.knowledge_base.reader)
