"""Filling a file: rows are read, asked and noted batch by batch; the filled table appears whole, or not at all."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from adapters.errors import TableError
from adapters.filling.filler import Cells, Filler, FillOptions
from adapters.filling.journal import Journal
from adapters.filling.opening import open_table
from adapters.filling.table import Table, TableFormat, format_of, table_of_rows, text_of
from storage.durable import fsync_directory

REQUESTS_AT_ONCE = 32
PARTIAL_SUFFIX = ".partial"


@dataclass(frozen=True)
class FillReport:
    """What was filled.

    Attributes:
        rows: Rows of the table, all of which are in the filled one.
        linked: Rows whose name has a document.
        asked: Cells that were empty and could be asked for.
        filled: Those of them that have a value now.
        resumed: Rows that an earlier, interrupted run had done.
    """

    rows: int
    linked: int
    asked: int
    filled: int
    resumed: int

    def facts(self) -> dict[str, int]:
        """Return the counts by name."""
        return asdict(self)


def fill_file(
    path: Path,
    out: Path,
    filler: Filler,
    options: FillOptions,
    *,
    format: str | None = None,
    out_format: str | None = None,
    keep_partial: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> FillReport:
    """Fill the table of a file into another file; called again after an interruption it goes on where it was.

    What is filled so far is in `out` with `.partial` behind its name, which is removed at the end.

    Args:
        path: The table.
        out: The filled table, which is not there yet.
        filler: Fills its rows.
        options: What is filled.
        format: Of the table; by default its name says it.
        out_format: Of the filled table; by default its name says it.
        keep_partial: Leave what was noted on the way; who calls removes it.
        progress: Is told how many rows of how many are done, after each batch.

    Raises:
        TableError: the table cannot be read, a column is missing, or `out` is there already.
        MissingExtraError: a library for Excel or Parquet is not installed.
    """
    kind = format_of(out, out_format)
    if out.exists():
        raise TableError(f"{out} is there already; remove it, or write elsewhere")
    table = open_table(path, format)
    options.check(table)
    with Journal(out.with_name(out.name + PARTIAL_SUFFIX), _digest(path, options)) as journal:
        resumed = journal.n_rows
        if progress is not None:
            progress(resumed, table.n_rows)
        for batch in batches(table, options, after=resumed):
            journal.add(filler.fill(batch))
            if progress is not None:
                progress(journal.n_rows, table.n_rows)
        counts = _Counts(options)
        _write(
            out, kind, _columns(table, options), counts.counted(merged(table, journal.rows(), options)), table, options
        )
    if not keep_partial:
        journal.path.unlink()
    return FillReport(table.n_rows, counts.linked, counts.asked, counts.filled, resumed)


def fill_rows(
    rows: Sequence[dict[str, Any]],
    filler: Filler,
    options: FillOptions,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows with their cells filled.

    Raises:
        TableError: a column is missing.
    """
    table = table_of_rows(rows)
    options.check(table)
    filled: list[Cells] = []
    for batch in batches(table, options):
        filled += filler.fill(batch)
        if progress is not None:
            progress(len(filled), table.n_rows)
    return [after for _, after in merged(table, filled, options)]


def batches(table: Table, options: FillOptions, *, after: int = 0) -> Iterator[list[dict[str, Any]]]:
    """Yield rows by column, as many at once as are asked about together.

    Args:
        table: Whose rows.
        options: What is filled.
        after: How many rows are left out.
    """
    rows = (dict(zip(table.columns, row, strict=True)) for row in islice(table.rows(), after, None))
    size = max(1, REQUESTS_AT_ONCE // (len(options.asked) + 1))
    while batch := list(islice(rows, size)):
        yield batch


def merged(
    table: Table, filled: Iterable[Any], options: FillOptions
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each row as it was and as it is filled; a cell that holds something stays as it is."""
    columns = _columns(table, options)
    for row, cells in zip(table.rows(), filled, strict=True):
        before = dict(zip(table.columns, row, strict=True))
        after = {name: before.get(name) for name in columns}
        after |= {name: value for name, value in cells.items() if name in after and not text_of(after[name])}
        yield before, after


class _Counts:
    """What was filled, counted while it is written."""

    def __init__(self, options: FillOptions) -> None:
        self._options = options
        self.linked = self.asked = self.filled = 0

    def counted(self, rows: Iterable[tuple[dict[str, Any], dict[str, Any]]]) -> Iterator[dict[str, Any]]:
        """Yield the filled rows."""
        start = self._options.subject or self._options.question or ""
        for before, after in rows:
            self.linked += bool(text_of(after.get(f"{self._options.subject} id")))
            for name in self._options.asked:
                if text_of(before[start]) and not text_of(before.get(name)):
                    self.asked += 1
                    self.filled += bool(text_of(after[name]))
            yield after


def _columns(table: Table, options: FillOptions) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*table.columns, *options.columns)))


def _write(
    out: Path,
    kind: TableFormat,
    columns: Sequence[str],
    rows: Iterator[dict[str, Any]],
    table: Table,
    options: FillOptions,
) -> None:
    """Write the filled table; it appears under its name when it is whole and on disk."""
    cells = (tuple(row[name] for name in columns) for row in rows)
    temporary = out.with_name(f".{out.name}.writing")
    try:
        if kind == "xlsx":
            from adapters.filling.excel import write_excel

            write_excel(temporary, columns, cells)
        elif kind == "parquet":
            from adapters.filling.parquet import write_parquet

            write_parquet(temporary, columns, cells, kept=table.kept, numbers=options.numbers)
        else:
            with temporary.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter="\t" if kind == "tsv" else ",", lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(["" if cell is None else _as_written(cell) for cell in row] for row in cells)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(out)
        fsync_directory(out.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _as_written(cell: Any) -> str:
    return cell if isinstance(cell, str) else str(cell) if isinstance(cell, float) else text_of(cell)


def _digest(path: Path, options: FillOptions) -> str:
    with path.open("rb") as file:
        table = hashlib.file_digest(file, "sha256").hexdigest()
    return hashlib.sha256(json.dumps([table, asdict(options)], sort_keys=True).encode()).hexdigest()
