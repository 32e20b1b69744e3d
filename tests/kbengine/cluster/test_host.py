"""Hosts: shards opened as calls name them, two generations at a time, errors as answers."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from kbengine.cluster.bundle import MAGIC
from kbengine.cluster.calls import Method, Place, call, read_outcome
from kbengine.cluster.host import ShardHost
from kbengine.cluster.replicas import RejectedAnswer
from kbengine.errors import CorruptError, InvalidOptionError


@dataclass(frozen=True)
class Add:
    left: int
    right: int


@dataclass(frozen=True)
class Sum:
    of: int
    where: str


METHODS = {"add": Method(Add, Sum), "where": Method(str, Sum)}


class FakeShard:
    """Adds, and says where."""

    def __init__(self, place: Place, log: list[str]) -> None:
        self.name = f"{place.shard}@{place.generation}"
        self.is_open = True
        self._log = log
        log.append(f"open {self.name}")

    def add(self, request: Add) -> Sum:
        """Return the sum."""
        assert self.is_open
        return Sum(request.left + request.right, self.name)

    def where(self, what: str) -> Sum:
        """Refuse what is asked for."""
        raise {"option": InvalidOptionError, "corrupt": CorruptError}[what]("no")

    def close(self) -> None:
        """Take note."""
        self.is_open = False
        self._log.append(f"close {self.name}")


def place(generation: int, shard: str = "s") -> Place:
    """Return a shard's place in a generation."""
    return Place(generation, f"m{generation}", shard)


def ask(host: ShardHost, where: Place, left: int = 1) -> object:
    """Return the answer to a call."""
    return read_outcome(host.answer(call(where, "add", METHODS["add"], Add(left, 2))), METHODS["add"])


def host_and_log() -> tuple[ShardHost, list[str]]:
    """Return a host of fakes, and what happened to these."""
    log: list[str] = []
    return ShardHost(lambda where: FakeShard(where, log), METHODS), log


def test_the_call_says_what_is_asked_where():
    """Each shard of each generation is another; one that is open is not opened again."""
    host, log = host_and_log()
    host.open([place(1)])

    assert ask(host, place(1)) == Sum(3, "s@1")
    assert ask(host, place(1, "t")) == Sum(3, "t@1")
    assert ask(host, place(2), left=5) == Sum(7, "s@2")
    assert log == ["open s@1", "open t@1", "open s@2"]


def test_two_generations_are_open_and_older_ones_leave():
    """A router may still finish what it asked of the last one."""
    host, log = host_and_log()
    for generation in (1, 2, 1, 3, 2):
        ask(host, place(generation))

    assert log == ["open s@1", "open s@2", "open s@3", "close s@1"]
    assert [each.generation for each in host.places] == [2, 3]


def test_a_generation_in_use_is_closed_after_its_last_call():
    """A call that is on its way ends with the files that it began with."""
    entered, go = threading.Event(), threading.Event()
    log: list[str] = []

    class Slow(FakeShard):
        def add(self, request: Add) -> Sum:
            if self.name == "s@1":
                entered.set()
                assert go.wait(30)
            return super().add(request)

    host = ShardHost(lambda where: Slow(where, log), METHODS)
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(ask(host, place(1))))
    thread.start()
    assert entered.wait(30)
    ask(host, place(2))
    ask(host, place(3))
    assert "close s@1" not in log
    go.set()
    thread.join()

    assert found == [Sum(3, "s@1")]
    assert log[-1] == "close s@1"


def test_errors_of_callers_come_back_as_what_they_are():
    """Others mean that another replica is to be asked."""
    host, _ = host_and_log()
    outcomes = {kind: host.answer(call(place(1), "where", METHODS["where"], kind)) for kind in ("option", "corrupt")}

    with pytest.raises(InvalidOptionError, match="no"):
        read_outcome(outcomes["option"], METHODS["where"])
    with pytest.raises(RejectedAnswer, match="no"):
        read_outcome(outcomes["corrupt"], METHODS["where"])


def test_what_is_no_call_gets_an_answer_that_says_so():
    """Neither junk nor an unknown method ends the process."""
    host, _ = host_and_log()
    for message, said in (
        (b"junk", "begin with"),
        (MAGIC + b"\xff" * 20, "ends within the lengths"),
        (call(place(1), "close", Method(Add, Sum), Add(1, 2)), "a call of 'close', wanted one of add, where"),
    ):
        with pytest.raises(RejectedAnswer, match=said):
            read_outcome(host.answer(message), METHODS["add"])


def test_an_answer_of_another_kind_is_rejected():
    """As from a process that runs another version."""
    host, _ = host_and_log()
    message = host.answer(call(place(1), "add", METHODS["add"], Add(1, 2)))

    with pytest.raises(RejectedAnswer, match="Add"):
        read_outcome(message, Method(Add, Add))


def test_a_shard_that_cannot_be_opened_is_tried_again_at_the_next_call():
    """What went wrong is told to who asked."""
    tries: list[Place] = []

    def open_shard(where: Place) -> FakeShard:
        tries.append(where)
        if len(tries) == 1:
            raise CorruptError("object 12ab is missing")
        return FakeShard(where, [])

    host = ShardHost(open_shard, METHODS)
    with pytest.raises(RejectedAnswer, match="12ab"):
        ask(host, place(1))

    assert ask(host, place(1)) == Sum(3, "s@1")


def test_a_closed_host_opens_nothing():
    """What it had open is given back once."""
    host, log = host_and_log()
    ask(host, place(1))
    host.close()
    host.close()

    with pytest.raises(RejectedAnswer, match="closing"):
        ask(host, place(1))
    assert log == ["open s@1", "close s@1"]


def test_callers_at_once_open_a_shard_once():
    """The others wait for it."""
    host, log = host_and_log()
    threads = [threading.Thread(target=ask, args=(host, place(1))) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert log == ["open s@1"]
