"""Live documents in the order that people choose, one page of them at a time, and what they can be narrowed by.

Functions on an open connection, inside the caller's transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, Text, bindparam, collate, func, literal_column, select
from sqlalchemy.sql.elements import ColumnElement

from storage import schema
from storage.catalog import document_record
from storage.errors import InvalidOptionError
from storage.field_rows import FieldType, field_table_exists, known_fields
from storage.records import DocumentRecord
from storage.where_sql import stored_field, where_clause

__all__ = ["COLUMN_ORDERS", "DocumentPage", "FieldChoice", "FieldValue", "field_choices", "page_of_documents"]

COLUMN_ORDERS: tuple[str, ...] = ("id", "title", "added", "passages")
"""What documents can be sorted by besides their fields."""

MAX_FIELDS = 12
MAX_VALUES = 12
MAX_COUNTED = 1_000


@dataclass(frozen=True)
class DocumentPage:
    """Some documents of a listing, and how many the whole listing has."""

    records: tuple[DocumentRecord, ...]
    total: int


@dataclass(frozen=True)
class FieldValue:
    """One value of a field, and the filter that asks for it.

    Attributes:
        shown: The value as people read it.
        where: The condition that documents with this value pass.
        count: How many documents have it, at most 1,000 are counted.
    """

    shown: str
    where: str
    count: int


@dataclass(frozen=True)
class FieldChoice:
    """A field of the documents; `values` are all that it has, or none where they are too many to choose from."""

    name: str
    types: tuple[FieldType, ...]
    values: tuple[FieldValue, ...]


def page_of_documents(
    connection: Connection,
    *,
    sort: str = "id",
    where: str | None = None,
    among: Sequence[int] | None = None,
    offset: int = 0,
    limit: int = 100,
) -> DocumentPage:
    """Return some live documents of a sorted listing.

    Args:
        connection: An open connection.
        sort: `id`, `title`, `added`, `passages` or the name of a field, from small to large; from large to small with
            a minus before it. Documents without the field come last either way; equal ones by id.
        where: Only documents that pass this filter.
        among: Only documents with these ids.
        offset: How many are left out before the first.
        limit: How many at most.

    Raises:
        InvalidOptionError: the filter cannot be read, or no document has the field that is sorted by.
    """
    if limit < 1 or offset < 0:
        raise InvalidOptionError(f"limit is {limit} and offset {offset}; wanted at least 1 and 0")
    table = schema.documents
    chosen: ColumnElement[bool] = table.c.dead_generation.is_(None)
    if where is not None:
        chosen &= where_clause(connection, where)
    if among is not None:
        ids: Select[Any] = select(literal_column("value")).select_from(
            func.json_each(bindparam("among", json.dumps([int(each) for each in among]), Text()))
        )
        chosen &= table.c.document_id.in_(ids)
    total = connection.execute(select(func.count()).select_from(table).where(chosen)).scalar_one()
    listed = _sorted(connection, select(table).where(chosen), sort).offset(offset).limit(limit)
    rows = connection.execute(listed).mappings()
    return DocumentPage(tuple(document_record(row) for row in rows), total)


def _sorted(connection: Connection, listed: Select[Any], sort: str) -> Select[Any]:
    table = schema.documents
    name, falling = sort.removeprefix("-"), sort.startswith("-")
    columns: dict[str, ColumnElement[Any]] = {
        "id": table.c.doc_id,
        "title": collate(table.c.title, "NOCASE"),
        "added": table.c.document_id,
        "passages": table.c.passage_count,
    }
    if name in columns:
        key = columns[name]
        return listed.order_by(key.desc() if falling else key.asc(), table.c.doc_id)
    stored, _ = stored_field(connection, name)
    fields = schema.fields
    value = func.max(fields.c.value) if falling else func.min(fields.c.value)
    values = (
        select(fields.c.document_id, value.label("value"))
        .where(fields.c.name == stored)
        .group_by(fields.c.document_id)
        .subquery()
    )
    key = values.c.value
    return listed.outerjoin(values, values.c.document_id == table.c.document_id).order_by(
        key.is_(None), key.desc() if falling else key.asc(), table.c.doc_id
    )


def field_choices(connection: Connection, *, max_fields: int = MAX_FIELDS) -> list[FieldChoice]:
    """Return what documents can be narrowed or sorted by: their fields, with the values where these are few.

    It costs a few look-ups in the index for each field, however many documents there are.

    Args:
        connection: An open connection.
        max_fields: How many fields are looked at, by name.
    """
    if not field_table_exists(connection):
        return []
    known = list(known_fields(connection, limit=3 * max_fields).items())
    shown = [(name, types) for name, types in known if name != "sync.digest"][:max_fields]
    return [FieldChoice(name, tuple(types), _values(connection, name)) for name, types in shown]


def _values(connection: Connection, name: str) -> tuple[FieldValue, ...]:
    """Return the values of a field with their counts; none where there are more than `MAX_VALUES`."""
    following = "SELECT type, value FROM fields WHERE name = ? AND (type, value) > (?, ?) ORDER BY type, value LIMIT 1"
    found: list[tuple[str, str | int | float]] = []
    last: tuple[str, str | int | float] = ("", "")
    while (row := connection.exec_driver_sql(following, (name, *last)).first()) is not None:
        last = (row[0], row[1])
        found.append(last)
        if len(found) > MAX_VALUES:
            return ()
    counted = (
        f"SELECT count(*) FROM (SELECT 1 FROM fields WHERE name = ? AND type = ? AND value = ? LIMIT {MAX_COUNTED})"
    )
    return tuple(
        FieldValue(
            shown, f"{_name(name)} = {literal}", connection.exec_driver_sql(counted, (name, kind, value)).scalar_one()
        )
        for kind, value in found
        for shown, literal in (_written(kind, value),)
    )


def _written(kind: str, value: str | float) -> tuple[str, str]:
    """Return a value as people read it, and as the language of filters writes it."""
    if kind == "boolean":
        word = "true" if value else "false"
        return word, word
    if kind == "number":
        return f"{value:g}" if isinstance(value, float) else str(value), repr(value)
    quoted = str(value).replace("'", "''")
    return str(value), f"'{quoted}'"


def _name(name: str) -> str:
    """Return a field's name as the language of filters writes it, whatever characters it has."""
    parts = name.split(".")
    if parts[0] in ("id", "title", "url"):
        parts = ["meta", *parts]
    return ".".join('"' + part.replace('"', '""') + '"' if _is_odd(part) else part for part in parts)


def _is_odd(part: str) -> bool:
    words = {"and", "or", "not", "in", "like", "is", "null", "between", "true", "false"}
    return not part.isidentifier() or part.startswith("_") or part.lower() in words
