"""Excel tables, read and written row by row by openpyxl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from adapters.errors import MissingExtraError, TableError
from adapters.filling.table import Table, checked_columns, checked_row


def excel_table(path: Path) -> Table:
    """Return the table on a workbook's first sheet.

    Raises:
        MissingExtraError: openpyxl is not installed.
        TableError: it is no workbook, or a row is not as the header says.
    """
    openpyxl = _openpyxl("reading an Excel table")

    def lines() -> Iterator[tuple[Any, ...]]:
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        except Exception as error:
            raise TableError(f"{path.name} cannot be read as an Excel workbook ({error}); save it as .xlsx") from error
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # what programs write there is not always so
            yield from sheet.iter_rows(values_only=True)
        finally:
            book.close()

    columns = checked_columns(path.name, _without_tail(next(lines(), ())))

    def rows() -> Iterator[tuple[Any, ...]]:
        found = lines()
        next(found)
        for number, cells in enumerate(found, start=2):
            if any(cell is not None for cell in cells):
                yield checked_row(path.name, number, cells, len(columns))

    return Table(path.name, columns, sum(1 for _ in rows()), rows)


def write_excel(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a workbook of one sheet; texts stay texts, also those that begin as formulas do.

    Raises:
        MissingExtraError: openpyxl is not installed.
    """
    openpyxl = _openpyxl("writing an Excel table")
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("filled")
    for row in chain([columns], rows):
        cells = []
        for value in row:
            if isinstance(value, str):
                cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub(" ", value))
                cell.data_type = "s"
                cells.append(cell)
            else:
                cells.append(value)
        sheet.append(cells)
    book.save(path)


def _openpyxl(purpose: str) -> Any:
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError.of(purpose, "openpyxl", "tables") from error
    return openpyxl


def _without_tail(cells: Sequence[Any]) -> list[Any]:
    """Return a header without the empty cells behind it, which programs leave."""
    kept = list(cells)
    while kept and kept[-1] is None:
        kept.pop()
    return kept
