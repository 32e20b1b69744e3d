"""Replicas of a shard: whichever is well answers; those that fail are left alone and tried again."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future

import pytest

from kbengine.cluster.breaker import Breaker, BreakerOptions
from kbengine.cluster.latencies import KNOWN, RESERVE, HedgeOptions, Latencies
from kbengine.cluster.replicas import RejectedAnswer, ReplicaOptions, ReplicaSet, Watched
from kbengine.errors import InvalidOptionError, QueryError, ShardUnavailableError

SOON = HedgeOptions(unknown_s=0.01)
LATE = HedgeOptions(unknown_s=60.0)
BRISK = BreakerOptions(failures=1, pause_s=0.01, most_s=0.05)


class Clock:
    """A clock that stands still until it is put forward."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """Return its time."""
        return self.now


class FakeReplica:
    """Answers by its name, fails, or keeps silent, as it is told."""

    def __init__(self, name: str, mood: str = "well") -> None:
        self.name = name
        self.mood = mood
        self.asked = 0
        self.silent: list[Future[bytes]] = []

    def send(self, message: bytes) -> Future[bytes]:
        """Return the answer, an error, or what stays open."""
        self.asked += 1
        future: Future[bytes] = Future()
        if self.mood == "well":
            future.set_result(self.name.encode() + b":" + message)
        elif self.mood == "dead":
            future.set_exception(ConnectionError("the actor died\nand more"))
        elif self.mood == "raises":
            raise ConnectionError("no such actor")
        else:
            self.silent.append(future)
        return future


def replica_set(*replicas: FakeReplica, hedge=LATE, breaker=BRISK, patience_s=0.0) -> ReplicaSet:
    """Return the replicas as a set of their own."""
    options = ReplicaOptions(hedge, breaker, patience_s)
    watched = [Watched(each, Breaker(options.breaker)) for each in replicas]
    return ReplicaSet("s1", lambda: watched, options, Latencies(options.hedge))


def ask(replicas: ReplicaSet, read=bytes, seconds: float = 30.0, **more):
    """Ask something, with a deadline so many seconds ahead."""
    return replicas.ask("count", b"x", deadline=time.monotonic() + seconds, read=read, **more)


def test_a_replica_that_died_costs_no_answer():
    """Another one answers, and the dead one is not asked again before its pause is over."""
    dead, well = FakeReplica("dead", "dead"), FakeReplica("well")
    replicas = replica_set(dead, well, breaker=BreakerOptions(failures=1, pause_s=60, most_s=60))

    assert {ask(replicas) for _ in range(20)} == {b"well:x"}
    assert dead.asked <= 1


def test_what_cannot_even_be_sent_is_a_failure_like_others():
    """A transport may raise at once."""
    replicas = replica_set(FakeReplica("a", "raises"), FakeReplica("b"))

    assert {ask(replicas) for _ in range(5)} == {b"b:x"}


def test_a_silent_replica_is_passed_over_after_a_while():
    """The second one is asked too, its answer is taken, and the first one's comes too late to count twice."""
    silent, well = FakeReplica("silent", "silent"), FakeReplica("well")
    replicas = replica_set(silent, well, hedge=SOON)
    for _ in range(20):
        assert ask(replicas) == b"well:x"
        if silent.asked:
            break
    assert silent.asked
    silent.silent[0].set_result(b"late")

    facts = {each.replica.name: each.facts() for each in replicas.replicas}
    assert facts["silent"].in_flight == 0
    assert facts["well"].hedged >= 1


def test_no_more_calls_are_made_twice_than_their_share():
    """Where all replicas are slow, asking twice would make them slower."""
    latencies = Latencies(HedgeOptions(share=0.1))
    at_once = sum(latencies.may_hedge() for _ in range(100))
    for _ in range(200):
        latencies.add("count", 0.01)

    assert at_once == RESERVE
    assert sum(latencies.may_hedge() for _ in range(100)) == RESERVE


def test_the_time_after_which_another_is_asked_is_learned():
    """From the times of the same kind of call, never below the least."""
    latencies = Latencies(HedgeOptions(percentile=95, factor=2, least_s=0.02, unknown_s=0.5))
    for i in range(KNOWN):
        assert latencies.hedge_after_s("score") == 0.5
        latencies.add("score", 0.1 + i * 1e-6)
        latencies.add("count", 0.001)

    assert latencies.hedge_after_s("score") == pytest.approx(0.2, rel=1e-3)
    assert latencies.hedge_after_s("count") == 0.02
    assert latencies.hedge_after_s("resolve") == 0.5


def test_a_replica_that_moved_meanwhile_is_asked_where_it_is_now():
    """A request that began with the old one goes on with the new one."""
    old, new = FakeReplica("old", "dead"), FakeReplica("new")
    now = [Watched(old, Breaker(BRISK))]
    options = ReplicaOptions(LATE, BRISK, patience_s=60.0)
    replicas = ReplicaSet("s1", lambda: now, options, Latencies(options.hedge))
    threading.Timer(0.05, lambda: now.__setitem__(0, Watched(new, Breaker(BRISK)))).start()

    assert ask(replicas) == b"new:x"


def test_a_shard_without_an_answer_is_named():
    """After all replicas failed, with what the last one said, in one line."""
    replicas = replica_set(FakeReplica("a", "dead"), FakeReplica("b", "dead"))

    with pytest.raises(
        ShardUnavailableError, match=r"shard s1 .* 2 replicas \([ab]: ConnectionError: the actor died\)"
    ) as error:
        ask(replicas)
    assert error.value.shard == "s1"


