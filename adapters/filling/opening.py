"""Opening a table by its kind: text by Python itself, Excel and Parquet by libraries of the extra `tables`."""

from __future__ import annotations

from pathlib import Path

from adapters.errors import TableError
from adapters.filling.delimited import delimited_table
from adapters.filling.table import Table, format_of


def open_table(path: Path, chosen: str | None = None) -> Table:
    """Return the table of a file, all its rows checked.

    Args:
        path: The file.
        chosen: Its format; by default its name says it.

    Raises:
        TableError: it cannot be read as it is: names the place and the remedy.
        MissingExtraError: it is an Excel or Parquet file, and the library for it is not installed.
    """
    format = format_of(path, chosen)
    if not path.is_file():
        raise TableError(f"{path} is no file; check the path")
    if format == "xlsx":
        from adapters.filling.excel import excel_table

        return excel_table(path)
    if format == "parquet":
        from adapters.filling.parquet import parquet_table

        return parquet_table(path)
    return delimited_table(path, format)
