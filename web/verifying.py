"""Verification in the background: one at a time, the last result kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from kbengine.errors import KBError

if TYPE_CHECKING:
    from storage.verify import VerifyReport


@dataclass(frozen=True)
class VerifyState:
    """The last verification of this process.

    Attributes:
        state: What is going on: `failed` means that the verification itself could not be done.
        started_at: When it began, ISO 8601 in UTC.
        finished_at: When it ended.
        report: Of the last one that was done; kept while the next is running.
        problem: Why the last one failed.
    """

    state: Literal["never", "running", "done", "failed"] = "never"
    started_at: str | None = None
    finished_at: str | None = None
    report: VerifyReport | None = None
    problem: str | None = None


class Verification:
    """Runs `verify` in a thread of its own, on demand; `state` tells what is going on, and the last result."""

    def __init__(self, verify: Callable[[], VerifyReport]) -> None:
        self._verify = verify
        self._lock = threading.Lock()
        self.state = VerifyState()
        self._thread: threading.Thread | None = None

    def start(self) -> VerifyState:
        """Begin a verification, unless one is running, and return the state."""
        with self._lock:
            if self.state.state != "running":
                self.state = replace(self.state, state="running", started_at=_now(), finished_at=None, problem=None)
                self._thread = threading.Thread(target=self._run, name="kbengine-verify", daemon=True)
                self._thread.start()
            return self.state

    def wait(self, timeout_s: float | None = None) -> VerifyState:
        """Return the state when nothing is running any more, or when that takes longer than the timeout."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_s)
        return self.state

    def _run(self) -> None:
        try:
            report = self._verify()
        except KBError as error:
            self.state = replace(self.state, state="failed", finished_at=_now(), problem=error.message)
        except Exception as error:
            self.state = replace(self.state, state="failed", finished_at=_now(), problem=type(error).__name__)
            raise
        else:
            self.state = replace(self.state, state="done", finished_at=_now(), report=report)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
