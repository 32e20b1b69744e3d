"""The server's worker: gunicorn's threads, with a stop that loses nothing."""

from __future__ import annotations

import gc
import math
import os
import select
import signal
import threading
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gunicorn import util
from gunicorn.arbiter import Arbiter
from gunicorn.http import get_parser
from gunicorn.workers.gthread import ThreadWorker

from web.receiving import Receiving, WatchedSocket

if TYPE_CHECKING:
    from web.service import Service

HEARTBEAT_S = 5.0
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
LINGER_S = 1.0
"""How long a connection that is closed waits for its client to close it too, so that the last answer is not cut off."""
ENDS_AFTER_S = 10
"""How long the engine may take to close; then the process ends as it is, which loses nothing that was acknowledged."""


class EngineWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Threads that share one engine, loaded after the fork (a pool of numeric threads does not survive one).

    SIGTERM: /readyz says 503 at once; for `drain_s` new requests are still taken, each answered with
    `Connection: close`; then the address is closed and what was accepted is answered; then the engine is closed.
    """

    drain_s = 0.0
    _closes_at: float | None = None

    def init_signals(self) -> None:
        """Take signals; those that came since the fork are waiting (see `OneWorkerArbiter.spawn_worker`)."""
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

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
        leave_what_stays()
        self.app_wsgi: Any = self.wsgi  # type: ignore[has-type]  # gunicorn has no types
        self.wsgi = self._answer

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Call the app; the connection is closed after an answer that says so, a header that gunicorn passes over."""

        def started(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            if ("Connection", "close") in headers:
                start_response.__self__.force_close()
            return start_response(status, headers, exc_info)

        return self.app_wsgi(environ, started)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Begin to stop; a second SIGTERM ends the draining. While the engine loads there is nothing to finish.

        A signal's handler runs between any two steps of the main thread: it takes no lock that those may hold, so it
        starts no thread and touches no pool.
        """
        service = self._service()
        if service is None:
            os._exit(0)
        service.stopping.set()
        if self._closes_at is not None or self.drain_s <= 0:
            super().handle_exit(sig, frame)
            return
        self._closes_at = time.monotonic() + self.drain_s
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

        Closed at once, so that later callers are refused and try elsewhere instead of waiting for a reset. From here on
        an alarm ends the process: the arbiter does so too, but not after SIGHUP, nor when it is gone itself.
        """
        super().set_accept_enabled(enabled)
        if enabled or self.alive:
            return
        signal.alarm(math.ceil(self.cfg.graceful_timeout) + ENDS_AFTER_S)
        for listener in self.sockets:
            while select.select([listener], [], [], 0)[0]:
                self.accept(listener)
            listener.close()

    def is_parent_alive(self) -> bool:
        """Tell whether the arbiter is there; without it the worker stops as after SIGTERM."""
        there: bool = super().is_parent_alive()
        if not there:
            self.alive = False
        return there

    @cached_property
    def receiving(self) -> Receiving:
        """The clients that are waited for: a quarter of the threads stays free of them."""
        return Receiving(max(1, self.cfg.threads * 3 // 4))

    def handle(self, conn: Any) -> Any:
        """Answer a request, and close its connection if it is to be closed: here, in the thread that answered.

        gunicorn waits for the client to close its side in the main thread, so that a few clients that do not keep
        everybody else from being answered, and the service from stopping.
        """
        if conn.parser is None:
            conn.parser = get_parser(self.cfg, WatchedSocket(conn.sock, self.receiving), conn.client)
        kept = super().handle(conn)
        if not kept:
            util.close_graceful(conn.sock, LINGER_S)
        return kept

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Forget a connection that `handle` has closed; keep any other."""
        if not fs.cancelled() and fs.exception() is None and fs.result():
            super().finish_request(conn, fs)
            return
        self.nr_conns -= 1
        conn.close()

    def run(self) -> None:
        """Answer until told to stop, close the engine, and end the process without its threads.

        A thread that waits for a client which does not read would keep an interpreter that ends as usual for ever.
        """
        super().run()
        self.app.close_engine()
        os._exit(0)

    def _service(self) -> Service | None:
        extensions: dict[str, Any] = getattr(getattr(self, "app_wsgi", None), "extensions", {})
        return extensions.get("kbengine")

    def _beat_until(self, loaded: threading.Event) -> None:
        while not loaded.wait(HEARTBEAT_S):
            self.notify()


def leave_what_stays() -> None:
    """Let the garbage collector pass over all objects there are: those of modules, models and open files stay anyway.

    Looking through them again and again stops every thread, for tens of milliseconds, in the middle of some answer.
    """
    gc.collect()
    gc.freeze()


class OneWorkerArbiter(Arbiter):  # type: ignore[misc]
    """The process that starts the worker, starts it anew when it dies, and passes on the signals to stop.

    A second worker would be a second engine, whose changes the first one's writer lock refuses.
    """

    def handle_ttin(self) -> None:
        """Leave the number of workers as it is."""

    def spawn_worker(self) -> int:
        """Return the new worker's process id.

        Signals to stop wait until the worker has handlers of its own: with those of the arbiter, which it begins with,
        it would forget them, and be waited for until it is killed.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        try:
            pid: int = super().spawn_worker()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return pid

    handle_ttou = handle_ttin
    handle_usr2 = handle_ttin
    handle_winch = handle_ttin
