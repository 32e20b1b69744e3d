"""Sparse rows carried into new segment files: of kept passages when segments merge, of kept rows when one is rewritten.

Large arrays are streamed in chunks, as the vectors are; weights are copied, never coded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySource
from storage.sparse_rows import SparseArrays, SparseLengths

__all__ = ["merged_sparse", "thinned_sparse"]

_CHUNK = 1 << 20
_SIDES = ("start", "end")

Mask = NDArray[np.bool_]


def merged_sparse(
    parts: Sequence[SparseArrays], keep: Sequence[Mask], first_rows: Sequence[NDArray[np.int64]]
) -> tuple[SparseLengths, dict[str, ArraySource]]:
    """Return the lengths and the arrays, by their names in a file, of the kept passages of several segments.

    Args:
        parts: The segments' sparse rows, all of one sparse encoder.
        keep: For each, bool (p): which passages stay.
        first_rows: For each, int64 (p): row of each passage's first token.
    """
    sources: dict[str, ArraySource] = {
        "sparse_scales": np.concatenate([part.scales[mask] for part, mask in zip(parts, keep, strict=True)]),
        "sparse_gram_starts": _joined_starts([part.gram_starts for part in parts], keep),
        "sparse_grams": _kept([np.asarray(part.grams) for part in parts], [part.gram_starts for part in parts], keep),
    }
    n_entries = []
    for side in _SIDES:
        begins = [getattr(part, f"{side}_begins") for part in parts]
        starts = _joined_starts(begins, keep)
        n_entries.append(int(starts[-1]))
        sources[f"sparse_{side}_begins"] = starts
        for name in ("columns", "weights"):
            sources[f"sparse_{side}_{name}"] = _kept([getattr(part, f"{side}_{name}") for part in parts], begins, keep)
        counts = [getattr(part, f"{side}_counts") for part in parts]
        bounds = [np.append(rows, len(count)) for rows, count in zip(first_rows, counts, strict=True)]
        sources[f"sparse_{side}_counts"] = _kept(counts, bounds, keep)
    n_grams = int(np.asarray(sources["sparse_gram_starts"])[-1])
    return SparseLengths(n_grams, n_entries[0], n_entries[1]), sources


def thinned_sparse(
    sparse: SparseArrays, keep: Mask, first_rows: NDArray[np.int64]
) -> tuple[SparseLengths, dict[str, ArraySource]]:
    """Return the lengths and the arrays of a segment of which only some rows stay, bool (n); dictionaries stay whole.

    Args:
        sparse: The segment's sparse rows.
        keep: bool (n): which rows stay.
        first_rows: int64 (p): row of each passage's first token, before.
    """
    sources: dict[str, ArraySource] = {
        "sparse_scales": sparse.scales,
        "sparse_gram_starts": sparse.gram_starts,
        "sparse_grams": np.asarray(sparse.grams),
    }
    n_entries = []
    for side in _SIDES:
        counts = getattr(sparse, f"{side}_counts")
        bounds = np.append(first_rows, len(counts))
        kept_before = np.concatenate([[0], np.cumsum(np.where(keep, counts, 0), dtype=np.int64)])
        begins = kept_before[bounds]
        n_entries.append(int(begins[-1]))
        sources[f"sparse_{side}_begins"] = begins
        sources[f"sparse_{side}_counts"] = counts[keep]
        for name in ("columns", "weights"):
            sources[f"sparse_{side}_{name}"] = _entries_of_rows(getattr(sparse, f"{side}_{name}"), counts, keep)
    return SparseLengths(len(sparse.grams), n_entries[0], n_entries[1]), sources


def _joined_starts(starts: Sequence[NDArray[np.int64]], keep: Sequence[Mask]) -> NDArray[np.int64]:
    lengths = np.concatenate([np.diff(each)[mask] for each, mask in zip(starts, keep, strict=True)])
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _kept(
    arrays: Sequence[NDArray[Any]], starts: Sequence[NDArray[np.int64]], keep: Sequence[Mask]
) -> Iterator[NDArray[Any]]:
    """Yield the parts of an array that belong to kept passages, in order, each of bounded size."""
    for array, bounds, mask in zip(arrays, starts, keep, strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
        for first, stop in zip(bounds[edges[::2]].tolist(), bounds[edges[1::2]].tolist(), strict=True):
            for begin in range(first, stop, _CHUNK):
                yield array[begin : min(begin + _CHUNK, stop)]


def _entries_of_rows(array: NDArray[Any], counts: NDArray[np.uint8], keep: Mask) -> Iterator[NDArray[Any]]:
    """Yield the entries of the rows that stay, some rows at a time."""
    rows_at_once = _CHUNK // 64
    begin = 0
    for first in range(0, len(counts), rows_at_once):
        rows = slice(first, first + rows_at_once)
        end = begin + int(counts[rows].sum(dtype=np.int64))
        yield array[begin:end][np.repeat(keep[rows], counts[rows])]
        begin = end
