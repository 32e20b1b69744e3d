"""What a job's work is given: its input, where it stands, and how it tells how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kbengine.errors import LockedError
from web.errors import QueueFullError
from web.jobs.job import Job, Progress
from web.jobs.store import RESULT_NAME, JobStore

T = TypeVar("T")

INPUT_NAME = "input"
REPORT_EVERY_S = 0.5
"""How often progress is written to disk, and the order to stop looked for."""
RETRY_S = 1.0
"""How long a job waits before it tries again what others hold."""


class JobStoppedError(Exception):
    """The job goes no further in this process."""


class JobCancelledError(JobStoppedError):
    """Somebody cancelled the job."""


class JobInterruptedError(JobStoppedError):
    """The service is stopping: the job goes on when it is back."""


class JobContext:
    """One job on its way, in the thread that does it.

    Attributes:
        job: As it was when it was begun; its `cursor` is where it goes on.
        folder: Its files, which are deleted with it.
    """

    def __init__(
        self,
        job: Job,
        store: JobStore,
        *,
        is_stopping: Callable[[], bool],
        wait: Callable[[float], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin it.

        Args:
            job: The job.
            store: Where it is kept.
            is_stopping: Tells whether the service is stopping.
            wait: Waits so many seconds, or until the service is stopping.
            clock: In seconds.
        """
        self.job = job
        self.folder = store.folder / job.id
        self._store = store
        self._is_stopping = is_stopping
        self._wait = wait
        self._clock = clock
        self._stage = ""
        self._began = self._reported = clock()
        self._first = 0
        self._progress = Progress("", 0, None)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """Return what the work needs to know beside its input."""
        return self.job.arguments

    @property
    def input(self) -> Path:
        """Return the folder of the files that were sent."""
        return self.folder / INPUT_NAME

    @property
    def result(self) -> Path:
        """Return the file that is downloaded at the end."""
        return self.folder / RESULT_NAME

    def progress(self, stage: str, done: int, total: int | None = None) -> None:
        """Say how far a stage is.

        Raises:
            JobCancelledError: the job was told to stop.
            JobInterruptedError: the service is stopping.
        """
        now = self._clock()
        is_new = stage != self._stage
        if is_new:
            self._stage, self._began, self._first = stage, now, done
        elapsed_s, n = now - self._began, done - self._first
        left = (total - done) * elapsed_s / n if total is not None and n > 0 and elapsed_s > 1 else None
        self._progress = Progress(stage, done, total, left)
        if self._is_stopping():
            self._store.report(self.job.id, self._progress)
            raise JobInterruptedError
        if is_new or now - self._reported >= REPORT_EVERY_S:
            self._report()

    def save(self, cursor: Any) -> None:
        """Store where the job goes on after an interruption; durable when this returns.

        Raises:
            JobCancelledError: the job was told to stop.
        """
        self._report(cursor)

    def patiently(self, change: Callable[[], T]) -> T:
        """Return what a change did; while others hold what it needs it is tried again.

        Raises:
            JobStoppedError: the job was told to stop meanwhile.
        """
        while True:
            try:
                return change()
            except (LockedError, QueueFullError):
                if self._is_stopping():
                    raise JobInterruptedError from None
                self._report()
                self._wait(RETRY_S)

    def _report(self, cursor: Any = None) -> None:
        self._reported = self._clock()
        if self._store.report(self.job.id, self._progress, cursor):
            raise JobCancelledError
