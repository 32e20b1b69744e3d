"""Which stored tokens nearest-neighbour search may start from, or are kept when there are to be fewer.

A token is chosen when the larger of its two filter logits reaches the threshold; of a passage without such a token the
best one is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from storage.segment import Segment

__all__ = ["LogitCounts", "count_reaching", "indexed_rows", "kept_rows"]

_PATTERNS = 1 << 16


@dataclass
class LogitCounts:
    """How many tokens have each value of the larger logit: float16 has so few values that quantiles are exact."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(_PATTERNS, dtype=np.int64))

    def add(self, segment: Segment, live_passages: NDArray[np.bool_]) -> None:
        """Count the tokens of these passages, bool (n_passages)."""
        live = np.repeat(live_passages, segment.arrays.token_counts)
        patterns = _one_zero(segment.best_logits).view(np.uint16)[live]
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
    """Return the chosen rows, bool (n_rows): those that reach the threshold, and the best row of any other passage."""
    arrays = segment.arrays
    best = segment.best_logits.astype(np.float32)
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


def count_reaching(logits: NDArray[np.float16], threshold: float) -> int:
    """Return how many rows' larger logit reaches a threshold; logits are float16 (n) or (n, 2)."""
    best = logits if logits.ndim == 1 else logits.max(axis=1, initial=-np.inf)
    # Half floats have no fast comparison; how often each pattern occurs is counted at once.
    counts = np.bincount(best.view(np.uint16), minlength=_PATTERNS)
    values = np.arange(_PATTERNS, dtype=np.uint16).view(np.float16).astype(np.float32)
    return int(counts[values >= threshold].sum())


def indexed_rows(segment: Segment, threshold: float | None) -> NDArray[np.int64] | None:
    """Return the rows that search may start from, rising, int64 (m); None for all: those chosen by the threshold."""
    if threshold is None:
        return None
    chosen = kept_rows(segment, threshold)
    return None if chosen.all() else np.flatnonzero(chosen)


def _one_zero(logits: NDArray[np.float16]) -> NDArray[np.float16]:
    # + 0 makes one of the two zeros, which are equal but have different patterns.
    return (logits.astype(np.float32) + np.float32(0)).astype(np.float16)
