"""The replicas of a shard: one of them answers, whichever is well and fast enough."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Protocol

from kbengine.cluster.breaker import Breaker, BreakerOptions, State
from kbengine.cluster.latencies import HedgeOptions, Latencies
from kbengine.errors import InvalidOptionError, ShardUnavailableError


class Replica(Protocol):
    """A process, or a thread of this one, that answers calls about the shards that it has open.

    Attributes:
        name: Tells it from others, in metrics and messages.
    """

    name: str

    def send(self, message: bytes) -> Future[bytes]:
        """Send a call and return what its answer will be in; an error of it means that the replica did not answer."""
        ...


@dataclass(frozen=True)
class ReplicaOptions:
    """How replicas are asked.

    Attributes:
        hedge: When a second one is asked.
        breaker: When one is left alone.
        patience_s: How long a shard none of whose replicas answers is waited for: one that was killed is back by then.
    """

    hedge: HedgeOptions = field(default_factory=HedgeOptions)
    breaker: BreakerOptions = field(default_factory=BreakerOptions)
    patience_s: float = 8.0

    def __post_init__(self) -> None:
        if not self.patience_s >= 0:
            raise InvalidOptionError(f"patience_s is {self.patience_s}, wanted 0 or more")


@dataclass(frozen=True)
class ReplicaFacts:
    """What happened to a replica so far, for metrics."""

    name: str
    state: State
    in_flight: int
    answered: int
    failed: int
    hedged: int


class Watched:
    """A replica with its breaker and its counts; one for all shards that it has open."""

    def __init__(self, replica: Replica, breaker: Breaker) -> None:
        self.replica = replica
        self.breaker = breaker
        self._lock = threading.Lock()
        self._in_flight = 0
        self._answered = self._failed = self._hedged = 0

    @property
    def in_flight(self) -> int:
        """Calls that it has not answered."""
        return self._in_flight

    def facts(self) -> ReplicaFacts:
        """Return what happened so far."""
        with self._lock:
            return ReplicaFacts(
                self.replica.name, self.breaker.state, self._in_flight, self._answered, self._failed, self._hedged
            )

    def send(self, message: bytes, *, is_hedge: bool) -> Future[bytes]:
        """Send a call; the outcome is counted whether or not anybody waits for it."""
        with self._lock:
            self._in_flight += 1
            self._hedged += is_hedge
        try:
            future = self.replica.send(message)
        except Exception as error:  # whatever its transport raises, it did not answer
            future = Future()
            future.set_exception(error)
        future.add_done_callback(self._ended)
        return future

    def rejected(self) -> None:
        """Count an answer that cannot be used as a failure."""
        with self._lock:
            self._answered -= 1
            self._failed += 1

    def _ended(self, future: Future[bytes]) -> None:
        is_failure = future.cancelled() or future.exception() is not None
        with self._lock:
            self._in_flight -= 1
            self._failed += is_failure
            self._answered += not is_failure


class Begun:
    """A call that was sent, and that nobody has waited for yet."""

    def __init__(self, watched: Watched, future: Future[bytes], sent_at: float, clock: Callable[[], float]) -> None:
        self.watched = watched
        self.future = future
        self.sent_at = sent_at
        self._clock = clock
        self._ended_at: float | None = None
        future.add_done_callback(self._end)

    def _end(self, _future: Future[bytes]) -> None:
        self._ended_at = self._clock()

    def ended(self) -> float:
        """Tell when its answer came, which may be looked at much later."""
        return self._clock() if self._ended_at is None else self._ended_at

    def is_there(self, timeout_s: float) -> bool:
        """Wait for so long, and return whether an answer is there, however it can be used."""
        try:
            return self.future.exception(max(timeout_s, 0.0)) is None
        except (TimeoutError, CancelledError):
            return False

    def abandon(self) -> None:
        """Take note that nobody will wait for it."""
        self.watched.breaker.abandoned()


class ReplicaSet:
    """The replicas that have a shard open; `ask` returns the first usable answer of one.

    The one with the fewest calls in flight is asked first. Where it takes longer than answers usually take, another is
    asked as well; where it fails, the next; and where all failed, whichever may be tried again, as long as there is
    patience. An answer is used once, and all are alike, so it does not matter whose it is.
    """

    def __init__(
        self,
        shard: str,
        replicas: Callable[[], Sequence[Watched]],
        options: ReplicaOptions,
        latencies: Latencies,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not replicas():
            raise InvalidOptionError(f"shard {shard} has no replicas, wanted 1 or more")
        self.shard = shard
        self._replicas = replicas
        self._options = options
        self._latencies = latencies
        self._clock = clock

    @property
    def replicas(self) -> tuple[Watched, ...]:
        """The replicas as they are now: one that moves to another machine is another one."""
        return tuple(self._replicas())

    def begin(self, message: bytes) -> Begun | None:
        """Send a call without waiting for it, None where no replica may be asked just now."""
        chosen = self._choose(())
        if chosen is None:
            return None
        now = self._clock()
        return Begun(chosen, chosen.send(message, is_hedge=False), now, self._clock)

    def hedges_in_s(self, kind: str, begun: Begun, *, deadline: float) -> float:
        """Return in how many seconds another replica would be asked besides, by how long answers usually take.

        Args:
            kind: as in `ask`.
            begun: the call.
            deadline: it is not later than this.
        """
        return min(begun.sent_at + self._latencies.hedge_after_s(kind), deadline) - self._clock()

    def ask(
        self,
        kind: str,
        message: bytes,
        *,
        deadline: float,
        read: Callable[[bytes], object],
        patience_s: float | None = None,
        begun: Begun | None = None,
    ) -> object:
        """Return what `read` makes of the first answer that it takes.

        Args:
            kind: of call: how long it usually takes is learned for each.
            message: the call.
            deadline: when the answer is of no use, by the clock.
            read: reads an answer; `RejectedAnswer` from it means that another replica may do better, every other
                error is the answer.
            patience_s: how long a shard that does not answer is waited for; by default the options'.
            begun: the call, where it was sent already.

        Raises:
            ShardUnavailableError: no replica answered in time.
        """
        clock = self._clock
        patience = self._options.patience_s if patience_s is None else patience_s
        gives_up = min(deadline, (clock() if begun is None else begun.sent_at) + patience)
        asked: dict[Future[bytes], tuple[Watched, float]] = {}
        tried: list[Watched] = []
        hedge_at, problem = 0.0, ""
        if begun is not None:
            asked[begun.future] = begun.watched, begun.sent_at
            tried.append(begun.watched)
            hedge_at = begun.sent_at + self._latencies.hedge_after_s(kind)
        try:
            while True:
                now = clock()
                if not asked:
                    chosen = self._choose(tried) or self._choose(())
                    if chosen is None:
                        if now >= gives_up:
                            raise self._unavailable(problem or "all are left alone after failures")
                        time.sleep(min(self._pause_s(), max(gives_up - now, 0.0)))
                        continue
                    tried = tried if chosen not in tried else []
                    tried.append(chosen)
                    asked[chosen.send(message, is_hedge=False)] = chosen, now
                    hedge_at = now + self._latencies.hedge_after_s(kind)
                until = deadline if len(asked) > 1 or len(tried) >= len(self.replicas) else min(hedge_at, deadline)
                done, _ = wait(asked, timeout=max(until - clock(), 0.0), return_when=FIRST_COMPLETED)
                for future in done:
                    watched, sent_at = asked.pop(future)
                    error = future.exception()
                    if error is None:
                        try:
                            answer = read(future.result())
                        except RejectedAnswer as rejected:
                            watched.rejected()
                            error = rejected
                        except Exception:
                            watched.breaker.succeeded()  # it answered that this cannot be asked
                            raise
                        else:
                            watched.breaker.succeeded()
                            ended_at = begun.ended() if begun is not None and future is begun.future else clock()
                            self._latencies.add(kind, ended_at - sent_at, shard=self.shard)
                            return answer
                    watched.breaker.failed()
                    problem = f"{watched.replica.name}: {_first_line(error)}"
                if done:
                    if not asked and clock() >= gives_up and len(tried) >= len(self.replicas):
                        raise self._unavailable(problem)
                    continue
                if clock() >= deadline:
                    for watched, _ in asked.values():
                        watched.breaker.failed()
                    late, asked = asked, {}
                    raise self._unavailable(f"{len(late)} asked, no answer in time")
                other = self._choose(tried) if self._latencies.may_hedge() else None
                if other is None:
                    hedge_at = deadline
                else:
                    tried.append(other)
                    asked[other.send(message, is_hedge=True)] = other, clock()
        finally:
            for watched, _ in asked.values():  # what comes of these, nobody learns
                watched.breaker.abandoned()

    def ask_once(
        self, kind: str, message: bytes, *, deadline: float, shards: Sequence[str], begun: Begun | None = None
    ) -> bytes | None:
        """Return what one replica answers, None where it fails, or takes longer than is usual and there is another.

        For what can be asked in another way, by `ask`, which waits for replicas and tries them all.

        Args:
            kind: as in `ask`.
            message: the call.
            deadline: as in `ask`.
            shards: which it is about.
            begun: the call, where it was sent already.
        """
        clock = self._clock
        begun = begun or self.begin(message)
        if begun is None:
            return None
        chosen, future, sent_at = begun.watched, begun.future, begun.sent_at
        wait([future], timeout=max(self.hedges_in_s(kind, begun, deadline=deadline), 0.0))
        if not future.done():
            if len(self.replicas) > 1 and self._latencies.may_hedge():
                chosen.breaker.abandoned()
                return None
            wait([future], timeout=max(deadline - clock(), 0.0))
        if not future.done() or future.cancelled() or future.exception() is not None:
            chosen.breaker.failed()
            return None
        chosen.breaker.succeeded()
        for shard in shards:
            self._latencies.add(kind, begun.ended() - sent_at, shard=shard)
        return future.result()

    def _choose(self, tried: Sequence[Watched]) -> Watched | None:
        """Return the replica with the fewest calls in flight that may be asked, other than those tried."""
        left = [each for each in self._replicas() if each not in tried]
        if len(left) > 1:
            random.shuffle(left)
            # One on trial last: it probably fails.
            left.sort(key=lambda each: (each.breaker.state != "closed", each.in_flight))
        return next((each for each in left if each.breaker.admit()), None)

    def _pause_s(self) -> float:
        return max(0.01, min((each.breaker.trial_in_s() for each in self.replicas), default=0.0))

    def _unavailable(self, problem: str) -> ShardUnavailableError:
        return ShardUnavailableError(
            f"shard {self.shard} does not answer on any of its {len(self.replicas)} replicas ({problem}); try again, "
            "or ask with partial=true for what the other shards find",
            shard=self.shard,
        )


class RejectedAnswer(Exception):  # noqa: N818  # no error of the caller's: another replica is asked
    """An answer that another replica may give better."""


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}{': ' if text else ''}{text[:200]}"
