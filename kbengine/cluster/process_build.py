"""A build's pieces in processes of this machine; one that dies costs its piece."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool

from kbengine.cluster.build_work import Piece, done
from kbengine.errors import StateError

_DEATHS = 20
"""Processes that may die before the build gives up."""

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}


class ProcessWorkers:
    """Does pieces of a build in so many processes at once, each with one thread.

    Args:
        n: how many.
    """

    def __init__(self, n: int) -> None:
        self._n = n

    def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
        """Yield each piece with its result, as they are done.

        Raises:
            KBError: what a worker raised.
            StateError: processes died again and again.
        """
        left = list(pieces)
        for _ in range(_DEATHS):
            finished: set[Piece] = set()
            try:
                for piece, result in self._worked(left):
                    finished.add(piece)
                    yield piece, result
                return
            except BrokenProcessPool:
                left = [piece for piece in left if piece not in finished]
        raise StateError(
            f"{_DEATHS} worker processes died, the last with {left[0].kind} {left[0].number} or one after it under "
            "way; is there memory enough for so many? Run the same build again with fewer: what is done stays"
        )

    def _worked(self, pieces: list[Piece]) -> Iterator[tuple[Piece, bytes]]:
        before = {name: os.environ.get(name) for name in _ONE_THREAD}
        os.environ.update(_ONE_THREAD)  # for the processes, which take it over when they start
        spawning = multiprocessing.get_context("spawn")
        waiting = iter(pieces)
        try:
            with ProcessPoolExecutor(self._n, mp_context=spawning) as pool:
                running: dict[Future[bytes], Piece] = {}
                try:
                    for piece in waiting:
                        running[pool.submit(_done, piece.to_bytes())] = piece
                        if len(running) >= 2 * self._n:  # the next is at hand when one is done
                            yield from _first(running)
                    while running:
                        yield from _first(running)
                finally:
                    for each in running:
                        each.cancel()
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _first(running: dict[Future[bytes], Piece]) -> Iterator[tuple[Piece, bytes]]:
    """Yield what is done first."""
    ready, _ = wait(running, return_when=FIRST_COMPLETED)
    for each in ready:
        piece = running.pop(each)
        yield piece, each.result()


def _done(message: bytes) -> bytes:
    return done(Piece.from_bytes(message))
