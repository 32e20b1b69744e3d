"""The rows of table `aliases` as they are stored; `storage.alias_look_up` finds names in them.

Functions on an open connection, inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert

from storage import schema
from storage.alias_records import (
    AliasSource,
    NewAlias,
    alias_problem,
    aliases_of_meta,
)
from storage.catalog import chunked
from storage.checksum import check_row, row_checksum, sealed
from storage.folding import accent_key, spelling
from storage.terms import name_term, names_of_title

__all__ = [
    "ALIAS_COLUMNS",
    "SELECT_ALIASES",
    "AliasRow",
    "adopt_stored_names",
    "alias_row",
    "alias_table_exists",
    "checked_rows",
    "delete_alias_rows",
    "has_alias",
    "hidden_names",
    "insert_alias_rows",
    "name_counts",
    "own_rows",
    "rows_of_documents",
]

ALIAS_COLUMNS = tuple(column.name for column in schema.aliases.columns)
SELECT_ALIASES = f"SELECT {', '.join(ALIAS_COLUMNS)} FROM aliases"
_KEY = ("folded", "alias", "document_id", "source")
_STREAM_ROWS = 1_000

AliasRow = dict[str, Any]


def alias_table_exists(connection: Connection) -> bool:
    """Return whether the knowledge base has been brought to the revision that knows aliases."""
    statement = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'aliases'"
    return connection.exec_driver_sql(statement).first() is not None


def has_alias(connection: Connection) -> bool:
    """Return whether any alias is stored."""
    return alias_table_exists(connection) and connection.exec_driver_sql("SELECT 1 FROM aliases").first() is not None


def name_counts(connection: Connection) -> tuple[int, int]:
    """Return how many aliases there are, a name of a document counted once, and how many links."""
    if not alias_table_exists(connection):
        return 0, 0
    # The key begins with name and document, so SQLite counts in one pass without sorting.
    aliases = "SELECT count(*) FROM (SELECT 1 FROM aliases GROUP BY folded, alias, document_id)"
    links = "SELECT coalesce(sum(n_links), 0) FROM links"
    return int(connection.exec_driver_sql(aliases).scalar_one()), int(connection.exec_driver_sql(links).scalar_one())


def name_counts_of(connection: Connection, document_ids: Sequence[int]) -> tuple[int, int]:
    """Return how many aliases and links these documents have, counted as `name_counts` does."""
    if not document_ids or not alias_table_exists(connection):
        return 0, 0
    of = "document_id IN (SELECT value FROM json_each(?))"
    counted = [
        f"SELECT count(*) FROM (SELECT 1 FROM aliases WHERE {of} GROUP BY folded, alias, document_id)",
        f"SELECT coalesce(sum(n_links), 0) FROM links WHERE {of}",
    ]
    ids = (json.dumps([int(each) for each in document_ids]),)
    aliases, links = (int(connection.exec_driver_sql(each, ids).scalar_one()) for each in counted)
    return aliases, links


def alias_row(
    document_id: int, alias: str, source: AliasSource, *, uses: int = 0, prior: float | None = None
) -> AliasRow:
    """Return the row of an alias, with its checksum."""
    return sealed(
        {
            "folded": accent_key(alias),
            "alias": alias,
            "document_id": document_id,
            "source": source,
            "uses": uses,
            "prior": prior,
        }
    )


def own_rows(document_id: int, title: str, aliases: Iterable[NewAlias]) -> list[AliasRow]:
    """Return the rows that a document brings itself: its aliases, and its title where the lexical index cannot."""
    rows = [alias_row(document_id, each.alias, each.source, uses=each.uses, prior=each.prior) for each in aliases]
    return rows + [alias_row(document_id, name, "title") for name in hidden_names(title)]


def hidden_names(title: str) -> list[str]:
    """Return the title's names that the lexical index does not find by their accent keys, such as "Łódź" by "lodz"."""
    found = []
    for name in dict.fromkeys(spelling(each) for each in names_of_title(title)):
        if alias_problem(name) is not None:
            continue
        # A name without any word, such as "!!!", is not indexed at all.
        if name_term(name) == name_term("") or name_term(name) != name_term(accent_key(name)):
            found.append(name)
    return found


def insert_alias_rows(connection: Connection, rows: Iterable[AliasRow]) -> int:
    """Insert rows and return how many; one with the same name, document and source is replaced."""
    n_rows = 0
    statement = insert(schema.aliases).prefix_with("OR REPLACE")
    for chunk in chunked(rows):
        connection.execute(statement, list(chunk))
        n_rows += len(chunk)
    return n_rows


def delete_alias_rows(connection: Connection, rows: Iterable[Mapping[Any, Any]]) -> None:
    """Delete the rows with these keys."""
    condition = " AND ".join(f"{name} = ?" for name in _KEY)
    for chunk in chunked(rows):
        keys = [tuple(row[name] for name in _KEY) for row in chunk]
        connection.exec_driver_sql(f"DELETE FROM aliases WHERE {condition}", keys)


def rows_of_documents(connection: Connection, document_ids: Iterable[int]) -> list[AliasRow]:
    """Return all rows of these documents, checked, in order of the documents' ids and of their names."""
    rows: list[AliasRow] = []
    for chunk in chunked(document_ids):
        found = connection.exec_driver_sql(
            f"{SELECT_ALIASES} WHERE document_id IN (SELECT value FROM json_each(?)) "
            "ORDER BY document_id, folded, alias, source",
            (json.dumps(chunk),),
        )
        rows += checked_rows(found)
    return rows


def adopt_stored_names(connection: Connection) -> None:
    """Make alias rows for the documents that were stored before there was a table of aliases.

    Damaged documents get none: nothing is derived from a changed text, and `verify` names them.
    """
    columns = [column.name for column in schema.documents.columns]
    found = connection.exec_driver_sql(
        f"SELECT {', '.join(columns)} FROM documents WHERE dead_generation IS NULL",
        execution_options={"yield_per": _STREAM_ROWS},
    )
    for partition in found.mappings().partitions(_STREAM_ROWS):
        rows: list[AliasRow] = []
        for document in partition:
            if row_checksum(document) == document["checksum"]:
                aliases = aliases_of_meta(json.loads(document["meta"]))
                rows += own_rows(document["document_id"], document["title"], aliases)
        insert_alias_rows(connection, rows)


def checked_rows(found: Iterable[Sequence[Any]]) -> list[AliasRow]:
    """Return selected rows by the names of their columns; CorruptError for one that is not what was written."""
    rows = [dict(zip(ALIAS_COLUMNS, row, strict=True)) for row in found]
    for row in rows:
        check_row("aliases", row)
    return rows
