"""Which clients a thread waits for, and who has to go when they would take all threads."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["Receiving", "WatchedSocket"]


class Receiving:
    """The sockets that threads read requests from and that send nothing just now, at most `limit` of them.

    One more, and the one that has sent nothing for longest is read no further: its request ends as one whose client
    hung up. So clients that stall leave threads for others, for health checks above all, and one that sends stays.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._waiting: dict[int, socket.socket] = {}  # in the order of coming

    @contextlib.contextmanager
    def waiting_for(self, client: socket.socket) -> Iterator[None]:
        """Wait for the client in the block."""
        with self._lock:
            self._waiting[id(client)] = client
            too_many = len(self._waiting) > self.limit
            longest = self._waiting.pop(next(iter(self._waiting))) if too_many else None
        if longest is not None:
            with contextlib.suppress(OSError):  # it may have hung up meanwhile
                longest.shutdown(socket.SHUT_RD)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.pop(id(client), None)


class WatchedSocket:
    """A socket whose `recv` is known to a `Receiving`; everything else is the socket's own."""

    def __init__(self, client: socket.socket, receiving: Receiving) -> None:
        self._client = client
        self._receiving = receiving

    def recv(self, n_bytes: int) -> bytes:
        """Return what came, at most so many bytes; none at the end, or when it took longest of too many."""
        with self._receiving.waiting_for(self._client):
            return self._client.recv(n_bytes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
