"""Places for requests that take long, so that they leave threads for others."""

from __future__ import annotations

import threading

from web.errors import QueueFullError

__all__ = ["Places"]

RETRY_AFTER_S = 1.0


class Places:
    """So many requests of a kind at once; one more is refused."""

    def __init__(self, n: int, what: str) -> None:
        self.n = n
        self._what = what
        self._free = threading.Semaphore(n)

    def take(self) -> None:
        """Take a place, to be given back with `give_back`; raise QueueFullError when there is none."""
        if not self._free.acquire(blocking=False):
            raise QueueFullError(
                f"{self.n} {self._what} are being answered, and no more may; try again later",
                retry_after_s=RETRY_AFTER_S,
            )

    def give_back(self) -> None:
        """Leave the place to another request."""
        self._free.release()
