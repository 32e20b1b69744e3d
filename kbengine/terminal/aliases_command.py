"""The commands about other names of documents: `aliases list`, `match`, `add`, `delete` and `import`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import Output, standard_output
from kbengine.terminal.options import PATH, json_option, kb_option, option
from kbengine.terminal.service import Service, kb_or_service_option, refuse_of_directory

if TYPE_CHECKING:
    from storage.alias_records import AliasSource

GIVEN = ("wikidata", "document", "redirect", "mention", "tsv", "manual")
SOURCES = (*GIVEN, "anchor", "title")


@click.group()
def aliases() -> None:
    """List, look up, add, delete and import other names of documents.

    \b
    Example: kbengine aliases add ulm "Ulma" "Ulm an der Donau" --kb my-kb
    """


@aliases.command("list")
@kb_or_service_option
@json_option
@option("--doc doc_id", str, "List only names of the document with this id; by default those of all documents.")
@option("--prefix", str, "List only names that begin so, accents and case folded; by default all.")
@option("--source", SOURCES, "List only names from this source; by default from all.")
@option("--after", str, "Go on after this cursor, the last one of the page before; by default at the beginning.")
@option("--limit", int, "List at most so many names.", default=100)
def list_command(
    kb: Path | None,
    doc_id: str | None,
    prefix: str | None,
    source: AliasSource | None,
    after: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List names, ordered with accents and case folded: of all documents, of one, or by their beginning.

    \b
    Examples:
      kbengine aliases list --kb my-kb --doc ulm
      kbengine aliases list --kb my-kb --prefix new --limit 20
    """
    if kb is None:
        from kbengine.terminal.service_names import listed_names

        rows, following = listed_names(
            Service.of_environment(), doc_id=doc_id, prefix=prefix, source=source, after=after, limit=limit
        )
        _table(standard_output(as_json=as_json), rows)
        if following and not as_json:
            click.echo(f"next page: --after '{following}'", err=True)
        return
    from kbengine.terminal.facts import alias_facts
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        found = reader.list_aliases(doc_id=doc_id, prefix=prefix, source=source, after=after, limit=limit)
    rows = [alias_facts(each) for each in found]
    _table(standard_output(as_json=as_json), rows, hidden=() if as_json else ("cursor",))
    if len(found) == limit and not as_json:
        click.echo(f"next page: --after '{found[-1].cursor}'", err=True)


@aliases.command()
@kb_or_service_option
@json_option
@click.argument("names", nargs=-1, required=True)
def match(kb: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Show the documents of which NAMES are other names: how well each matches, and its prior. Titles do not count.

    \b
    Example: kbengine aliases match "ulma" --kb my-kb
    """
    if kb is None:
        from kbengine.terminal.service_names import matching_names

        _table(standard_output(as_json=as_json), matching_names(Service.of_environment(), names))
        return
    from kbengine.terminal.facts import match_facts
    from storage.reader import KBReader

    with KBReader.open(kb) as reader:
        found = reader.alias_matches(names)
        documents = reader.documents({match.document_id for matches in found for match in matches})
    pairs = [(name, match) for name, matches in zip(names, found, strict=True) for match in matches]
    rows = [match_facts(name, documents[m.document_id], m) for name, m in pairs if m.document_id in documents]
    _table(standard_output(as_json=as_json), rows)


@aliases.command()
@kb_or_service_option
@json_option
@click.argument("doc_id")
@click.argument("names", nargs=-1, required=True)
@option("--prior", float, "Probability that such a name means the document; by default it is counted.")
@option("--source", GIVEN, "Say where the names are from.", default="manual")
@option("--replace", bool, "Give names that are there already the new prior.")
def add(
    kb: Path | None,
    doc_id: str,
    names: tuple[str, ...],
    prior: float | None,
    source: AliasSource,
    replace: bool,
    as_json: bool,
) -> None:
    """Give the document DOC_ID other NAMES; they are used from the next query on.

    \b
    Example: kbengine aliases add ulm "Ulma" "Ulm an der Donau" --kb my-kb
    """
    if kb is None:
        from kbengine.terminal.service_names import add_names

        refuse_of_directory("source")
        facts = add_names(Service.of_environment(), doc_id, names, prior=prior, replace=replace)
        standard_output(as_json=as_json).facts(facts)
        return
    from storage.alias_records import NewAlias
    from storage.writer import KBWriter

    new = [(doc_id, NewAlias(name, source, prior)) for name in names]
    with KBWriter.open(kb) as writer:
        change = writer.add_aliases(new, replace=replace)
    standard_output(as_json=as_json).facts({"added": change.aliases, "generation": change.generation})


@aliases.command()
@kb_or_service_option
@json_option
@click.argument("doc_id")
@click.argument("names", nargs=-1)
@option("--all delete_all", bool, "Delete all names of the document instead of NAMES.")
@option("--source", SOURCES[:-1], "Delete only names from this source; by default from all.")
def delete(
    kb: Path | None, doc_id: str, names: tuple[str, ...], delete_all: bool, source: AliasSource | None, as_json: bool
) -> None:
    """Take NAMES, spelt as they are listed, from the document DOC_ID; those counted from links lose the links, too.

    \b
    Examples:
      kbengine aliases delete ulm "Ulma" --kb my-kb
      kbengine aliases delete ulm --all --source redirect --kb my-kb
    """
    if bool(names) == delete_all:
        raise click.UsageError("name the aliases to delete, or pass --all to delete all of them")
    if kb is None:
        from kbengine.terminal.service_names import delete_names

        refuse_of_directory("source")
        facts = delete_names(Service.of_environment(), doc_id, None if delete_all else names)
        standard_output(as_json=as_json).facts(facts)
        return
    from storage.writer import KBWriter

    with KBWriter.open(kb) as writer:
        change = writer.delete_aliases(doc_id, None if delete_all else names, source=source)
    standard_output(as_json=as_json).facts({"deleted": change.aliases, "generation": change.generation})


@aliases.command("import")
@kb_option
@json_option
@click.argument("tables", nargs=-1, required=True, type=PATH)
@option("--source", GIVEN, "Say where the names are from.", default="tsv")
@option("--skip-bad", bool, "Count lines that cannot be used instead of refusing all.")
def import_command(kb: Path, tables: tuple[Path, ...], source: AliasSource, skip_bad: bool, as_json: bool) -> None:
    """Store the names in TABLES (plain, gzip or zstd; `-` is stdin), all in one commit.

    A line is: name, tab, the document's id or title, and optionally a tab and the prior. Or it is an entity-linking
    record in KILT form, whose marked mention is a name of its page; those are counted over all files given.

    \b
    Examples:
      kbengine aliases import redirects.tsv.gz --source redirect --skip-bad --kb my-kb
      kbengine aliases import aidayago2-train-kilt.jsonl --skip-bad --kb my-kb
    """
    from kbengine.build.alias_import import import_aliases
    from kbengine.progress import progress_for_terminal

    with progress_for_terminal() as progress:
        report = import_aliases(kb, tables, source=source, skip_bad=skip_bad, progress=progress)
    for skipped in report.first_skipped:
        click.echo(f"skipped: {skipped}", err=True)
    standard_output(as_json=as_json).facts(report.facts())


def _table(output: Output, rows: Sequence[Mapping[str, Any]], *, hidden: Sequence[str] = ()) -> None:
    """Write rows with the same keys as a table, or as one JSON object a row."""
    columns = [name for name in (rows[0] if rows else ()) if name not in hidden]
    output.table(columns, [[row[name] for name in columns] for row in rows])
