"""Until when an answer is wanted: work that is later than that is not begun."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Deadline:
    """A moment on the monotonic clock, in seconds; `Deadline.after(10)` is ten seconds from now."""

    at_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the deadline so many seconds from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_s(self) -> float:
        """Return the seconds left, 0 when there are none."""
        return max(0.0, self.at_s - time.monotonic())

    @property
    def expired(self) -> bool:
        """Tell whether it is too late."""
        return time.monotonic() >= self.at_s
