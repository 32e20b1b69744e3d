"""Clients that ask a service all the time, and remember what it answered."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPException

Answer = tuple[tuple[str, float], ...]


class Load:
    """Some threads that ask one question after the other.

    Attributes:
        answers: How often each answer came.
        errors: What else came.
        unreachable: How often nobody was there.
    """

    def __init__(self, ask: Callable[[], tuple[int, object]], n: int) -> None:
        self.answers: Counter[Answer] = Counter()
        self.errors: list[object] = []
        self.unreachable = 0
        self._ask = ask
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(n)]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        """Let each thread end after its question."""
        self._ends.set()
        for each in self._threads:
            each.join()

    def _run(self) -> None:
        while not self._ends.wait(0.01):
            try:
                status, found = self._ask()
            except (OSError, HTTPException):
                self.unreachable += 1
                continue
            if status == 200 and isinstance(found, dict):
                self.answers[tuple((each["document"]["id"], each["score"]) for each in found["answers"])] += 1
            else:
                self.errors.append((status, found))


@contextlib.contextmanager
def asked(ask: Callable[[], tuple[int, object]], n: int = 3) -> Iterator[Load]:
    """Have clients ask in the block."""
    load = Load(ask, n)
    try:
        yield load
    finally:
        load.end()
