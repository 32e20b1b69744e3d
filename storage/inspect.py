"""Looking into `kb.sqlite` as people do: its views and tables, through sqlite-utils, read-only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlite_utils

from storage import schema
from storage.database import database_path, raw_connection, translated
from storage.errors import InvalidOptionError, StateError
from storage.records import JSON

__all__ = ["ViewInfo", "count_rows", "list_views", "view_rows"]

_MAX_ROWS = 10_000


@dataclass(frozen=True)
class ViewInfo:
    """A view made for people: its name, columns and number of rows."""

    name: str
    columns: tuple[str, ...]
    rows: int


def list_views(path: Path) -> list[ViewInfo]:
    """Return the views of the knowledge base at `path`: those of `storage.schema.VIEWS` that its revision has."""
    with _database(path) as database:
        there = set(database.view_names())
        return [
            ViewInfo(name, tuple(column.name for column in database[name].columns), database[name].count)
            for name in schema.VIEWS
            if name in there
        ]


def view_rows(
    path: Path, view: str, *, limit: int = 20, offset: int = 0, order_by: str | None = None
) -> list[dict[str, JSON]]:
    """Return the rows of a view as dictionaries.

    Args:
        path: The knowledge base.
        view: One of `storage.schema.VIEWS`.
        limit: How many rows, 1 to 10,000.
        offset: How many rows to skip.
        order_by: A column of the view, "-" before it for falling order; None keeps the view's order.
    """
    if view not in schema.VIEWS:
        raise InvalidOptionError(f"view {view!r} is unknown; wanted one of {', '.join(schema.VIEWS)}")
    if not 1 <= limit <= _MAX_ROWS or offset < 0:
        raise InvalidOptionError(f"limit {limit}, offset {offset}; wanted 1 to {_MAX_ROWS} and 0 or more")
    with _database(path) as database:
        if view not in database.view_names():
            raise StateError(
                f"{path} was written by an older kbengine and has no view {view!r} yet; open it once for writing, "
                "e.g. 'kbengine compact'"
            )
        order = None
        if order_by is not None:
            columns = [column.name for column in database[view].columns]
            column = order_by.removeprefix("-")
            if column not in columns:
                raise InvalidOptionError(f"column {column!r} is not in {view}; wanted one of {', '.join(columns)}")
            order = f"[{column}]" + (" desc" if order_by.startswith("-") else "")
        return list(database[view].rows_where(order_by=order, limit=limit, offset=offset))


def count_rows(path: Path) -> dict[str, int]:
    """Return the number of rows of each table of the knowledge base."""
    with _database(path) as database:
        there = set(database.table_names())
        return {name: database[name].count for name in schema.metadata.tables if name in there}


@contextlib.contextmanager
def _database(path: Path) -> Iterator[Any]:
    with translated(path):
        connection = raw_connection(database_path(path), mode="ro")
        try:
            # One transaction: counts and rows of one generation.
            connection.execute("BEGIN")
            yield sqlite_utils.Database(connection, execute_plugins=False)
        finally:
            connection.close()
