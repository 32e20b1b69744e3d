"""Writing all documents of a knowledge base to a file, whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from storage.reader import KBReader


def export_to(reader: KBReader, path: Path | None) -> int:
    """Return the number of documents written as JSON lines to `path` (`.gz`, `.zst` compress), or to stdout.

    The file appears under its name only when it is complete; what was there before is kept until then.
    """
    from storage.exchange import export_documents

    if path is None:
        return export_documents(reader, sys.stdout)
    with whole_file(path) as partial, open_text(partial, path.suffix) as file:
        return export_documents(reader, file)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield the path to write to; what is written appears under `path` only when it is complete and on the disk."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def open_text(path: Path, suffix: str) -> IO[str]:
    """Return the file opened for text, compressed as the suffix of its final name says."""
    if suffix == ".gz":
        return gzip.open(path, "wt", encoding="utf-8")
    if suffix == ".zst":
        import zstandard

        file: IO[str] = zstandard.open(path, "wt", encoding="utf-8")
        return file
    return path.open("w", encoding="utf-8")
