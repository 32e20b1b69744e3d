"""Rows of many small segments in one block of int8 codes, scanned whole: exact search without a call per segment.

For a few queries FAISS scans the codes directly, which reads a quarter of what float32 rows would; for many, the
codes are turned into float32 once, chunk by chunk, and multiplied. Both only select candidates: final scores are
computed one by one, so the two ways give the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.codes import check_scale, dequantise
from storage.exact import ExactBlock, Found, best_of, empty_found, may_lack_equals, score_rows

# From this many queries on, multiplying float32 rows is faster than scanning codes once per query.
_MULTIPLY_FROM = 16
_CHUNK_ROWS = 1 << 14
# Fetched beyond k, for rows whose order rounding could change.
_SPARE_ROWS = 16
_SIGN_BIT = np.uint8(0x80)


@dataclass(frozen=True)
class BlockPart:
    """Some rows of a segment, under the numbers that a search returns.

    Attributes:
        codes: int8 (n, d).
        scales: float16 (n).
        rows: int64 (n), rising.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float16]
    rows: NDArray[np.int64]


class CodeBlock:
    """Exact search over the rows of several parts; immutable and safe to share between threads."""

    def __init__(self, parts: Sequence[BlockPart], *, common: float, d: int) -> None:
        self._common = np.float16(check_scale(common))
        shared = [part.scales == self._common for part in parts]
        self._rows = _joined([part.rows[mask] for part, mask in zip(parts, shared, strict=True)])
        # Rows with a scale of their own (hardly any) are kept as float32: FAISS would take them for shorter ones.
        others = [(part, np.flatnonzero(~mask)) for part, mask in zip(parts, shared, strict=True)]
        self._others = ExactBlock(
            np.concatenate(
                [np.empty((0, d), np.float32), *(dequantise(part.codes[at], part.scales[at]) for part, at in others)]
            ),
            _joined([part.rows[at] for part, at in others]),
        )
        n = len(self._rows)
        raw = [as_faiss_bytes(part.codes[mask]) for part, mask in zip(parts, shared, strict=True)]
        # One inverted list of everything: unlike FAISS's flat index, it starts no threads for a single query.
        self._lists = faiss.ArrayInvertedLists(1, d)
        if n:
            positions, stacked = np.arange(n), np.concatenate(raw)
            self._lists.add_entries(0, n, faiss.swig_ptr(positions), faiss.swig_ptr(stacked))
        self._quantizer = faiss.IndexFlatIP(d)
        self._quantizer.add(np.zeros((1, d), np.float32))
        self._index = faiss.IndexIVFScalarQuantizer(
            self._quantizer, d, 1, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        self._index.by_residual = False
        faiss.copy_array_to_vector(exact_ranges(d), self._index.sq.trained)
        self._index.is_trained = True
        self._index.replace_invlists(self._lists, False)
        self._index.ntotal = n
        # A view of FAISS's own memory, so the codes are held once; it lives as long as the lists, which are ours.
        self._raw: NDArray[np.uint8] = np.empty((0, d), np.uint8)
        if n:
            self._raw = faiss.rev_swig_ptr(self._lists.get_codes(0), n * d).reshape(n, d)

    @property
    def n_rows(self) -> int:
        """How many rows the block holds."""
        return len(self._rows) + len(self._others.rows)

    def search(self, queries: NDArray[np.float32], k: int) -> Found:
        """Search the k best rows of each query float32 (m, d), exactly; equal scores go to the lower row."""
        found = [empty_found(len(queries), k)]
        if len(self._others.rows):
            found.append(self._others.search(queries, k))
        if len(self._rows):
            found.append(self._multiply(queries, k) if len(queries) >= _MULTIPLY_FROM else self._scan(queries, k))
        return best_of(found, k)

    def _scan(self, queries: NDArray[np.float32], k: int) -> Found:
        fetch = min(len(self._rows), k + _SPARE_ROWS)
        while True:
            coarse, positions = self._index.search(queries, fetch)
            if fetch == len(self._rows) or not may_lack_equals(coarse, positions >= 0, k).any():
                break
            fetch = min(len(self._rows), 4 * fetch)
        scores = np.empty(positions.shape, dtype=np.float32)
        for index, query in enumerate(queries):
            scores[index] = score_rows(self._vectors(positions[index]), query)
        return best_of([Found(scores, self._rows[positions])], k)

    def _multiply(self, queries: NDArray[np.float32], k: int) -> Found:
        found = empty_found(len(queries), k)
        for start in range(0, len(self._rows), _CHUNK_ROWS):
            chunk = slice(start, start + _CHUNK_ROWS)
            block = ExactBlock(self._vectors(chunk), self._rows[chunk])
            found = best_of([found, block.search(queries, k)], k)
        return found

    def _vectors(self, positions: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        codes = (self._raw[positions] ^ _SIGN_BIT).view(np.int8)
        return dequantise(codes, np.full(len(codes), self._common))


def exact_ranges(d: int) -> NDArray[np.float32]:
    """Return the ranges, float32 (2·d), with which FAISS's QT_8bit decodes `as_faiss_bytes` to the int8 they came from.

    A byte b decodes to min + (b + 0.5) / 255 · range, here b − 128; the types that FAISS calls "direct" would
    round the query instead.
    """
    return np.concatenate([np.full(d, -128.5, np.float32), np.full(d, 255.0, np.float32)])


def as_faiss_bytes(codes: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return the codes int8 (n, d) as the bytes uint8 (n, d) that FAISS stores for them."""
    return codes.view(np.uint8) ^ _SIGN_BIT


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, np.int64), *parts])
