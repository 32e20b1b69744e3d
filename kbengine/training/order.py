"""In what order examples are seen: a function of the seed and the epoch alone, so that any place can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import numpy as np

B = TypeVar("B")
_WORKERS = 2


def epoch_batches(n_examples: int, *, seed: int, epoch: int, batch_size: int, rank: int, world: int) -> list[list[int]]:
    """Return this process's share of every batch of an epoch, in order.

    Examples are shuffled anew each epoch. Batches are `batch_size` examples over all processes, the last one smaller.
    With several processes each gets the same number, so up to `world - 1` examples of the last batch are left out.

    Args:
        n_examples: how many there are.
        seed: the run's.
        epoch: from 0.
        batch_size: examples of one batch over all processes.
        rank: number of this process.
        world: number of processes.
    """
    order = np.random.default_rng((seed, epoch)).permutation(n_examples)
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
