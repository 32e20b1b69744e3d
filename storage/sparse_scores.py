"""Sparse inner products of stored tokens with queries: the n-grams that both have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError
from storage.sparse_rows import SparseArrays

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
    """The start and end scores of rows of a segment, both float32 (r,).

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
    gram_counts = sparse.gram_starts[named + 1] - sparse.gram_starts[named]
    places = _expanded(sparse.gram_starts[named], gram_counts)
    grams = sparse.grams[places]
    at = np.minimum(np.searchsorted(query.grams, grams), len(query.grams) - 1)
    matched = query.grams[at] == grams
    of_gram = np.concatenate([[0], np.cumsum(gram_counts)])
    hits = np.concatenate([[0], np.cumsum(matched)])
    has_hit = hits[of_gram[1:]] > hits[of_gram[:-1]]
    if not has_hit.any():
        return scores[0], scores[1]
    order = np.searchsorted(named, passages)
    chosen = np.flatnonzero(has_hit[order])
    slots, chosen_rows = order[chosen], rows[chosen]
    for side, (name, weights) in enumerate((("start", query.start), ("end", query.end))):
        of_query = np.where(matched, weights[at], np.float32(0))
        counts, begins = getattr(sparse, f"{name}_counts"), getattr(sparse, f"{name}_begins")
        columns, codes = getattr(sparse, f"{name}_columns"), getattr(sparse, f"{name}_weights")
        entry_starts = _entry_starts(counts, begins, named[has_hit], first_rows, token_counts)
        row_counts = counts[chosen_rows].astype(np.int64)
        row_of_hit = _places_of(chosen_rows, named[has_hit], first_rows, token_counts, passages[chosen])
        entries = _expanded(entry_starts[row_of_hit], row_counts)
        values = of_query[columns[entries] + np.repeat(of_gram[slots], row_counts)]
        nonzero = np.flatnonzero(values)
        owners = np.repeat(np.arange(len(chosen)), row_counts)[nonzero]
        products = values[nonzero] * codes[entries[nonzero]]
        sums = np.bincount(owners, weights=products, minlength=len(chosen))
        scales = sparse.scales[named, side].astype(np.float32)[slots]
        scores[side, chosen] = sums.astype(np.float32) * scales
    return scores[0], scores[1]


def _entry_starts(
    counts: NDArray[np.uint8], begins: Int64, passages: Int64, first_rows: Int64, token_counts: Int64
) -> Int64:
    """Where the entries of every row of these passages begin, rows passage by passage."""
    lengths = token_counts[passages]
    of_rows = counts[_expanded(first_rows[passages], lengths)].astype(np.int64)
    before = np.cumsum(of_rows) - of_rows
    starts = np.cumsum(lengths) - lengths
    if not len(before):
        return before
    # An empty passage at the very end has no row; its shift is repeated for none.
    shifts = begins[passages] - before[np.minimum(starts, len(before) - 1)]
    found: Int64 = before + np.repeat(shifts, lengths)
    return found


def _places_of(rows: Int64, passages: Int64, first_rows: Int64, token_counts: Int64, owners: Int64) -> Int64:
    """The position of each row among all rows of these passages, passage by passage."""
    lengths = token_counts[passages]
    starts = np.cumsum(lengths) - lengths
    places: Int64 = starts[np.searchsorted(passages, owners)] + rows - first_rows[owners]
    return places


def _expanded(starts: Int64, lengths: Int64) -> Int64:
    """All numbers of the ranges that begin at `starts`, one range after the other."""
    total = int(lengths.sum())
    offsets = np.cumsum(lengths) - lengths
    numbers: Int64 = np.arange(total, dtype=np.int64) + np.repeat(starts - offsets, lengths)
    return numbers
