"""Tables: columns with names, rows that can be read again, and what stands in a cell."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from adapters.errors import TableError

TableFormat = Literal["csv", "tsv", "xlsx", "parquet"]
TABLE_FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
MEDIA_TYPES: dict[TableFormat, str] = {
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "parquet": "application/vnd.apache.parquet",
}


@dataclass(frozen=True)
class Table:
    """A table that can be read from its beginning as often as wanted, row by row.

    Attributes:
        name: What messages call it.
        columns: The names of its columns, each once.
        n_rows: How many rows it has.
        rows: Begins to read them: as many cells as columns, as they are stored; None is an empty one.
        kept: What the writer of the same format needs to write the columns as they were; None for text.
    """

    name: str
    columns: tuple[str, ...]
    n_rows: int
    rows: Callable[[], Iterator[tuple[Any, ...]]]
    kept: Any = None

    def place_of(self, column: str, what: str) -> int:
        """Return where the column is.

        Raises:
            TableError: there is none of this name; `what` says what it is for.
        """
        if column not in self.columns:
            raise TableError(
                f"{self.name} has no column {column!r} for {what}, wanted one of {', '.join(map(repr, self.columns))}"
            )
        return self.columns.index(column)


def format_of(path: Path, chosen: str | None = None) -> TableFormat:
    """Return the format that is chosen, or that the file's name says.

    Raises:
        TableError: it is none of `TABLE_FORMATS`.
    """
    name = chosen or path.suffix.lower().removeprefix(".")
    name = {"tab": "tsv", "pq": "parquet", "txt": "tsv"}.get(name, name)
    for each in TABLE_FORMATS:
        if each == name:
            return each
    raise TableError(
        f"{path.name} is a table of no known kind ({name or 'no suffix'}), wanted {', '.join(TABLE_FORMATS)}"
    )


def table_of_rows(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the table of rows at hand; its columns are all keys, in the order that they come first.

    Raises:
        TableError: a key is no text.
    """
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    if not all(isinstance(each, str) for each in columns):
        raise TableError(f"the rows have the keys {columns!r}, wanted names of columns")
    return Table(
        "the table", columns, len(rows), lambda: iter([tuple(row.get(name) for name in columns) for row in rows])
    )


def text_of(cell: Any) -> str:
    """Return what stands in a cell as text, without blanks around it; of an empty cell the empty text."""
    if cell is None or (isinstance(cell, float) and cell != cell):
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, datetime.datetime) and cell.time() == datetime.time():
        return cell.date().isoformat()
    if isinstance(cell, datetime.date | datetime.time):
        return cell.isoformat()
    return str(cell).strip()


def checked_columns(name: str, given: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of a header.

    Raises:
        TableError: there is none, one is blank, or one stands there twice.
    """
    columns = tuple(text_of(each) for each in given)
    if not any(columns):
        raise TableError(f"{name} has no header; put the names of the columns in its first row")
    for number, column in enumerate(columns, start=1):
        if not column:
            raise TableError(f"{name}: column {number} has no name in the first row; give it one")
        if column in columns[: number - 1]:
            raise TableError(f"{name}: two columns are called {column!r}; rename one")
    return columns


def checked_row(name: str, number: int, cells: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Return a row with as many cells as the header has; missing ones at its end are empty.

    Raises:
        TableError: it has more.
    """
    if len(cells) > n and any(text_of(each) for each in cells[n:]):
        raise TableError(
            f"{name}, row {number}: has {len(cells)} cells, the header {n}; quote cells that hold the delimiter"
        )
    return (*cells[:n], *[None] * (n - len(cells)))
