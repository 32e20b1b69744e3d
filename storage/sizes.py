"""How many bytes of a knowledge base are vectors, index and text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlalchemy import Connection, func, select

from storage import schema
from storage.catalog import SegmentRow
from storage.container import open_container
from storage.database import DATABASE_NAME
from storage.errors import CorruptError
from storage.quantiser_file import QUANTISER_SUFFIX
from storage.segment import segment_path
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY

__all__ = ["bytes_by_use", "bytes_of"]

_LEXICAL_ARRAYS = ("terms", "posting_starts", "posting_passages", "posting_counts", "passage_lengths")


def bytes_by_use(connection: Connection, directory: Path, segments: Sequence[SegmentRow]) -> dict[str, int]:
    """The bytes of "vectors", "index" and "text".

    Vectors are those of tokens and passages, with what says which token a row is and where its characters are. Index
    is what is derived from them, and the quantiser. Text is the rest: documents and passages as rows of the database,
    the full-text index and the postings of lexical search.
    """
    offsets = int(connection.execute(select(func.sum(func.length(schema.passages.c.offsets)))).scalar() or 0)
    database = bytes_of(directory.glob(f"{DATABASE_NAME}*"))
    lexical = sum(_lexical_bytes(segment_path(directory / SEGMENT_DIRECTORY, row.file.name)) for row in segments)
    in_segments = sum(row.file.n_bytes for row in segments)
    index = bytes_of((directory / INDEX_DIRECTORY).glob("*"))
    return {
        "vectors": in_segments - lexical + offsets,
        "index": index + bytes_of((directory / SEGMENT_DIRECTORY).glob(f"*{QUANTISER_SUFFIX}")),
        "text": database - offsets + lexical,
    }


def bytes_of(paths: Iterable[Path]) -> int:
    """The size of all these files together; one that is gone counts nothing."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # merged away while we were counting
    return total


def _lexical_bytes(path: Path) -> int:
    try:
        arrays = open_container(path).arrays
    except CorruptError:
        return 0  # gone or damaged: `verify` tells which
    return sum(arrays[name].nbytes for name in _LEXICAL_ARRAYS if name in arrays)
