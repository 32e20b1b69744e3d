"""Parquet tables, read and written batch by batch by pyarrow; columns keep their types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from adapters.errors import MissingExtraError, TableError
from adapters.filling.table import Table, checked_columns, text_of

ROWS_AT_ONCE = 1024


def parquet_table(path: Path) -> Table:
    """Return the table of a Parquet file.

    Raises:
        MissingExtraError: pyarrow is not installed.
        TableError: it is no Parquet file.
    """
    parquet = _pyarrow("reading a Parquet table")[1]
    try:
        with parquet.ParquetFile(path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
    except Exception as error:
        raise TableError(f"{path.name} cannot be read as Parquet ({error}); check the file") from error
    columns = checked_columns(path.name, schema.names)

    def rows() -> Iterator[tuple[Any, ...]]:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROWS_AT_ONCE):
                yield from zip(*[column.to_pylist() for column in batch.columns], strict=True)

    return Table(path.name, columns, n_rows, rows, kept=schema)


def write_parquet(
    path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, kept: Any, numbers: frozenset[str]
) -> None:
    """Write a Parquet file.

    Args:
        path: The file.
        columns: The names of the columns.
        rows: Their cells.
        kept: The schema of the columns that come from a Parquet file; None when none do.
        numbers: Columns of numbers; others that are not in `kept` are texts.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    arrow, parquet = _pyarrow("writing a Parquet table")
    known = {} if kept is None else {field.name: field.type for field in kept}
    types = {name: known.get(name, arrow.float64() if name in numbers else arrow.string()) for name in columns}
    schema = arrow.schema(list(types.items()))
    found = iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(found, ROWS_AT_ONCE)):
            arrays = []
            for name, cells in zip(columns, zip(*batch, strict=True), strict=True):
                values = cells if name in known else [_typed(cell, name in numbers) for cell in cells]
                arrays.append(arrow.array(values, types[name]))
            writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))


def _typed(cell: Any, is_number: bool) -> str | float | None:
    """Return a cell as a column of texts or of numbers has it."""
    text = text_of(cell)
    if not is_number:
        return cell if isinstance(cell, str) else text or None
    if not text or isinstance(cell, float):
        return None if not text else cell
    try:
        return float(text)
    except ValueError:
        raise TableError(f"a column of probabilities holds {text[:80]!r}, wanted numbers; rename the column") from None


def _pyarrow(purpose: str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError.of(purpose, "pyarrow", "tables") from error
    return pyarrow, pyarrow.parquet
