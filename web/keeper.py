"""What an engine does between requests: look for commits of other processes, give the writer lock back."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Keeper:
    """A thread that calls `refresh` every so often, and `release` with the idle time after which to release."""

    def __init__(
        self, refresh: Callable[[], object], release: Callable[[float], None], refresh_s: float, idle_s: float
    ) -> None:
        self._refresh = refresh
        self._release = release
        self._refresh_s = refresh_s
        self._idle_s = idle_s
        self._problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kbengine-keeper", daemon=True)
        self._thread.start()

    @property
    def problem(self) -> str | None:
        """Return what went wrong the last time; None when nothing did."""
        return self._problem

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._refresh_s):
            try:
                self._refresh()
                self._release(self._idle_s)
            except Exception as error:  # whatever it is, the next look may go well: readiness tells meanwhile
                self._problem = f"{type(error).__name__}: {error}"
            else:
                self._problem = None
