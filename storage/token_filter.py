"""Which stored tokens to keep when there are to be fewer: chosen by their filter logits.

A token is kept when the larger of its two logits reaches the threshold; of a passage without such a token the best
one is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from storage.segment import Segment

__all__ = ["LogitCounts", "kept_rows"]

_PATTERNS = 1 << 16


@dataclass
class LogitCounts:
    """How many tokens have each value of the larger logit: float16 has so few values that quantiles are exact."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_PATTERNS, dtype=np.int64))

    def add(self, segment: Segment, live_passages: NDArray[np.bool_]) -> None:
        """Count the tokens of these passages, bool (n_passages)."""
        live = np.repeat(live_passages, segment.arrays.token_counts)
        patterns = _best_logits(segment).view(np.uint16)[live]
        self.counts += np.bincount(patterns, minlength=_PATTERNS)

    @property
    def total(self) -> int:
        """Tokens counted."""
        return int(self.counts.sum())

    def threshold_for(self, n_tokens: float) -> float:
        """Return the threshold that as nearly as possible `n_tokens` tokens reach; −inf where there are no more."""
        values = np.arange(_PATTERNS, dtype=np.uint16).view(np.float16)
        used = np.flatnonzero(self.counts)
        used = used[np.argsort(-values[used].astype(np.float32), kind="stable")]
        reached = np.cumsum(self.counts[used])
        if not len(used) or n_tokens >= reached[-1]:
            return -np.inf
        return float(values[used[np.argmin(np.abs(reached - n_tokens))]])


def kept_rows(segment: Segment, threshold: float) -> NDArray[np.bool_]:
    """Return which rows stay, bool (n_rows): those that reach the threshold, and the best row of any other passage."""
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


def _best_logits(segment: Segment) -> NDArray[np.float16]:
    """Return the larger logit of each row, float16 (n)."""
    logits = segment.arrays.filter_logits.astype(np.float32)
    # + 0 makes one of the two zeros, which are equal but have different patterns.
    best: NDArray[np.float16] = (logits.max(axis=1, initial=-np.inf) + np.float32(0)).astype(np.float16)
    return best
