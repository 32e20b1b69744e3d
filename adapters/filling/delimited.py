"""Tables as text: CSV and TSV, read by Python's own module."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adapters.errors import TableError
from adapters.filling.table import Table, TableFormat, checked_columns, checked_row

_DELIMITERS = ",;\t|"
_SNIFFED_CHARS = 1 << 16


def delimited_table(path: Path, format: TableFormat) -> Table:
    """Return the table of a text file whose cells are parted by a delimiter.

    Raises:
        TableError: it is no UTF-8, its quotes do not fit, or a row is not as the header says.
    """
    dialect = _dialect(path, format)

    def lines() -> Iterator[list[str]]:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, dialect, strict=True)
            try:
                yield from reader
            except csv.Error as error:
                raise TableError(f"{path.name}, line {reader.line_num}: {error}; check its quotes") from None
            except UnicodeDecodeError as error:
                raise TableError(
                    f"{path.name} is no UTF-8 after line {reader.line_num} ({error.reason}); convert it, for example "
                    "with iconv -f latin1 -t utf-8"
                ) from None

    columns = checked_columns(path.name, next(lines(), []))

    def rows() -> Iterator[tuple[Any, ...]]:
        found = lines()
        next(found)
        for number, cells in enumerate(found, start=2):
            if cells or len(columns) == 1:  # an empty line is no row
                yield checked_row(path.name, number, cells, len(columns))

    return Table(path.name, columns, sum(1 for _ in rows()), rows)


def _dialect(path: Path, format: TableFormat) -> type[csv.Dialect]:
    """Return how the cells of a file are parted: TSV by tabs, CSV by what its header says."""

    class Found(csv.excel):
        delimiter = "\t"

    if format == "csv":
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = file.readline(_SNIFFED_CHARS)
        Found.delimiter = max(_DELIMITERS, key=lambda each: (header.count(each), each == ","))
    return Found
