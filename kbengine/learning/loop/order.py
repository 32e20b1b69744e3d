"""In what order examples are seen: a function of the seed and the epoch alone, so that any place can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

B = TypeVar("B")
_WORKERS = 2


def epoch_order(n_examples: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return all examples in an epoch's order, int64 (n,), shuffled anew each epoch."""
    return np.random.default_rng((seed, epoch)).permutation(n_examples)


def grouped_order(groups: NDArray[np.int64], size: int, *, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return all examples in an epoch's order, those of one group in runs of `size` side by side, int64 (n,).

    Args:
        groups: int64 (n,), the group of each example.
        size: longest run.
        seed: the run's.
        epoch: from 0.
    """
    rng = np.random.default_rng((seed, epoch))
    shuffled = rng.permutation(len(groups))
    by_group = shuffled[np.argsort(groups[shuffled], kind="stable")]
    _, firsts, counts = np.unique(groups[by_group], return_index=True, return_counts=True)
    within = np.arange(len(by_group)) - np.repeat(firsts, counts)
    runs = np.cumsum(within % size == 0) - 1
    places = rng.permutation(int(runs[-1]) + 1 if len(runs) else 0)
    return by_group[np.argsort(places[runs], kind="stable")]


def epoch_batches(order: NDArray[np.int64], *, batch_size: int, rank: int, world: int) -> list[list[int]]:
    """Return this process's share of every batch of an epoch, in order.

    Batches are `batch_size` examples over all processes, the last one smaller. With several processes each gets the
    same number, so up to `world - 1` examples of the last batch are left out.

    Args:
        order: int64 (n,), all examples.
        batch_size: examples of one batch over all processes.
        rank: number of this process.
        world: number of processes.
    """
    n_examples = len(order)
    usable = n_examples - n_examples % world
    batches = [order[begin : min(begin + batch_size, usable)] for begin in range(0, usable, batch_size)]
    return [batch[rank::world].tolist() for batch in batches]


def prefetched(collate: Callable[[Sequence[int]], B], batches: Sequence[Sequence[int]], *, ahead: int) -> Iterator[B]:
    """Give the collated batches in order, up to `ahead` of them prepared by threads meanwhile."""
    with ThreadPoolExecutor(max_workers=min(_WORKERS, ahead), thread_name_prefix="collate") as executor:
        waiting = iter(batches)
        pending: list[Future[B]] = [executor.submit(collate, batch) for batch in islice(waiting, ahead)]
        try:
            while pending:
                first = pending.pop(0)
                result = first.result()
                pending += [executor.submit(collate, batch) for batch in islice(waiting, 1)]
                yield result
        finally:
            for future in pending:
                future.cancel()
