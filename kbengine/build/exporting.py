"""Writing all documents of a knowledge base to a file, whole or not at all."""

from __future__ import annotations

import gzip
import os
import sys
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
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with _open(partial, path.suffix) as file:
            n = export_documents(reader, file)
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return n


def _open(path: Path, suffix: str) -> IO[str]:
    """Return the file opened for text, compressed as the suffix of its final name says."""
    if suffix == ".gz":
        return gzip.open(path, "wt", encoding="utf-8")
    if suffix == ".zst":
        import zstandard

        file: IO[str] = zstandard.open(path, "wt", encoding="utf-8")
        return file
    return path.open("w", encoding="utf-8")
