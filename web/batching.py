"""Micro-batching: requests that come at the same time are encoded and searched together, each with its own outcome.

One or a few dispatcher threads run the batches. That is what makes them form (while they run, the next gathers), and it
keeps the numeric libraries to a few thread pools: they start one for every thread that calls them. Two dispatchers
overlap what one batch does in Python with what another does in the encoder, where there are cores for both.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any

from web.deadline import Deadline
from web.errors import DeadlineError, QueueFullError, StoppingError
from web.turns import Turns

RunBatch = Callable[[Hashable, Sequence[Any]], Sequence[Any]]
"""Answers items of one key, one outcome per item and in order."""

ObserveBatch = Callable[[Sequence[float], Any], None]
"""Told after each batch how many seconds each item waited for it to begin, and its first outcome (None: all failed)."""

MAX_RETRY_AFTER_S = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BatchingOptions:
    """How items are gathered.

    Attributes:
        max_batch: Items run together at most.
        max_wait_ms: How long a batch waits to grow, and only when other items wait or have just been run: an item
            that comes alone is run at once.
        queue_size: Single items in hand, waiting or being run, each of which holds up a caller's thread; one more is
            refused.
        dispatchers: Batches that run at once.
    """

    max_batch: int = 32
    max_wait_ms: float = 2.0
    queue_size: int = 48
    dispatchers: int = 1


@dataclass(eq=False)
class _Job:
    key: Hashable
    item: Any
    deadline: Deadline | None
    future: Future[Any] = field(default_factory=Future)
    queued_at: float = field(default_factory=time.perf_counter)


class MicroBatcher:
    """Runs items in batches of equal keys; `submit` and `submit_many` may be called from any number of threads.

    An item's outcome does not depend on the others of its batch: when a batch fails it is halved until the items that
    are at fault fail alone.
    """

    def __init__(self, run: RunBatch, options: BatchingOptions, observe: ObserveBatch | None = None) -> None:
        self._run = run
        self._options = options
        self._observe = observe
        self._changed = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._in_hand = 0  # calls of `submit` that have no outcome yet: what `queue_size` bounds
        self._bulk_turn = Turns()
        self._last_size = 1
        self._seconds_per_item = 0.02
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._dispatch, name=f"kbengine-batcher-{i}", daemon=True)
            for i in range(options.dispatchers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def depth(self) -> int:
        """Return how many items wait."""
        return len(self._queue)

    def submit(self, key: Hashable, item: Any, deadline: Deadline | None = None) -> Any:
        """Return the item's outcome, once it was run together with others of its key; raise what it alone raised.

        Raises:
            QueueFullError: as many items as may are in hand already; this one was not queued.
            DeadlineError: the deadline passed before there was an outcome.
            StoppingError: the batcher is closed.
        """
        job = _Job(key, item, deadline)
        with self._changed:
            self._refuse_when_stopping()
            if self._in_hand >= self._options.queue_size:
                raise QueueFullError(
                    f"{self._in_hand} queries are waiting or being answered, {self._options.queue_size} may; try again "
                    "later",
                    retry_after_s=self._retry_after_s(),
                )
            self._in_hand += 1
            self._queue.append(job)
            self._changed.notify()
        try:
            return _outcome(job)
        finally:
            with self._changed:
                self._in_hand -= 1

    def submit_many(
        self, items: Sequence[tuple[Hashable, Any]], deadline: Deadline | None = None
    ) -> list[Any | Exception]:
        """Return for each (key, item) its outcome, or the error that it alone has, in order.

        A long list takes turns with other lists, a part at a time, and waits instead of being refused: single items
        keep their places in the queue.
        """
        outcomes: list[Any | Exception] = []
        part = max(1, self._options.max_batch // 2)
        for begin in range(0, len(items), part):
            outcomes += self._run_part(items[begin : begin + part], deadline)
        return outcomes

    def close(self) -> None:
        """Run what is queued, refuse what comes later and end the dispatcher."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _run_part(self, items: Sequence[tuple[Hashable, Any]], deadline: Deadline | None) -> list[Any | Exception]:
        jobs = [_Job(key, item, deadline) for key, item in items]
        if not self._bulk_turn.acquire(None if deadline is None else deadline.remaining_s):
            return [_too_late() for _ in jobs]
        try:
            with self._changed:
                self._refuse_when_stopping()
                self._queue.extend(jobs)
                self._changed.notify_all()
            outcomes: list[Any | Exception] = []
            for job in jobs:
                try:
                    outcomes.append(_outcome(job))
                except Exception as error:
                    outcomes.append(error)
            return outcomes
        finally:
            self._bulk_turn.release()

    def _refuse_when_stopping(self) -> None:
        if self._stopping:
            raise StoppingError("the service is stopping; send the query to another instance, or again later")

    def _retry_after_s(self) -> float:
        return min(MAX_RETRY_AFTER_S, max(1.0, math.ceil(len(self._queue) * self._seconds_per_item)))

    # -- the dispatcher's thread

    def _dispatch(self) -> None:
        while (batch := self._next_batch()) is not None:
            ready = [job for job in batch if self._may_begin(job)]
            began = time.perf_counter()
            if ready:
                self._run_jobs(ready)
            taken_s = time.perf_counter() - began
            if ready:
                self._last_size = len(batch)
                self._seconds_per_item += 0.2 * (taken_s / len(ready) - self._seconds_per_item)
                self._tell(ready, began)

    def _tell(self, jobs: Sequence[_Job], began: float) -> None:
        """Tell the observer of a batch; what goes wrong with it is logged, for no query must wait because of it."""
        if self._observe is None:
            return
        first = next((job.future.result() for job in jobs if job.future.exception() is None), None)
        try:
            self._observe([began - job.queued_at for job in jobs], first)
        except Exception:
            _log.exception("the observer of a batch failed")

    def _next_batch(self) -> list[_Job] | None:
        """Return the oldest job with others of its key, in order of coming; None when closed and all is done."""
        with self._changed:
            while True:
                while not self._queue:
                    if self._stopping:
                        return None
                    self._changed.wait()
                self._gather()
                if self._queue:  # another dispatcher may have taken them while this one waited for more
                    break
            key = self._queue[0].key
            batch: list[_Job] = []
            others: deque[_Job] = deque()
            for job in self._queue:
                (batch if job.key == key and len(batch) < self._options.max_batch else others).append(job)
            self._queue = others
            if others:
                self._changed.notify()
            return batch

    def _gather(self) -> None:
        """Wait for more jobs, but only where there are others: of now, or of the batch just done."""
        expected = min(self._options.max_batch, max(self._last_size, len(self._queue)))
        if expected < 2 or self._stopping:
            return
        until = time.perf_counter() + self._options.max_wait_ms / 1e3
        while len(self._queue) < expected and not self._stopping:
            left = until - time.perf_counter()
            if left <= 0:
                return
            self._changed.wait(left)

    def _may_begin(self, job: _Job) -> bool:
        """Tell whether the job is still wanted; one that is too late is told so without being run."""
        if not job.future.set_running_or_notify_cancel():
            return False
        if job.deadline is not None and job.deadline.expired:
            job.future.set_exception(_too_late())
            return False
        return True

    def _run_jobs(self, jobs: Sequence[_Job]) -> None:
        try:
            outcomes = self._outcomes(jobs)
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
                return
            middle = len(jobs) // 2
            self._run_jobs(jobs[:middle])
            self._run_jobs(jobs[middle:])
            return
        for job, outcome in zip(jobs, outcomes, strict=True):
            job.future.set_result(outcome)

    def _outcomes(self, jobs: Sequence[_Job]) -> Sequence[Any]:
        try:
            outcomes = self._run(jobs[0].key, [job.item for job in jobs])
        except Exception:
            raise
        except BaseException as error:  # a panic of the tokenizer is one, and would end this thread
            raise RuntimeError(f"the batch ended with {type(error).__name__}") from error
        if len(outcomes) != len(jobs):
            raise RuntimeError(f"{len(jobs)} items gave {len(outcomes)} outcomes")
        return outcomes


def _outcome(job: _Job) -> Any:
    """Return the job's outcome; one that is not there in time is not waited for, and not begun if it has not."""
    try:
        return job.future.result(None if job.deadline is None else job.deadline.remaining_s)
    except FutureTimeoutError:
        if job.future.done() and not job.future.cancelled():
            return job.future.result()  # either it came just now, or it is a TimeoutError of its own
        job.future.cancel()
        raise _too_late() from None


def _too_late() -> DeadlineError:
    return DeadlineError("there was no answer before the deadline; ask for less, allow more time, or try again later")
