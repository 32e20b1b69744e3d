"""The job that exports the knowledge base: everything in one file to download."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adapters.exporting.export import EXPORT_TYPES, SUFFIXES, ExportForm, export
from web.jobs.job import Outcome, ResultFile

if TYPE_CHECKING:
    from web.engine import Engine
    from web.jobs.context import JobContext


def export_kb(engine: Engine, context: JobContext) -> Outcome:
    """Export the newest commit while queries and changes go on; after an interruption it begins again.

    Raises:
        MissingExtraError: Parquet is wanted, and pyarrow is not installed.
        CorruptError: the knowledge base is damaged.
        StorageFullError: there is no space.
    """
    form: ExportForm = context.arguments["form"]
    reader = engine.knowledge_base.reader
    total = reader.info().documents
    context.progress("documents exported", 0, total)
    report = export(
        reader,
        context.result,
        form,
        base=context.arguments["base"],
        progress=lambda done: context.progress("documents exported", done, total),
    )
    name = f"{engine.knowledge_base.path.name}-{report.generation}{SUFFIXES[form][0]}"
    facts = {"generation": report.generation, report.what: report.n}
    return Outcome(facts, ResultFile(name, EXPORT_TYPES[form]))
