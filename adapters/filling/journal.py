"""What is filled so far, on disk: a line for each row, so that an interruption costs the rows of one batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from adapters.errors import TableError
from adapters.filling.filler import Cells


class Journal:
    """The filled cells of a table's first rows, in order; a context manager.

    Attributes:
        n_rows: How many rows are there.
    """

    def __init__(self, path: Path, digest: str) -> None:
        """Open it, or begin it.

        Args:
            path: The file.
            digest: Of the table and of what is filled: it goes on only where both are the same.

        Raises:
            TableError: it is of another table, or other things were filled.
        """
        self.path = path
        self._file: IO[bytes] = path.open("a+b")
        self._file.seek(0)
        head, end, n_lines = None, 0, 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break  # cut off when it was written: the row is asked again
            head = line if head is None else head
            n_lines, end = n_lines + 1, end + len(line)
        self._file.truncate(end)
        self._file.seek(end)
        begins = json.dumps({"fill": digest}).encode() + b"\n"
        if head is None:
            self._file.write(begins)
            n_lines = 1
        elif head != begins:
            self._file.close()
            raise TableError(
                f"{path} is of another table, or of other columns and options; remove it, or write elsewhere"
            )
        self.n_rows = n_lines - 1

    def add(self, rows: Sequence[Cells]) -> None:
        """Add rows; durable when this returns."""
        self._file.write(b"".join(json.dumps(cells, ensure_ascii=False).encode() + b"\n" for cells in rows))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.n_rows += len(rows)

    def rows(self) -> Iterator[Cells]:
        """Yield the filled cells of each row."""
        with self.path.open("rb") as file:
            next(file)
            for line in file:
                yield json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
