"""Sparse inner products of stored tokens with queries: the n-grams that both have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError
from storage.sparse_rows import SparseArrays
from storage.stored_array import Stored

__all__ = ["SparseQuery", "sparse_scores"]

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseQuery:
    """A query's sparse vectors for the start and the end side, over the same n-grams.

    Attributes:
        grams: uint32 (g), strictly rising.
        start: float32 (g), weights, 0 where the start side has none.
        end: float32 (g).
        model: Fingerprint of the sparse encoder.
    """

    grams: NDArray[np.uint32]
    start: Float32
    end: Float32
    model: str

    def __post_init__(self) -> None:
        if (self.grams[1:] <= self.grams[:-1]).any():
            raise InvalidOptionError("the n-grams of a sparse query do not rise; wanted each once, in order")
        if not self.grams.shape == self.start.shape == self.end.shape:
            raise InvalidOptionError(
                f"a sparse query has {self.grams.shape} n-grams and weights {self.start.shape} and {self.end.shape}; "
                "wanted one of each an n-gram"
            )


def sparse_scores(
    sparse: SparseArrays, query: SparseQuery, rows: Int64, *, passages: Int64, first_rows: Int64, token_counts: Int64
) -> tuple[Float32, Float32]:
    """Return the start and end scores of rows of a segment, both float32 (r,).

    Args:
        sparse: The segment's sparse rows.
        query: What is asked.
        rows: int64 (r,), rows of the segment.
        passages: int64 (r,), the passage of each row.
        first_rows: int64 (p), row of each passage's first token.
        token_counts: int64 (p), rows of each passage.
    """
    scores = np.zeros((2, len(rows)), dtype=np.float32)
    if not len(rows) or not len(query.grams):
        return scores[0], scores[1]
    named = np.unique(passages)
    # The dictionaries of all named passages side by side: each n-gram is looked up once.
    grams = _side_by_side(sparse.grams, sparse.gram_starts, named)
    at = np.minimum(np.searchsorted(query.grams, grams), len(query.grams) - 1)
    matched = query.grams[at] == grams
    gram_counts = sparse.gram_starts[named + 1] - sparse.gram_starts[named]
    gram_ends = np.cumsum(gram_counts)
    hits = np.concatenate([[0], np.cumsum(matched)])
    is_hit = hits[gram_ends] > hits[gram_ends - gram_counts]
    if not is_hit.any():
        return scores[0], scores[1]
    # From here on only passages that share an n-gram with the query; all of their rows, whichever are asked for.
    hit = named[is_hit]
    shifts = (gram_ends - gram_counts)[is_hit].astype(np.int32)
    row_counts = token_counts[hit]
    row_starts = np.cumsum(row_counts) - row_counts
    slots = np.searchsorted(hit, passages)
    slots[slots == len(hit)] = 0
    asked = np.flatnonzero(hit[slots] == passages)
    slots = slots[asked]
    places = row_starts[slots] + rows[asked] - first_rows[hit[slots]]
    bounds = np.append(first_rows, len(sparse.start_counts))
    for side, (name, weights) in enumerate((("start", query.start), ("end", query.end))):
        begins = getattr(sparse, f"{name}_begins")
        columns = _side_by_side(getattr(sparse, f"{name}_columns"), begins, hit).astype(np.int32)
        columns += np.repeat(shifts, begins[hit + 1] - begins[hit])
        values = np.where(matched, weights[at], np.float32(0)).take(columns)
        nonzero = np.flatnonzero(values != 0)  # on a bool array ten times as fast as on floats
        products = values[nonzero] * _side_by_side(getattr(sparse, f"{name}_weights"), begins, hit)[nonzero]
        counts = _side_by_side(getattr(sparse, f"{name}_counts"), bounds, hit)
        owners = np.searchsorted(np.cumsum(counts, dtype=np.int64), nonzero, side="right")
        sums = np.bincount(owners, weights=products, minlength=len(counts))
        scores[side, asked] = sums[places] * sparse.scales[hit[slots], side].astype(np.float32)
    return scores[0], scores[1]


def _side_by_side(array: Stored[Any], starts: Int64, passages: Int64) -> NDArray[Any]:
    """Return the parts of an array that belong to these passages, one after the other."""
    parts = zip(starts[passages].tolist(), starts[passages + 1].tolist(), strict=True)
    return np.concatenate([array[start:stop] for start, stop in parts])
