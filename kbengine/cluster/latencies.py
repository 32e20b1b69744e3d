"""How long answers took of late, and after which time a second replica is asked as well."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from kbengine.errors import InvalidOptionError


@dataclass(frozen=True)
class HedgeOptions:
    """When a second replica is asked, because the first takes longer than is usual.

    Attributes:
        percentile: Of the last answers so many in a hundred were there by then.
        factor: Times so much.
        least_s: But not before.
        unknown_s: As long as there are too few answers to say.
        share: At most this part of all calls is asked twice: where all replicas are slow, twice the work helps nobody.
    """

    percentile: float = 95.0
    factor: float = 1.5
    least_s: float = 0.02
    unknown_s: float = 0.5
    share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.percentile < 100:
            raise InvalidOptionError(f"percentile is {self.percentile}, wanted between 0 and 100")
        for name in ("factor", "least_s", "unknown_s"):
            if not getattr(self, name) > 0:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}, wanted more than 0")
        if not 0 <= self.share <= 1:
            raise InvalidOptionError(f"share is {self.share}, wanted 0 to 1")


WINDOW = 256
"""Answers of each kind that are remembered."""
KNOWN = 16
"""Answers after which their times say something."""
_LOOK_EVERY = 8
"""Answers after which it is looked again how long they take: sorting them for each would be a part of its cost."""
RESERVE = 10
"""Second calls that may be saved up, or made before there were calls to earn them."""


class Latencies:
    """The times of the last answers of each kind of call, over all replicas; for any number of threads."""

    def __init__(self, options: HedgeOptions | None = None) -> None:
        self._options = options or HedgeOptions()
        self._lock = threading.Lock()
        self._times: dict[str, deque[float]] = {}
        self._totals: dict[tuple[str, str], tuple[int, float]] = {}
        self._usual: dict[str, tuple[int, float]] = {}
        self._added: dict[str, int] = {}
        self._reserve = float(RESERVE)

    def add(self, kind: str, seconds: float, *, shard: str = "") -> None:
        """Take note of an answer's time, and of whose it is."""
        with self._lock:
            n, total = self._totals.get((shard, kind), (0, 0.0))
            self._totals[shard, kind] = n + 1, total + seconds
            self._times.setdefault(kind, deque(maxlen=WINDOW)).append(seconds)
            self._added[kind] = self._added.get(kind, 0) + 1
            self._reserve = min(self._reserve + self._options.share, RESERVE)

    def totals(self) -> dict[tuple[str, str], tuple[int, float]]:
        """Return how many answers there were of each shard and kind, and their times summed up."""
        with self._lock:
            return dict(self._totals)

    def hedge_after_s(self, kind: str) -> float:
        """Return after which time without an answer another replica is asked."""
        options = self._options
        with self._lock:
            n = self._added.get(kind, 0)
            if n < KNOWN:
                return options.unknown_s
            known = self._usual.get(kind)
            if known is not None and n - known[0] < _LOOK_EVERY:
                return known[1]
            times = sorted(self._times[kind])
            usual = times[min(int(len(times) * options.percentile / 100), len(times) - 1)]
            after_s = max(options.least_s, options.factor * usual)
            self._usual[kind] = n, after_s
            return after_s

    def may_hedge(self) -> bool:
        """Tell whether a second call may be made, and count it."""
        with self._lock:
            if self._reserve < 1:
                return False
            self._reserve -= 1
            return True
