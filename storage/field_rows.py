"""The rows of table `fields`: what documents can be filtered by, derived from the JSON object they carry as `meta`.

Functions on an open connection, inside the caller's transaction. A nested object gives dotted names (`author.name`), a
list one row for each of its elements; null, empty lists and objects inside lists give none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import Connection

from storage.catalog import chunked
from storage.checksum import row_checksum
from storage.records import JSON

__all__ = [
    "FIELD_TYPES",
    "FieldRow",
    "FieldType",
    "delete_fields",
    "field_table_exists",
    "field_texts",
    "field_types",
    "fields_of_meta",
    "insert_fields",
    "insert_stored_fields",
    "is_date",
    "known_fields",
    "shown_fields",
    "sqlite_number",
    "stored_field_rows",
]

FieldType = Literal["text", "date", "number", "boolean"]
"""What a value is; a date is a text too, one in the order of ISO 8601 (`2020-01-31`, `2020-01-31T12:00Z`)."""
FIELD_TYPES: tuple[FieldType, ...] = get_args(FieldType)

_STREAM_ROWS = 1_000
_LARGEST_INTEGER = 2**63 - 1
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_KEY = "name = ? AND type = ? AND value = ? AND document_id = ?"


class FieldRow(NamedTuple):
    """One value of one document."""

    name: str
    type: FieldType
    value: str | int | float
    document_id: int


def fields_of_meta(document_id: int, meta: Mapping[str, JSON]) -> list[FieldRow]:
    """Return the rows of a document's `meta`, each value of a name once, in the order of the table's key."""
    rows = {FieldRow(name, *typed, document_id) for name, typed in _values(meta)}
    # The type comes first: it tells 1 from true, and a number is never compared with a text.
    return sorted(rows)


def shown_fields(meta: Mapping[str, JSON]) -> list[tuple[str, str]]:
    """Return the fields that filters can ask for as people read them: each name once, its values joined by commas."""
    shown: dict[str, list[str]] = {}
    for name, (kind, value) in _values(meta):
        shown.setdefault(name, []).append(str(bool(value)).lower() if kind == "boolean" else str(value))
    shown.pop("sync.digest", None)  # of a document that is kept in step with its source; it tells people nothing
    return [(name, ", ".join(values)) for name, values in shown.items()]


def _values(meta: Mapping[str, JSON]) -> Iterator[tuple[str, tuple[FieldType, str | int | float]]]:
    """Yield every value with its dotted name, in the order of the object."""
    waiting: list[tuple[str, JSON | Mapping[str, JSON]]] = [("", meta)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend((f"{name}.{key}" if name else key, below) for key, below in reversed([*value.items()]))
        elif isinstance(value, list):
            waiting.extend((name, each) for each in reversed(value) if not isinstance(each, (dict, list)))
        elif value is not None:
            yield name, _typed(value)


def _typed(value: str | float | bool) -> tuple[FieldType, str | int | float]:
    if isinstance(value, bool):
        return "boolean", int(value)
    if isinstance(value, str):
        return ("date" if is_date(value) else "text"), value
    return "number", sqlite_number(value)


def sqlite_number(value: float) -> int | float:
    """Return the number as SQLite holds it: whole numbers beyond 64 bits become floating-point."""
    if isinstance(value, float) or -_LARGEST_INTEGER <= value <= _LARGEST_INTEGER:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def is_date(text: str) -> bool:
    """Return whether a text is a day or a time that exists, in the form of ISO 8601."""
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def field_table_exists(connection: Connection) -> bool:
    """Return whether the knowledge base has been brought to the revision that knows fields."""
    statement = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'fields'"
    return connection.exec_driver_sql(statement).first() is not None


def insert_fields(connection: Connection, documents: Iterable[Mapping[Any, Any]]) -> None:
    """Insert what these rows of table documents can be filtered by."""
    rows = (row for document in documents for row in _rows_of(document))
    for chunk in chunked(rows):
        connection.exec_driver_sql("INSERT INTO fields VALUES (?, ?, ?, ?)", list(chunk))


def delete_fields(connection: Connection, documents: Iterable[Mapping[Any, Any]]) -> None:
    """Delete what these rows of table documents could be filtered by."""
    rows = (row for document in documents for row in _rows_of(document))
    for chunk in chunked(rows):
        connection.exec_driver_sql(f"DELETE FROM fields WHERE {_KEY}", list(chunk))


def _rows_of(document: Mapping[Any, Any]) -> Iterator[Sequence[Any]]:
    for row in fields_of_meta(document["document_id"], json.loads(document["meta"])):
        yield tuple(row)


def insert_stored_fields(connection: Connection) -> None:
    """Insert what the live documents can be filtered by into the empty table.

    Damaged documents are left out: nothing is derived from a changed text, and `verify` names them.
    """
    for document in _live_documents(connection):
        insert_fields(connection, document)


def stored_field_rows(connection: Connection) -> Iterator[FieldRow]:
    """Yield what the live documents can be filtered by, as it follows from their rows, in the order of documents."""
    for documents in _live_documents(connection):
        for document in documents:
            yield from fields_of_meta(document["document_id"], json.loads(document["meta"]))


def _live_documents(connection: Connection) -> Iterator[list[Mapping[Any, Any]]]:
    """Yield the rows of the live documents that are what was written, some at a time."""
    found = connection.exec_driver_sql(
        "SELECT * FROM documents WHERE dead_generation IS NULL ORDER BY document_id",
        execution_options={"yield_per": _STREAM_ROWS},
    )
    for partition in found.mappings().partitions(_STREAM_ROWS):
        yield [row for row in partition if row_checksum(row) == row["checksum"]]


def field_types(connection: Connection, name: str) -> frozenset[FieldType]:
    """Return the types of the values that live documents have under a name; empty for a name that none has."""
    statement = "SELECT EXISTS (SELECT 1 FROM fields WHERE name = ? AND type = ?)"
    return frozenset(each for each in FIELD_TYPES if connection.exec_driver_sql(statement, (name, each)).scalar_one())


def known_fields(connection: Connection, *, limit: int = 1_000) -> dict[str, list[FieldType]]:
    """Return the names that live documents have values under, sorted, with their types; empty in older revisions.

    Args:
        connection: An open connection.
        limit: How many names and types are looked for at most: one look-up in the index for each.
    """
    found: dict[str, list[FieldType]] = {}
    if not field_table_exists(connection):
        return found
    last = ("", "")
    statement = "SELECT name, type FROM fields WHERE (name, type) > (?, ?) ORDER BY name, type LIMIT 1"
    for _ in range(limit):
        row = connection.exec_driver_sql(statement, last).first()
        if row is None:
            break
        last = (row[0], row[1])
        found.setdefault(row[0], []).append(row[1])
    return found


def field_texts(connection: Connection, name: str) -> list[tuple[str, int]]:
    """Return the texts under a name, sorted, each with the number of live documents that have it."""
    if not field_table_exists(connection):
        return []
    statement = "SELECT value, count(*) FROM fields WHERE name = ? AND type = 'text' GROUP BY value ORDER BY value"
    return [(str(value), count) for value, count in connection.exec_driver_sql(statement, (name,))]
