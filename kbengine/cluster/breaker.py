"""Whether a replica is asked: not while it fails, but tried now and then whether it is back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kbengine.errors import InvalidOptionError

State = Literal["closed", "open", "half-open"]


@dataclass(frozen=True)
class BreakerOptions:
    """When a replica is no longer asked, and when it is tried again.

    Attributes:
        failures: Failures in a row after which it is not asked.
        pause_s: How long it is then left alone; each trial that fails doubles this.
        most_s: The longest pause.
    """

    failures: int = 3
    pause_s: float = 0.25
    most_s: float = 10.0

    def __post_init__(self) -> None:
        if self.failures < 1:
            raise InvalidOptionError(f"failures is {self.failures}, wanted 1 or more")
        if not 0 < self.pause_s <= self.most_s:
            raise InvalidOptionError(f"pause_s is {self.pause_s}, wanted more than 0 and at most {self.most_s}")


class Breaker:
    """A circuit breaker; for any number of threads.

    >>> breaker = Breaker(BreakerOptions(failures=1))
    >>> breaker.failed()
    >>> breaker.state, breaker.admit()
    ('open', False)
    """

    def __init__(self, options: BreakerOptions | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options or BreakerOptions()
        self._clock = clock
        self._lock = threading.Lock()
        self._n_failed = 0
        self._pause_s = self._options.pause_s
        self._trial_at: float | None = None
        self._on_trial = False

    @property
    def state(self) -> State:
        """Whether it is asked (closed), left alone (open), or may be or is being tried (half-open)."""
        with self._lock:
            if self._trial_at is None:
                return "closed"
            return "half-open" if self._on_trial or self._clock() >= self._trial_at else "open"

    def admit(self) -> bool:
        """Tell whether it may be asked now; of one that failed a single caller at a time is told so, as a trial."""
        with self._lock:
            if self._trial_at is None:
                return True
            if self._on_trial or self._clock() < self._trial_at:
                return False
            self._on_trial = True
            return True

    def trial_in_s(self) -> float:
        """Return in how many seconds it may be tried; 0 where it may be asked now, or somebody is trying."""
        with self._lock:
            return 0.0 if self._trial_at is None else max(0.0, self._trial_at - self._clock())

    def succeeded(self) -> None:
        """Take note that it answered: it is asked again."""
        with self._lock:
            self._n_failed = 0
            self._trial_at = None
            self._on_trial = False
            self._pause_s = self._options.pause_s

    def failed(self) -> None:
        """Take note that it did not answer."""
        with self._lock:
            self._n_failed += 1
            if self._trial_at is not None and not self._on_trial:
                return  # asked before it was left alone: nothing new
            if self._trial_at is not None:
                self._pause_s = min(2 * self._pause_s, self._options.most_s)
            if self._on_trial or self._n_failed >= self._options.failures:
                self._trial_at = self._clock() + self._pause_s
            self._on_trial = False

    def abandoned(self) -> None:
        """Take note that nobody waited for its answer: a trial that says nothing, so that another may be made."""
        with self._lock:
            self._on_trial = False
