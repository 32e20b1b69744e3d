"""What does the jobs: a few threads that take them in turn, beside those of other processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.errors import KBError, StateError
from web.jobs.context import JobCancelledError, JobContext, JobInterruptedError, JobStoppedError
from web.jobs.job import Job, Outcome
from web.jobs.store import JobStore
from web.problems import http_problem, problem_of
from web.request_log import error_facts

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

Work = Callable[[JobContext], Outcome]
"""What does one job of a kind; begun again after an interruption, with the cursor that it saved."""

LOOK_EVERY_S = 1.0
"""How often jobs of other processes that ended are looked for."""
EXPIRE_EVERY_S = 600.0
MAX_ATTEMPTS = 3
"""How often a job is begun again when the process ended under it, before it is taken for the reason."""
ENDS_S = 5.0
"""How long closing waits for the jobs to notice; one that does not is taken up again by the next process."""


class JobRunner:
    """Does the jobs of a knowledge base, so many at once.

    Attributes:
        store: The jobs.
        keep_s: How long finished jobs are kept.
    """

    def __init__(
        self,
        store: JobStore,
        works: Mapping[str, Work],
        *,
        at_once: int = 1,
        keep_s: float = 7 * 86_400.0,
        log: FilteringBoundLogger | None = None,
    ) -> None:
        self.store = store
        self.keep_s = keep_s
        self._works = works
        self._at_once = at_once
        self._log = log
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._expired = 0.0

    def start(self) -> None:
        """Begin to look for jobs, unless that has begun."""
        with self._lock:
            if self._threads or self._stopping.is_set():
                return
            self._threads = [
                threading.Thread(target=self._loop, name=f"kbengine-jobs-{n}", daemon=True)
                for n in range(self._at_once)
            ]
            for thread in self._threads:
                thread.start()

    def submit(
        self,
        folder: Path,
        kind: str,
        title: str,
        arguments: Mapping[str, Any],
        *,
        owner: str | None = None,
        operation: str | None = None,
    ) -> Job:
        """Return the job of a folder, stored; see `JobStore.add`."""
        job = self.store.add(folder, kind, title, arguments, owner=owner, operation=operation)
        self.start()
        self._wake.set()
        return job

    def close(self) -> None:
        """Interrupt the jobs, which go on when the service is back."""
        self._stopping.set()
        self._wake.set()
        ends_at = time.monotonic() + ENDS_S
        for thread in self._threads:
            thread.join(max(0.0, ends_at - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self.store.close()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()  # before looking: a job that comes meanwhile is looked for at once
            try:
                did = self._do_one()
                self._expire()
            except Exception as error:  # a full disk, a database that is busy: the next look may go well
                self._tell("jobs_failed", **error_facts(error))
                did = False
            if not did and not self._stopping.is_set():
                self._wake.wait(LOOK_EVERY_S)

    def _do_one(self) -> bool:
        """Do the oldest job that nobody does, and tell whether there was one."""
        if not self.store.exists:
            return False
        for waiting in self.store.unfinished():
            with self.store.claimed(waiting.id) as is_held:
                job = self.store.begin(waiting.id) if is_held else None
                if job is not None:
                    self._do(job)
                    return True
        return False

    def _do(self, job: Job) -> None:
        began = time.perf_counter()
        context = JobContext(job, self.store, is_stopping=self._stopping.is_set, wait=self._stopping.wait)
        try:
            if job.is_cancelling:
                raise JobCancelledError
            if job.attempts > MAX_ATTEMPTS:
                raise StateError(f"the service ended {MAX_ATTEMPTS} times while it did this job; send less at once")
            outcome = self._works[job.kind](context)
        except JobInterruptedError:
            self.store.requeue(job.id)
            return
        except JobStoppedError:
            self.store.finish(job.id, "cancelled")
            state = "cancelled"
        except Exception as error:
            if self._stopping.is_set():  # the engine may be closed already: that is no fault of the job
                self.store.requeue(job.id)
                return
            self.store.finish(job.id, "failed", problem=self._problem(job, error))
            state = "failed"
        else:
            self.store.finish(job.id, "succeeded", outcome=outcome)
            state = "succeeded"
        self._tell("job", job=job.id, kind=job.kind, state=state, ms=round((time.perf_counter() - began) * 1e3, 2))

    def _problem(self, job: Job, error: Exception) -> dict[str, Any]:
        if isinstance(error, KBError):
            problem = problem_of(error, private=str(self.store.folder.parent))
        else:
            problem = http_problem(500)
        if problem.status >= 500:
            self._tell("job_failed", job=job.id, **error_facts(error))
        return problem.to_json(job.id)

    def _expire(self) -> None:
        now = time.monotonic()
        with self._lock:
            if self._expired and now - self._expired < EXPIRE_EVERY_S:
                return
            self._expired = now
        self.store.expire(self.keep_s)

    def _tell(self, event: str, **facts: Any) -> None:
        if self._log is not None:
            self._log.info(event, **facts)
