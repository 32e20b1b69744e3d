"""Quantised vectors of a segment: in the segment itself, or in a derived file (`storage.codes_file`)."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from storage.ann_lists import AnnKind, AnnSource, ListSource, Nearest, Progress, nearest_centroids
from storage.codes import quantise
from storage.index_kind import STORED_KIND
from storage.quantiser import Quantiser
from storage.stored_array import Stored, seen_at

__all__ = [
    "CodedVectors",
    "DecodedSource",
    "build_codes",
    "RowsByList",
    "encode_rows",
]

_BLOCK_ROWS = 4096

Vectors = Callable[[slice], NDArray[np.float32]]


@dataclass(frozen=True)
class RowsByList:
    """Which rows lie in each list.

    Attributes:
        order: uint32 (n), the rows, those of one list side by side and rising.
        starts: int64 (nlist + 1), where each list begins there.
        codes: uint8 (n, code_bytes), of the rows in this order; None where they are not stored so.
    """

    order: Stored[np.uint32]
    starts: NDArray[np.int64]
    codes: Stored[np.uint8] | None = None


@dataclass(frozen=True)
class CodedVectors:
    """The quantised vectors of a segment's rows.

    Attributes:
        quantiser: What decodes them.
        list_numbers: uint16 (n), all of them 0 where it has no lists.
        codes: uint8 (n, code_bytes).
        mapped: The mapping of the index file that they are read from; None where they are stored elsewhere.
        grouped: The rows by list, where that is stored with them.
    """

    quantiser: Quantiser
    list_numbers: Stored[np.uint16]
    codes: Stored[np.uint8]
    mapped: mmap.mmap | None = field(default=None, repr=False, compare=False)
    grouped: RowsByList | None = field(default=None, repr=False, compare=False)

    @cached_property
    def by_list(self) -> RowsByList:
        """The rows by list."""
        if self.grouped is not None:
            return self.grouped
        lists = np.asarray(self.list_numbers)
        starts = np.concatenate([[0], np.cumsum(np.bincount(lists, minlength=self.quantiser.nlist))])
        return RowsByList(np.argsort(lists, kind="stable").astype(np.uint32), starts.astype(np.int64))

    def release(self) -> None:
        """Give back the memory of what was read from the index file; what is asked for later is mapped again."""
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)

    @classmethod
    def of(cls, quantiser: Quantiser, list_numbers: Stored[np.uint16] | None, codes: Stored[np.uint8]) -> CodedVectors:
        """Return the vectors; `list_numbers` None where the quantiser has one list."""
        if list_numbers is None:
            list_numbers = np.broadcast_to(np.uint16(0), len(codes))
        return cls(quantiser, list_numbers, codes)

    @property
    def stored_lists(self) -> NDArray[np.uint16] | None:
        """The list numbers, None where they need not be stored."""
        return None if self.quantiser.kind.name == STORED_KIND else np.asarray(self.list_numbers)

    @property
    def n_rows(self) -> int:
        """How many vectors there are."""
        return len(self.codes)

    @property
    def d(self) -> int:
        """Their dimension."""
        return self.quantiser.d

    def vectors(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the decoded vectors of rows, float32 (rows, d)."""
        return self.quantiser.decode(self.list_numbers[rows], self.codes[rows])

    def inner_products(self, rows: NDArray[np.int64], targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products float32 (rows, t) of the decoded vectors of rows with targets float32 (d, t)."""
        lists, codes = seen_at(self.list_numbers, rows), seen_at(self.codes, rows)
        return self.quantiser.inner_products(lists, codes, rows, targets)


def encode_rows(
    n: int,
    vectors: Vectors,
    quantiser: Quantiser,
    *,
    nearest: Nearest = nearest_centroids,
    progress: Progress | None = None,
) -> CodedVectors:
    """Return the quantised form of n vectors, which `vectors` gives block by block.

    Large results lie in an unnamed temporary file that goes with them, not in memory.
    """
    list_numbers = np.empty(n, dtype=np.uint16)
    codes = _room(n, quantiser.code_bytes)

    def work(start: int) -> int:
        block = slice(start, min(start + _BLOCK_ROWS, n))
        rows = vectors(block)
        lists = nearest(rows, quantiser.centroids)
        list_numbers[block] = lists
        codes[block] = quantiser.encode(rows, lists)
        return len(rows)

    done = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="kbengine-encode") as executor:
        for n_done in executor.map(work, range(0, n, _BLOCK_ROWS)):
            done += n_done
            if progress is not None:
                progress(done, n)
    return CodedVectors(quantiser, list_numbers, codes)


def _room(n: int, width: int) -> NDArray[np.uint8]:
    if n * width < 1 << 26:
        return np.empty((n, width), dtype=np.uint8)
    with tempfile.TemporaryFile() as file:
        return np.memmap(file, dtype=np.uint8, mode="w+", shape=(n, width))


@dataclass(frozen=True)
class DecodedSource:
    """Some rows of quantised vectors, numbered 0…m−1, decoded whenever an index of them is made.

    Lists of them stay in the basis of the codes, so that nothing has to be rotated back: FAISS decodes their levels.

    Attributes:
        segment_sha256: Checksum of the segment's file.
        coded: The vectors of all rows.
        rows: int64 (m), those that the index is made of; None for all.
        common: Common scale of int8 codes made of them.
    """

    segment_sha256: str
    coded: CodedVectors
    rows: Stored[np.int64] | None
    common: float

    @property
    def kind(self) -> AnnKind:
        """Whose vectors they are."""
        return "tokens"

    @property
    def n_rows(self) -> int:
        """How many vectors there are."""
        return self.coded.n_rows if self.rows is None else len(self.rows)

    @property
    def d(self) -> int:
        """Their dimension."""
        return self.coded.d

    def vectors(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the vectors of rows, float32 (rows, d)."""
        return self.coded.vectors(rows if self.rows is None else self.rows[rows])

    @property
    def basis(self) -> Quantiser:
        """What rotates queries into the basis of the lists: that of the codes."""
        return self.coded.quantiser

    @property
    def faiss_ranges(self) -> NDArray[np.float32]:
        """Least values and widths with which FAISS decodes bytes as the quantiser decodes levels, float32 (2·d)."""
        least, step = self.basis.mixed.ranges
        return np.concatenate([least, 255 * step])

    def in_code_units(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the vectors of rows as FAISS decodes them: in the basis of the codes, less their mean."""
        return self.basis.mixed.decode(self.coded.codes[rows if self.rows is None else self.rows[rows]])

    def faiss_bytes(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return the levels of rows, uint8 (rows, d)."""
        return self.basis.mixed.levels(self.coded.codes[rows if self.rows is None else self.rows[rows]])

    def some(self, rows: NDArray[np.int64] | slice) -> AnnSource:
        """Return some of the vectors as int8, decoded once and numbered from 0."""
        codes, scales = quantise(self.vectors(rows), self.common)
        return AnnSource(self.segment_sha256, self.kind, codes, scales, self.common)


def build_codes(source: ListSource, quantiser: Quantiser, *, progress: Progress | None = None) -> CodedVectors:
    """Return the quantised form of a segment's vectors."""
    return encode_rows(source.n_rows, source.vectors, quantiser, progress=progress)
