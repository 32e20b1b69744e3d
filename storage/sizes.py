"""How many bytes of a knowledge base are vectors, sparse rows, index and text."""

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
from storage.sparse_rows import SPARSE_NAMES
from storage.token_filter import count_reaching

__all__ = ["bytes_by_use", "bytes_of", "count_indexed"]

_LEXICAL_ARRAYS = (
    "terms",
    "posting_starts",
    "posting_passages",
    "posting_counts",
    "passage_lengths",
    "document_frequencies",
)


def bytes_by_use(connection: Connection, directory: Path, segments: Sequence[SegmentRow]) -> dict[str, int]:
    """Return the bytes of "vectors", "sparse", "index" and "text".

    Vectors are those of tokens and passages, with what says which token a row is and where its characters are. Sparse
    are the sparse rows of tokens. Index is what is derived from the vectors, and the quantiser. Text is the rest:
    documents and passages as rows of the database, the full-text index and the postings of lexical search.
    """
    offsets = int(connection.execute(select(func.sum(func.length(schema.passages.c.offsets)))).scalar() or 0)
    database = bytes_of(directory.glob(f"{DATABASE_NAME}*"))
    lexical = sparse = 0
    for row in segments:
        sizes = _array_bytes(segment_path(directory / SEGMENT_DIRECTORY, row.file.name))
        lexical += sum(sizes.get(name, 0) for name in _LEXICAL_ARRAYS)
        sparse += sum(sizes.get(name, 0) for name in SPARSE_NAMES)
    in_segments = sum(row.file.n_bytes for row in segments)
    index = bytes_of((directory / INDEX_DIRECTORY).glob("*"))
    return {
        "vectors": in_segments - lexical - sparse + offsets,
        "sparse": sparse,
        "index": index + bytes_of((directory / SEGMENT_DIRECTORY).glob(f"*{QUANTISER_SUFFIX}")),
        "text": database - offsets + lexical,
    }


def count_indexed(directory: Path, segments: Sequence[SegmentRow], threshold: float | None) -> int:
    """Return how many stored tokens a search may start from, those of dead documents included.

    Args:
        directory: The knowledge base.
        segments: Its live segments.
        threshold: The filter logit that such a token reaches; None: all are.
    """
    total = 0
    for row in segments:
        total += row.file.n_rows
        if threshold is None:
            continue
        try:
            arrays = open_container(segment_path(directory / SEGMENT_DIRECTORY, row.file.name)).arrays
        except CorruptError:
            continue  # gone or damaged: `verify` tells which
        total += count_reaching(arrays["filter_logits"], threshold) - row.file.n_rows
    return total


def bytes_of(paths: Iterable[Path]) -> int:
    """Return the size of all these files together; one that is gone counts nothing."""
    total = 0
    for path in paths:
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            continue  # merged away while we were counting
    return total


def _array_bytes(path: Path) -> dict[str, int]:
    try:
        return {name: array.nbytes for name, array in open_container(path).arrays.items()}
    except CorruptError:
        return {}  # gone or damaged: `verify` tells which
