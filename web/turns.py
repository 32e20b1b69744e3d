"""Turns in order of coming: who waits longest is next."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """A lock that is handed over in order of coming.

    One of `threading` goes to whoever asks first once it is free, and that is who has just given it back: a caller that
    takes it again and again would keep all others out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    @property
    def n_waiting(self) -> int:
        """Return how many wait for their turn."""
        return len(self._waiting)

    def acquire(self, timeout_s: float | None = None) -> bool:
        """Return whether it is the caller's turn: True once it is, False when that took longer than the timeout."""
        with self._lock:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(timeout_s):
            return True
        with self._lock:
            if mine.is_set():  # it came just now
                return True
            self._waiting.remove(mine)
            return False

    def release(self) -> None:
        """End the caller's turn; the one that waited longest has the next."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False
