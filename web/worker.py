"""The server's worker: gunicorn's threads, with a stop that loses nothing."""

from __future__ import annotations

import math
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from gunicorn.arbiter import Arbiter
from gunicorn.workers.gthread import ThreadWorker

if TYPE_CHECKING:
    from web.service import Service

HEARTBEAT_S = 5.0


class EngineWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Threads that share one engine, loaded after the fork (a pool of numeric threads does not survive one).

    SIGTERM: /readyz says 503 at once; for `drain_s` new requests are still taken, each answered with
    `Connection: close`; then the address is closed and what was accepted is answered; then the engine is closed.
    """

    drain_s = 0.0
    _closes_at: float | None = None

    def load_wsgi(self) -> None:
        """Load the engine; its size decides how long that takes, so the arbiter is told that we live."""
        loaded = threading.Event()
        heart = threading.Thread(target=self._beat_until, args=(loaded,), daemon=True)
        heart.start()
        try:
            super().load_wsgi()
        finally:
            loaded.set()
            heart.join()

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to stop; a second SIGTERM ends the draining.

        A signal's handler runs between any two steps of the main thread: it takes no lock that those may hold, so it
        starts no thread and touches no pool.
        """
        service = self._service()
        if service is None or self._closes_at is not None or self.drain_s <= 0:
            if service is not None:
                service.stopping.set()
            super().handle_exit(sig, frame)
            return
        self._closes_at = time.monotonic() + self.drain_s
        service.stopping.set()
        self.max_keepalived = 0  # answers from now on say that the connection is closed; those that promised more hold

    def handle_quit(self, sig: int, frame: Any) -> None:  # noqa: ARG002 - gunicorn passes both
        """Stop at once. What is being written is wholly there or not at all, as after any other end of a process."""
        os._exit(0)

    def notify(self) -> None:
        """Tell the arbiter that we live, once a second at least; close the address when the draining is over."""
        super().notify()
        if self._closes_at is not None and time.monotonic() >= self._closes_at:
            self._closes_at = math.inf
            super().handle_exit(signal.SIGTERM, None)

    def set_accept_enabled(self, enabled: bool) -> None:
        """Take requests or leave them waiting; when stopping, take what waits already and close the address.

        Closed at once, so that later callers are refused and try elsewhere instead of waiting for a reset.
        """
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        for listener in self.sockets:
            while select.select([listener], [], [], 0)[0]:
                self.accept(listener)
            listener.close()

    def _service(self) -> Service | None:
        extensions: dict[str, Any] = getattr(getattr(self, "wsgi", None), "extensions", {})
        return extensions.get("kbengine")

    def _beat_until(self, loaded: threading.Event) -> None:
        while not loaded.wait(HEARTBEAT_S):
            self.notify()


class OneWorkerArbiter(Arbiter):  # type: ignore[misc]
    """The process that starts the worker, starts it anew when it dies, and passes on the signals to stop.

    A second worker would be a second engine, whose changes the first one's writer lock refuses.
    """

    def handle_ttin(self) -> None:
        """Leave the number of workers as it is."""

    handle_ttou = handle_ttin
    handle_usr2 = handle_ttin
    handle_winch = handle_ttin