def test_the_deadline_ends_waiting():
    """Replicas that keep silent are not waited for longer than the answer is of use."""
    replicas = replica_set(FakeReplica("a", "silent"), FakeReplica("b", "silent"), hedge=SOON)

    with pytest.raises(ShardUnavailableError, match="no answer in time"):
        ask(replicas, seconds=0.05)


def test_the_only_replica_is_waited_for_while_it_is_started_again():
    """With patience, one that was killed answers once it is back."""
    only = FakeReplica("only", "dead")
    replicas = replica_set(only, patience_s=30.0)
    threading.Timer(0.1, lambda: setattr(only, "mood", "well")).start()

    assert ask(replicas) == b"only:x"
    assert only.asked > 1


def test_without_patience_a_shard_that_is_down_is_told_at_once():
    """What asks for what others find does not wait for it."""
    replicas = replica_set(FakeReplica("a", "dead"), patience_s=60.0)

    with pytest.raises(ShardUnavailableError):
        ask(replicas, patience_s=0.0)


def test_an_answer_that_cannot_be_used_is_asked_of_another():
    """As when a replica has not the generation, or a damaged file."""

    def read(message: bytes) -> bytes:
        if message.startswith(b"bad"):
            raise RejectedAnswer("generation 3 is not here")
        return message

    bad, good = FakeReplica("bad"), FakeReplica("good")
    replicas = replica_set(bad, good)

    assert {ask(replicas, read) for _ in range(10)} == {b"good:x"}
    assert {each.replica.name: each.facts().answered for each in replicas.replicas} == {"bad": 0, "good": 10}


def test_an_error_of_the_caller_is_the_answer():
    """It is not asked again elsewhere, and counts for the replica."""

    def read(message: bytes) -> bytes:
        raise QueryError("too long")

    only = FakeReplica("a")
    with pytest.raises(QueryError, match="too long"):
        ask(replica_set(only), read)
    assert only.asked == 1


def test_a_breaker_opens_after_failures_in_a_row_and_tries_once():
    """One caller tries it; what it finds decides for all, and each trial that fails doubles the pause."""
    clock = Clock()
    breaker = Breaker(BreakerOptions(failures=2, pause_s=1.0, most_s=3.0), clock)
    breaker.failed()
    assert breaker.admit()
    breaker.failed()
    assert (breaker.state, breaker.admit()) == ("open", False)
    clock.now += 1.0
    assert breaker.state == "half-open"
    assert (breaker.admit(), breaker.admit()) == (True, False)
    breaker.failed()
    assert breaker.trial_in_s() == 2.0
    clock.now += 2.0
    assert breaker.admit()
    breaker.failed()
    assert breaker.trial_in_s() == 3.0
    clock.now += 3.0
    assert breaker.admit()
    breaker.succeeded()
    assert (breaker.state, breaker.admit()) == ("closed", True)


def test_a_success_between_failures_keeps_a_breaker_closed():
    """Only failures in a row count."""
    breaker = Breaker(BreakerOptions(failures=2))
    for _ in range(5):
        breaker.failed()
        breaker.succeeded()

    assert breaker.state == "closed"


def test_a_trial_that_nobody_waited_for_may_be_made_again():
    """Otherwise the replica would never be asked again."""
    clock = Clock()
    breaker = Breaker(BreakerOptions(failures=1, pause_s=1.0), clock)
    breaker.failed()
    clock.now += 1.0
    assert breaker.admit()
    breaker.abandoned()

    assert breaker.admit()


@pytest.mark.parametrize(
    "make",
    [
        lambda: BreakerOptions(failures=0),
        lambda: BreakerOptions(pause_s=0.0),
        lambda: HedgeOptions(percentile=100.0),
        lambda: HedgeOptions(factor=0.0),
        lambda: HedgeOptions(share=2.0),
        lambda: ReplicaOptions(patience_s=-1.0),
        lambda: replica_set(),
    ],
)
def test_options_out_of_range_are_refused(make):
    """Each says what is wanted."""
    with pytest.raises(InvalidOptionError, match="wanted"):
        make()


def test_many_threads_get_their_own_answers_while_replicas_come_and_go():
    """Every answer is of the call that was made, and in the end nothing is in flight."""
    replicas = [FakeReplica("a"), FakeReplica("b"), FakeReplica("c")]
    some = replica_set(*replicas, patience_s=30.0)
    wrong: list[bytes] = []
    stop = threading.Event()

    def worker(number: int) -> None:
        for i in range(200):
            said = f"{number}.{i}".encode()
            got = some.ask("count", said, deadline=time.monotonic() + 30, read=bytes)
            if got.partition(b":")[2] != said:
                wrong.append(got)

    def trouble() -> None:
        while not stop.wait(0.001):
            for each in replicas:
                each.mood = "dead" if each.mood == "well" and each is not replicas[0] else "well"

    threads = [threading.Thread(target=worker, args=(i,)) for i in range(4)]
    other = threading.Thread(target=trouble)
    for each in (*threads, other):
        each.start()
    for each in threads:
        each.join()
    stop.set()
    other.join()

    assert wrong == []
    assert [each.in_flight for each in some.replicas] == [0, 0, 0]
