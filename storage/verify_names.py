"""The part of verification that looks at names: whether what is derived of them follows from what was given."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from storage import schema
from storage.alias_rows import (
    alias_row,
    alias_table_exists,
    delete_alias_rows,
    hidden_names,
    insert_alias_rows,
)
from storage.database import DATABASE_NAME
from storage.findings import Findings
from storage.folding import accent_key
from storage.links import anchor_counts, count_anew

__all__ = ["check_names", "remake_names"]

_STREAM_ROWS = 1_000
_NOT_LIVE = "document_id NOT IN (SELECT document_id FROM documents WHERE dead_generation IS NULL)"


def check_names(connection: Connection, findings: Findings, *, deep: bool, building: bool) -> None:
    """Note in `findings` what `remake_names` would change.

    Args:
        connection: An open connection.
        findings: Where what is wrong is noted.
        deep: Also count all links again and fold all titles.
        building: Whether the links have not been counted yet.
    """
    if not alias_table_exists(connection):
        return
    for table in (schema.aliases, schema.links):
        n_rows = connection.exec_driver_sql(f"SELECT count(*) FROM {table.name} WHERE {_NOT_LIVE}").scalar_one()
        if n_rows:
            findings.add(f"{DATABASE_NAME}: {table.name}", f"{n_rows} rows of no live document", "repairable")
    where = f"{DATABASE_NAME}: {schema.aliases.name}"
    misfiled = sum(1 for _ in _misfiled(connection))
    if misfiled:
        findings.add(where, f"{misfiled} aliases are filed under another key than their own", "repairable")
    if not deep:
        return
    difference = _first_difference(_title_rows(connection), _stored_title_names(connection))
    if difference is not None:
        findings.add(where, f"names of titles do not follow from the title of document {difference}", "repairable")
    if not building:
        difference = _first_difference(anchor_counts(connection), _stored_counts(connection))
        if difference is not None:
            findings.add(where, f"aliases do not follow from the links to document {difference}", "repairable")


def remake_names(connection: Connection, *, building: bool) -> None:
    """Derive again all that is made of names, titles and links."""
    for table in (schema.aliases, schema.links):
        connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE {_NOT_LIVE}")
    misfiled = list(_misfiled(connection))
    delete_alias_rows(connection, misfiled)
    insert_alias_rows(
        connection,
        [
            alias_row(row["document_id"], row["alias"], row["source"], uses=row["uses"], prior=row["prior"])
            for row in misfiled
        ],
    )
    connection.exec_driver_sql("DELETE FROM aliases WHERE source = 'title'")
    insert_alias_rows(connection, (alias_row(*row, "title") for row in _title_rows(connection)))
    if not building:
        count_anew(connection)


def _misfiled(connection: Connection) -> Iterator[Mapping[Any, Any]]:
    """Yield the rows whose key is not the accent key of their alias: another version of Unicode may have made it."""
    for row in _stream(connection, "SELECT * FROM aliases").mappings():
        if row["folded"] != accent_key(row["alias"]):
            yield row


def _title_rows(connection: Connection) -> Iterator[tuple[int, str]]:
    """Yield each live document with each name of its title that the lexical index does not fold."""
    statement = "SELECT document_id, title FROM documents WHERE dead_generation IS NULL ORDER BY document_id"
    for document_id, title in _stream(connection, statement):
        for name in sorted(hidden_names(title), key=str.encode):
            yield document_id, name


def _stored_title_names(connection: Connection) -> Iterator[Sequence[Any]]:
    statement = "SELECT document_id, alias FROM aliases WHERE source = 'title' ORDER BY document_id, alias"
    return iter(_stream(connection, statement))


def _stored_counts(connection: Connection) -> Iterator[Sequence[Any]]:
    statement = "SELECT document_id, alias, uses FROM aliases WHERE source = 'anchor' ORDER BY document_id, alias"
    return iter(_stream(connection, statement))


def _first_difference(wanted: Iterable[Sequence[Any]], seen: Iterable[Sequence[Any]]) -> int | None:
    """Return the document id at which two lists begin to differ, None when they do not."""
    for left, right in itertools.zip_longest(wanted, seen):
        if left is None or right is None or tuple(left) != tuple(right):
            return int((left or right)[0])
    return None


def _stream(connection: Connection, statement: str) -> Any:
    return connection.exec_driver_sql(statement, execution_options={"yield_per": _STREAM_ROWS})
