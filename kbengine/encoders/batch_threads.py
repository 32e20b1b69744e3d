"""Batches computed side by side, one core for each, instead of one after the other with all cores for one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")

_SETTING = threading.Lock()  # torch's number of threads is a setting of the process


def side_by_side(function: Callable[[T], R], batches: Sequence[T]) -> Iterator[R]:
    """Give the function's result for each batch, in order, computed by as many threads as torch would use for one.

    Each thread computes alone: no core waits for another at the end of every operator, which costs a tenth of the time
    where cores are free and far more where something else wants them. A batch's result is the same to the bit however
    many threads there are. With one batch, or one thread, it is computed in the thread that calls.

    Args:
        function: what computes a batch in torch.
        batches: longest first, so that no thread has a long one left while the others have nothing to do.
    """
    n_threads = min(torch.get_num_threads(), len(batches))
    if n_threads < 2:
        yield from map(function, batches)
        return
    executor = ThreadPoolExecutor(n_threads, thread_name_prefix="kbengine-encode", initializer=_compute_alone)
    try:
        yield from executor.map(function, batches)
    finally:
        executor.shutdown(cancel_futures=True)  # after an error or Ctrl-C those not begun are not wanted


def _compute_alone() -> None:
    """Let torch use one thread for what this thread computes, and in others what it used before."""
    with _SETTING:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        torch.get_num_threads()  # from now on this thread keeps it; what it set is also the default of later threads
        restoring = threading.Thread(target=torch.set_num_threads, args=(before,))
        restoring.start()
        restoring.join()
