"""From a filter to the documents that pass: names and types checked against what is stored, then one query.

A comparison holds when any of the document's values under the name satisfies it: `tags = 'news'` is true of a document
whose list of tags has it. As in SQL there is a third truth value: a comparison with a field that a document lacks, or
of which it has values of another type only, is neither true nor false, and so is its negation.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Column, ColumnElement, Connection, and_, func, not_, or_, select

from storage import schema
from storage.conditions import Condition, Node, Value
from storage.errors import InvalidOptionError, StateError
from storage.field_rows import FieldType, field_table_exists, field_types, is_date, known_fields, sqlite_number

__all__ = ["matching_documents", "where_clause"]

_MAX_NAMED = 20
_ORDER: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_COLUMNS: dict[str, Column[Any]] = {
    "id": schema.documents.c.doc_id,
    "title": schema.documents.c.title,
    "url": schema.documents.c.url,
}
_STORED: dict[str, tuple[FieldType, ...]] = {"text": ("text", "date"), "number": ("number",), "boolean": ("boolean",)}
_PLURALS = {"text": "texts", "date": "dates", "number": "numbers", "boolean": "true or false"}
_PART_OF_DATE = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2]))?")


class _Truth(NamedTuple):
    """When a part of the filter is true of a row of table documents, and when it is false."""

    true: ColumnElement[bool]
    false: ColumnElement[bool]


def matching_documents(connection: Connection, where: str) -> NDArray[np.int64]:
    """Return the ids of the live documents that a filter lets pass, int64 (n), sorted.

    Raises:
        InvalidOptionError: The filter cannot be read, names a field that no document has, or compares it with a value
            of another type.
        StateError: No writer has brought the knowledge base to the revision that knows fields.
    """
    documents = schema.documents
    # As one text: fetching tens of thousands of rows takes many times as long as finding them.
    statement = select(func.group_concat(documents.c.document_id)).where(documents.c.dead_generation.is_(None))
    ids = connection.execute(statement.where(where_clause(connection, where))).scalar()
    return np.sort(np.fromstring(ids, dtype=np.int64, sep=",")) if ids else np.empty(0, dtype=np.int64)


def where_clause(connection: Connection, where: str) -> ColumnElement[bool]:
    """Return a filter as a condition on table documents, all values bound; errors as in `matching_documents`."""
    from storage.where import parse_where

    node = parse_where(where)
    if not field_table_exists(connection):
        raise StateError(
            "the knowledge base was written by an older kbengine, which did not index fields; open it once for writing "
            "('kbengine compact'), then filter"
        )
    return _truth(connection, node).true


def _truth(connection: Connection, node: Node) -> _Truth:
    if isinstance(node, Condition):
        column = _COLUMNS.get(node.name)
        return _of_field(connection, node) if column is None else _of_column(node, column)
    parts = [_truth(connection, part) for part in node.parts]
    if node.kind == "not":
        return _Truth(parts[0].false, parts[0].true)
    all_, any_ = (and_, or_) if node.kind == "all" else (or_, and_)
    return _Truth(all_(*(part.true for part in parts)), any_(*(part.false for part in parts)))


def _of_column(condition: Condition, column: Column[Any]) -> _Truth:
    """Return the truth of a condition on `id`, `title` or `url`, which are texts."""
    if condition.operator == "null":
        return _Truth(column.is_(None), column.is_not(None))
    for value in condition.values:
        if _type_of(value) != "text":
            raise InvalidOptionError(
                f"{condition.name} is a text and {_shown(value)} is none; write it in single quotes"
            )
    holds = _compared(column, condition.operator, condition.values)
    if column is schema.documents.c.title and condition.operator in ("=", "in"):
        # The index of titles is one without case: it finds the few rows to compare.
        holds = and_(_compared(column.collate("NOCASE"), condition.operator, condition.values), holds)
    return _Truth(holds, not_(holds))


def _of_field(connection: Connection, condition: Condition) -> _Truth:
    name, types = stored_field(connection, condition.name)
    table, document_id = schema.fields, schema.documents.c.document_id
    of_name = select(table.c.document_id).where(table.c.name == name)
    if condition.operator == "null":
        return _Truth(document_id.not_in(of_name), document_id.in_(of_name))
    asked = dict.fromkeys(_type_of(value) for value in condition.values)
    _check_types(condition, types, list(asked))
    known, holds = [], []
    for kind in asked:
        of_type = of_name.where(table.c.type.in_(_STORED[kind]))
        values = [value for value in condition.values if _type_of(value) == kind]
        known.append(document_id.in_(of_type))
        holds.append(document_id.in_(of_type.where(_compared(table.c.value, condition.operator, values))))
    return _Truth(or_(*holds), and_(or_(*known), not_(or_(*holds))))


def _compared(column: ColumnElement[Any], name: str, values: Sequence[Value]) -> ColumnElement[bool]:
    bound: list[Any] = [value if isinstance(value, str) else sqlite_number(+value) for value in values]
    if name == "in":
        return column.in_(bound)
    if name == "between":
        return column.between(*bound)
    if name == "like":
        return column.like(bound[0])
    result: ColumnElement[bool] = _ORDER[name](column, bound[0])
    return result


def _type_of(value: Value) -> FieldType:
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number"


def stored_field(connection: Connection, name: str) -> tuple[str, frozenset[FieldType]]:
    """Return the name under which values are stored, with their types: `meta.title` is the field behind the column."""
    for stored in (name, name.removeprefix("meta.")):
        types = field_types(connection, stored)
        if types:
            return stored, types
    known = known_fields(connection)
    listed = ", ".join(f"{field} ({'/'.join(types)})" for field, types in list(known.items())[:_MAX_NAMED])
    if len(known) > _MAX_NAMED:
        listed += f" and {len(known) - _MAX_NAMED:,} more"
    near = difflib.get_close_matches(name, [*known, *_COLUMNS], n=1)
    raise InvalidOptionError(
        f"no document has a field {name!r}; fields are: {listed or 'none'}; id, title and url every document has"
        + (f"; did you mean {near[0]!r}?" if near else "")
    )


def _check_types(condition: Condition, types: frozenset[FieldType], asked: Sequence[FieldType]) -> None:
    """Raise InvalidOptionError when no value of the field can be compared with what was given."""
    name, how = condition.name, condition.operator
    seen = "/".join(_PLURALS[each] for each in sorted(types))
    for value in condition.values:
        kind = _type_of(value)
        if not types.intersection(_STORED[kind]):
            raise InvalidOptionError(
                f"field {name!r} holds {seen}, {_shown(value)} is a {kind}; {_remedy(value, types)}"
            )
        if kind == "text" and types == {"date"} and how != "like" and not _dateish(str(value)):
            raise InvalidOptionError(
                f"field {name!r} holds dates, {_shown(value)} is none; write YYYY-MM-DD (or YYYY-MM-DDThh:mm:ss)"
            )
    if how not in ("=", "in", "like") and "boolean" in asked:
        raise InvalidOptionError(f"field {name!r} holds true or false, which have no order; use = or !=")
    if how == "between" and len(asked) > 1:
        raise InvalidOptionError(
            f"field {name!r} is asked to be between a {asked[0]} and a {asked[1]}; write two values of one type"
        )


def _remedy(value: Value, types: frozenset[FieldType]) -> str:
    if "number" in types and isinstance(value, str):
        return "write numbers without quotes"
    if types & {"text", "date"}:
        return "write texts and dates in single quotes"
    return "compare it with a value of its own type"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def _dateish(text: str) -> bool:
    """Return whether a text is a date or the beginning of one: a year, or a year and a month."""
    return is_date(text) or _PART_OF_DATE.fullmatch(text) is not None
