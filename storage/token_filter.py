"""Keeping fewer tokens of what is stored: chosen by the stored filter logits, nothing is encoded again.

A token is kept when the larger of its two logits reaches the threshold; of a passage without such a token the best
one is. Kept tokens keep their ids; the ids of the others are never used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySource
from storage.errors import UsageError
from storage.segment import Segment, SegmentFile, segment_metadata, token_id_range, write_segment_file
from storage.segment_arrays import SegmentLengths, narrow_numbers

__all__ = ["LogitCounts", "filter_segment", "kept_rows"]

_ROW_ARRAYS = ("token_ordinals", "scales", "filter_logits", "codes")
_CHUNK_ROWS = 1 << 15
_PATTERNS = 1 << 16


@dataclass
class LogitCounts:
    """How many tokens have each value of the larger logit: float16 has so few values that quantiles are exact."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_PATTERNS, dtype=np.int64))

    def add(self, segment: Segment, live_passages: NDArray[np.bool_]) -> None:
        """Nothing; the tokens of these passages, bool (n_passages), are counted."""
        live = np.repeat(live_passages, segment.arrays.token_counts)
        patterns = _best_logits(segment).view(np.uint16)[live]
        self.counts += np.bincount(patterns, minlength=_PATTERNS)

    @property
    def total(self) -> int:
        """Tokens counted."""
        return int(self.counts.sum())

    def threshold_for(self, n_tokens: float) -> float:
        """The threshold that as nearly as possible `n_tokens` tokens reach; −inf where there are no more than that."""
        values = np.arange(_PATTERNS, dtype=np.uint16).view(np.float16)
        used = np.flatnonzero(self.counts)
        used = used[np.argsort(-values[used].astype(np.float32), kind="stable")]
        reached = np.cumsum(self.counts[used])
        if not len(used) or n_tokens >= reached[-1]:
            return -np.inf
        return float(values[used[np.argmin(np.abs(reached - n_tokens))]])


def kept_rows(segment: Segment, threshold: float) -> NDArray[np.bool_]:
    """Which rows stay, bool (n_rows): those that reach the threshold, and the first best row of any other passage."""
    arrays = segment.arrays
    best = _best_logits(segment).astype(np.float32)
    keep: NDArray[np.bool_] = best >= threshold
    filled = np.flatnonzero(arrays.token_counts)
    if not len(filled):
        return keep
    starts = arrays.first_rows[filled]
    counts = arrays.token_counts[filled]
    lacking = ~np.logical_or.reduceat(keep, starts)
    if lacking.any():
        is_best = best == np.repeat(np.maximum.reduceat(best, starts), counts)
        candidates = np.flatnonzero(is_best & np.repeat(lacking, counts))
        _, first = np.unique(np.searchsorted(starts, candidates, side="right"), return_index=True)
        keep[candidates[first]] = True
    return keep


def filter_segment(directory: Path, segment: Segment, keep: NDArray[np.bool_]) -> SegmentFile:
    """The record of the new, durable segment file with these rows, bool (n_rows), and all passages of the segment."""
    if keep.shape != (segment.n_rows,) or keep.dtype != np.bool_:
        raise UsageError(f"mask of rows is {keep.dtype} {keep.shape}, expected bool ({segment.n_rows},)")
    arrays = segment.arrays
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    first_rows = kept_before[arrays.first_rows]
    counts = (kept_before[arrays.first_rows + arrays.token_counts] - first_rows).astype(np.uint32)
    numbers = narrow_numbers(segment.token_numbers[keep])
    sources: dict[str, ArraySource] = {
        spec: getattr(arrays, spec)
        for spec in (
            "passage_ids",
            "document_ids",
            "first_token_ids",
            "passage_codes",
            "passage_scales",
            "terms",
            "posting_starts",
            "posting_passages",
            "posting_counts",
            "passage_lengths",
        )
    }
    sources.update(first_rows=first_rows.astype(np.int64), token_counts=counts, token_numbers=numbers)
    for name in _ROW_ARRAYS:
        sources[name] = _chosen(getattr(arrays, name), keep)
    first, end = token_id_range(arrays.first_token_ids, counts, numbers)
    old = arrays.lengths
    return write_segment_file(
        directory,
        SegmentLengths(len(numbers), old.n_passages, old.n_terms, old.n_postings, numbers.dtype.itemsize),
        sources,
        d=segment.d,
        metadata=segment_metadata(
            d=segment.d,
            token_scale=arrays.token_scale,
            passage_scale=arrays.passage_scale,
            encoder=arrays.encoder,
        ),
        first_token_id=first,
        end_token_id=end,
    )


def _best_logits(segment: Segment) -> NDArray[np.float16]:
    """The larger logit of each row, float16 (n)."""
    logits = segment.arrays.filter_logits.astype(np.float32)
    # + 0 makes one of the two zeros, which are equal but have different patterns.
    best: NDArray[np.float16] = (logits.max(axis=1, initial=-np.inf) + np.float32(0)).astype(np.float16)
    return best


def _chosen(array: NDArray[Any], keep: NDArray[np.bool_]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(array), _CHUNK_ROWS):
        chunk = slice(start, start + _CHUNK_ROWS)
        yield array[chunk][keep[chunk]]
