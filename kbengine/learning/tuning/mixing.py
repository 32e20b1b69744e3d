"""Which rows an epoch has: those of several files, drawn so that none drowns the others; the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Mixing = Literal["proportional", "root", "equal"]
MIXINGS: tuple[Mixing, ...] = get_args(Mixing)
_EXPONENTS = {"proportional": 1.0, "root": 0.5, "equal": 0.0}


def source_shares(n_rows: Sequence[int], mixing: Mixing, n_total: int) -> list[int]:
    """Return how many rows of each source an epoch of `n_total` has: its size to the power 1, 1/2 or 0, in proportion.

    Every source has one at least; rounding goes to the largest remainders.
    """
    weights = np.asarray(n_rows, dtype=np.float64) ** _EXPONENTS[mixing]
    exact = weights / weights.sum() * n_total
    shares = np.maximum(np.floor(exact).astype(np.int64), 1)
    for i in np.argsort(-(exact - np.floor(exact)), kind="stable"):
        if shares.sum() >= n_total:
            break
        shares[i] += 1
    return [int(share) for share in shares]


def epoch_rows(sources: Sequence[Sequence[int]], shares: Sequence[int], *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return the rows of an epoch, int64, source after source.

    A source gives its rows in an order drawn once, going on in the next epoch where it stopped: all of them are seen
    before any is seen again.

    Args:
        sources: the rows of each source.
        shares: how many of each an epoch has.
        seed: of the order.
        epoch: its number.
    """
    chosen = []
    for number, (rows, share) in enumerate(zip(sources, shares, strict=True)):
        positions = np.arange(epoch * share, (epoch + 1) * share)
        for turn in np.unique(positions // len(rows)).tolist():
            order = np.random.default_rng((seed, number, turn)).permutation(len(rows))
            within = positions[positions // len(rows) == turn] % len(rows)
            chosen.append(np.asarray(rows, dtype=np.int64)[order[within]])
    return np.concatenate(chosen)
