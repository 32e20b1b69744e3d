"""Shards of one request asked at once: all are sent before one is read, and what is late or fails holds up no other."""

from __future__ import annotations

import time
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from kbengine.cluster.breaker import Breaker, BreakerOptions
from kbengine.cluster.calls import MANY, Place, answered, answered_with, failed, parsed_call, request_of
from kbengine.cluster.latencies import HedgeOptions, Latencies
from kbengine.cluster.remote_shard import SEARCHING, RemoteShard
from kbengine.cluster.replicas import ReplicaOptions, ReplicaSet, Watched
from kbengine.cluster.routed_source import RoutedSource
from kbengine.errors import InvalidOptionError, MessageError, ShardUnavailableError

SOON = HedgeOptions(least_s=0.01, unknown_s=0.01)
LATE = HedgeOptions(least_s=600.0, unknown_s=600.0)
NAMES = ("Paris", "Rome")


class NoThreads(Executor):
    """Refuses work."""

    def submit(self, *_args: Any, **_more: Any) -> Any:
        """Fail."""
        raise AssertionError("a thread was used")


class Answering:
    """A replica that answers at once with the shard's name, says that it cannot, dies, or says nothing."""

    def __init__(self, name: str, how: str = "well") -> None:
        self.name, self.how = name, how
        self.asked: list[tuple[str, str]] = []

    def send(self, message: bytes) -> Future[bytes]:
        """Answer as it does."""
        future: Future[bytes] = Future()
        found = parsed_call(message)
        self.asked.append((found.place.shard, found.method))
        if self.how == "dead":
            future.set_exception(ConnectionError("the actor died"))
        elif self.how == "refusing":
            future.set_result(failed(InvalidOptionError("no such thing")))
        elif self.how == "well" and found.method == MANY:
            future.set_result(answered_with(*(self._answer(parsed_call(each)) for each in found.requests)))
        elif self.how == "well":
            future.set_result(self._answer(found))
        return future

    def _answer(self, found: Any) -> bytes:
        assert request_of(found, SEARCHING) == NAMES
        return answered(SEARCHING["known_names"], (found.place.shard,))


def source(
    searchers: list[list[Watched]],
    shards: list[int],
    hedge: HedgeOptions,
    executor: Executor,
    *,
    seconds: float = 60.0,
) -> RoutedSource:
    """Shards "s0", "s1", …, each with the searcher that has it."""
    latencies, options = Latencies(hedge), ReplicaOptions(hedge, patience_s=30.0)
    members = []
    for number, searcher in enumerate(shards):
        replicas = ReplicaSet(f"s{number}", lambda at=searcher: searchers[at], options, latencies)
        place = Place(1, "0" * 64, f"s{number}")
        members.append((RemoteShard(place, replicas, deadline=time.monotonic() + seconds), range(number, number + 1)))
    return RoutedSource(1, members, shards, executor)


def watched(*replicas: Answering) -> list[Watched]:
    """Replicas with breakers that open at the first failure."""
    return [Watched(each, Breaker(BreakerOptions(failures=1, pause_s=0.01))) for each in replicas]


def asked(of: RoutedSource) -> list[Any]:
    """What each shard answers."""
    return of.shards(None).each(lambda _, shard: shard.known_names(NAMES))


def test_answers_that_come_in_time_need_no_threads():
    """One message for all shards of a searcher; answers in the order of shards."""
    replicas = [Answering("a"), Answering("b")]
    found = asked(source([watched(each) for each in replicas], [0, 1, 0], LATE, NoThreads()))

    assert found == [("s0",), ("s1",), ("s2",)]
    assert [each.asked for each in replicas] == [[("", MANY)], [("s1", "known_names")]]


def test_silent_replicas_of_several_shards_are_all_passed_over():
    """Each shard's second replica is asked after a while, also where the first shard is late itself."""
    pairs = [watched(Answering(f"{number}-silent", "silent"), Answering(f"{number}-well")) for number in range(3)]
    with ThreadPoolExecutor(3) as executor:
        for _ in range(4):
            assert asked(source(pairs, [0, 1, 2], SOON, executor)) == [("s0",), ("s1",), ("s2",)]
    assert all(each.facts().in_flight == 0 for pair in pairs for each in pair if each.replica.how == "well")


def test_what_died_is_asked_elsewhere():
    """Alone or for several shards: others' answers are there."""
    dying, other = watched(Answering("dead", "dead"), Answering("well")), watched(Answering("other"))
    with ThreadPoolExecutor(2) as executor:
        for shards in ([0, 1], [0, 1, 0]):
            for _ in range(4):
                found = asked(source([dying, other], shards, LATE, executor))
                assert found == [(f"s{number}",) for number in range(len(shards))]


def test_an_error_of_the_caller_ends_the_round_and_leaves_no_replica_on_trial():
    """What was sent to others is abandoned: a replica that was tried again may be tried again."""
    refusing, silent = watched(Answering("refusing", "refusing")), watched(Answering("silent", "silent"))
    silent[0].breaker.failed()
    time.sleep(0.02)
    with ThreadPoolExecutor(2) as executor, pytest.raises(InvalidOptionError, match="no such thing"):
        asked(source([refusing, silent], [0, 1], LATE, executor))
    assert silent[0].replica.asked and silent[0].breaker.admit()


def test_the_deadline_ends_waiting():
    """However long answers usually take."""
    replicas = [watched(Answering("silent", "silent")), watched(Answering("well"))]
    of = source(replicas, [0, 1], LATE, ThreadPoolExecutor(2), seconds=0.05)
    with pytest.raises(ShardUnavailableError, match="shard s0"):
        asked(of)


def test_what_cannot_be_sent_is_said_before_anybody_is_waited_for():
    """With the place, and nobody is left on trial."""
    replicas = watched(Answering("a", "silent")), watched(Answering("b"))
    of = source(list(replicas), [0, 1], LATE, NoThreads())
    with pytest.raises(MessageError, match=r"value\[0\] is 3, wanted a text"):
        of.shards(None).each(lambda number, shard: shard.known_names(NAMES if number == 0 else (3,)))
