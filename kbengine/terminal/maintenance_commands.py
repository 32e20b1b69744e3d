"""The commands that look after a knowledge base: `delete`, `compact`, `verify`, `info`, `export`, `inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import json_option, kb_option, option
from kbengine.terminal.service import Service, kb_or_service_option

if TYPE_CHECKING:
    from storage.verify import VerifyReport


@click.command()
@click.argument("doc_ids", nargs=-1, required=True)
@kb_or_service_option
@json_option
def delete(doc_ids: tuple[str, ...], kb: Path | None, as_json: bool) -> None:
    """Delete documents by id; they are in no answer from the next query on.

    \b
    Example: kbengine delete lincoln-nebraska --kb my-kb
    """
    if kb is None:
        done = Service.of_environment().post("/v1/documents:delete", {"ids": list(doc_ids)})
        standard_output(as_json=as_json).facts({name: done[name] for name in ("deleted", "generation")})
        return
    from storage.writer import KBWriter

    with KBWriter.open(kb) as writer:
        commit = writer.delete(doc_ids)
    standard_output(as_json=as_json).facts({"deleted": commit.documents_deleted, "generation": commit.generation})


@click.command()
@kb_option
@option("--purge", bool, "Also overwrite the space that deleted texts took in the database.")
@json_option
def compact(kb: Path, purge: bool, as_json: bool) -> None:
    """Merge segments, drop deleted documents for good and give their space back.

    \b
    Example: kbengine compact --kb my-kb
    """
    from storage.reader import KBReader
    from storage.writer import KBWriter

    with KBReader.open(kb) as reader:
        before = reader.info()
    with KBWriter.open(kb) as writer:
        writer.compact(purge=purge)
    with KBReader.open(kb) as reader:
        after = reader.info()
    sizes = [sum(each.bytes_by_kind.values()) for each in (before, after)]
    standard_output(as_json=as_json).facts(
        {
            "segments_before": before.segments,
            "segments": after.segments,
            "bytes_before": sizes[0],
            "bytes": sizes[1],
            "generation": after.generation,
        }
    )


@click.command()
@kb_option
@option("--deep", bool, "Also encode a sample of passages again and compare.")
@option("--repair do_repair", bool, "Rebuild what can be rebuilt from the stored text.")
@option("--accept-loss", bool, "With --repair: go on without commits that a damaged log lost.")
@option("--record", bool, "When nothing is wrong: record answers, which later verifications compare with.")
@json_option
def verify(kb: Path, deep: bool, do_repair: bool, accept_loss: bool, record: bool, as_json: bool) -> None:
    """Check every file and table, and answers that were recorded; exit 1 when something is wrong.

    \b
    Example: kbengine verify --deep --kb my-kb
    """
    from kbengine.build.checking import record_kb_answers, repair_kb, verify_kb
    from kbengine.errors import InvalidOptionError

    if accept_loss and not do_repair:
        raise InvalidOptionError("--accept-loss is there without --repair; give both, or restore a backup")
    repaired = repair_kb(kb, accept_loss=accept_loss) if do_repair else []
    report = verify_kb(kb, deep=deep)
    output = standard_output(as_json=as_json)
    for action in repaired:
        output.facts({"repaired": action})
    if report.findings:
        output.table(
            ("severity", "where", "what"), [(each.severity, each.where, each.what) for each in report.findings]
        )
    if report.asked:
        output.facts({"queries_answered_as_before": report.asked - _differing(report)})
    if not as_json:
        output.line("ok: nothing is wrong" if report.ok else "damaged: see above; 'kbengine verify --repair' mends it")
    if not report.ok:
        raise SystemExit(1)
    if record:
        output.facts({"recorded": record_kb_answers(kb)})


def _differing(report: VerifyReport) -> int:
    from storage.recorded_answers import RECORDED_NAME

    return sum(finding.where == RECORDED_NAME for finding in report.findings)


@click.command()
@kb_or_service_option
@json_option
def info(kb: Path | None, as_json: bool) -> None:
    """Show what a knowledge base holds, how large it is and its last commits.

    \b
    Example: kbengine info --kb my-kb
    """
    if kb is None:
        service = Service.of_environment()
        told = service.get("/v1/kb")
        of_service = ("name", "served", "verify")  # not of what is stored
        facts = {"path": service.url} | {name: value for name, value in told.items() if name not in of_service}
    else:
        from kbengine.terminal.facts import kb_facts
        from storage.reader import KBReader

        with KBReader.open(kb, allow_incomplete=True) as reader:
            facts = kb_facts(reader.info())
    output = standard_output(as_json=as_json)
    if as_json:
        output.facts(facts)
        return
    commits = facts.pop("last_commits")
    output.facts(facts)
    output.line()
    columns = ("generation", "at", "operation", "added", "replaced", "deleted", "note")
    output.table(columns, [[commit[name] for name in columns] for commit in commits])


@click.command("documents")
@kb_or_service_option
@option("--out", Path, "Write to this file (.gz and .zst compress); by default to standard output.")
def export_documents(kb: Path | None, out: Path | None) -> None:
    """Write all live documents as JSON lines; `kbengine import` and `kbengine build` read them.

    \b
    Example: kbengine export --kb my-kb --out documents.jsonl.zst
    """
    if kb is None:
        from kbengine.terminal.service_jobs import export_of_service

        if out is None or str(out) == "-":
            raise click.UsageError("--out is missing: what a service exports is written to a file")
        facts = export_of_service(Service.of_environment(), out, {"form": "jsonl"})
        click.echo(f"{facts['documents']:,} documents exported", err=True)
        return
    from kbengine.build.exporting import export_to
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        n = export_to(reader, None if out is None or str(out) == "-" else out)
    click.echo(f"{n:,} documents exported", err=True)


@click.command()
@click.argument("view", required=False)
@kb_option
@option("--limit", int, "Show at most so many rows.", default=20)
@json_option
def inspect(view: str | None, kb: Path, limit: int, as_json: bool) -> None:
    """List the SQL views of a knowledge base, or show the rows of one.

    \b
    Example: kbengine inspect history --kb my-kb
    """
    from storage.inspect import list_views, view_rows

    output = standard_output(as_json=as_json)
    if view is None:
        output.table(("view", "rows", "columns"), [(v.name, v.rows, ", ".join(v.columns)) for v in list_views(kb)])
        return
    rows = view_rows(kb, view, limit=limit)
    output.table(tuple(rows[0]) if rows else (), [tuple(row.values()) for row in rows])
