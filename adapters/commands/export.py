"""`kbengine export`: the documents of a knowledge base in several forms, or the passages found for questions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from click_default_group import DefaultGroup

from adapters.commands.open_domain import export_passages
from kbengine.terminal.maintenance_commands import export_documents
from kbengine.terminal.options import option
from kbengine.terminal.service import Service, kb_or_service_option

if TYPE_CHECKING:
    from adapters.exporting.export import ExportForm


@click.group(cls=DefaultGroup, default="documents", default_if_no_args=True)
def export() -> None:
    """Write all documents, in one of several forms, or the best passages of questions; `documents` may be left out.

    \b
    Examples:
      kbengine export --kb my-kb --out documents.jsonl.zst
      kbengine export sqlite --kb my-kb --out my-kb.db
      kbengine export passages nq-test.qa.csv --kb my-kb --out nq-test.passages.json
    """


@click.command()
@kb_or_service_option
@option("--out", Path, "Write to this file.", required=True)
def parquet(kb: Path | None, out: Path) -> None:
    """Write all passages as Parquet, a row each, with their documents; needs pyarrow.

    \b
    Example: kbengine export parquet --kb my-kb --out passages.parquet
    """
    _write("parquet", kb, out)


@click.command()
@kb_or_service_option
@option("--out", Path, "Write to this file (.gz and .zst compress).", required=True)
@option("--base", str, "Begin the IRIs of documents so.", default="http://localhost:8080/document?id=")
def ntriples(kb: Path | None, out: Path, base: str) -> None:
    """Write documents, names, links and passages as N-Triples, each passage with where it is from.

    \b
    Example: kbengine export ntriples --kb my-kb --out my-kb.nt.gz
    """
    _write("ntriples", kb, out, base=base)


@click.command()
@kb_or_service_option
@option("--out", Path, "Write to this file.", required=True)
def sqlite(kb: Path | None, out: Path) -> None:
    """Write documents, passages, names, links and fields as a plain SQLite file, for sqlite3 and Datasette.

    \b
    Example: kbengine export sqlite --kb my-kb --out my-kb.db
    """
    _write("sqlite", kb, out)


def _write(form: ExportForm, kb: Path | None, out: Path, **options: str) -> None:
    if kb is None:
        from kbengine.terminal.service_jobs import export_of_service

        facts = export_of_service(Service.of_environment(), out, {"form": form, **options})
        what, n = next((name, count) for name, count in facts.items() if name != "generation")
    else:
        from adapters.exporting.export import export as export_all
        from kbengine.progress import Stages, progress_for_terminal
        from storage.reader import KBReader

        with KBReader.open(kb) as reader, progress_for_terminal(quiet=False) as sink:
            stages, total = Stages(sink), reader.info().documents

            def tell(done: int) -> None:
                stages("documents exported", done, total)

            report = export_all(reader, out, form, progress=tell, **options)
        what, n = report.what, report.n
    click.echo(f"{n:,} {what} exported", err=True)


for command in (export_documents, export_passages, parquet, ntriples, sqlite):
    export.add_command(command)
