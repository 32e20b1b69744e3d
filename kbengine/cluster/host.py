"""What answers calls about shards in one process: it opens them as they are in the generation that a call names.

A call says all that its answer depends on. So a host that was started again answers as before, nothing that an earlier
call said is remembered, and a router may go from one generation to the next while calls of the last are on their way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kbengine.cluster.calls import MANY, Method, Place, answered, answered_with, failed, parsed_call, request_of
from kbengine.errors import KBError, MessageError, StateError

GENERATIONS = 2
"""Generations that a host has open: the newest that it was asked for, and the one before."""

THREADS = 8
"""Of several calls in one message so many are answered at a time."""


class OpenShard(Protocol):
    """A shard as it is in one generation, with a method for each name that hosts are asked for."""

    def close(self) -> None:
        """Give its files back."""
        ...


@dataclass
class _Held:
    """An open shard, how many calls use it, and whether it is to be closed after them."""

    shard: Any
    users: int = 0
    is_leaving: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class ShardHost:
    """Answers calls about any shard of a cluster; for any number of threads.

    Args:
        open_shard: opens what a place names; raises a KBError where it is not to be had or is damaged.
        methods: what can be asked, each the name of a method of what `open_shard` returns.
    """

    def __init__(self, open_shard: Callable[[Place], OpenShard], methods: Mapping[str, Method]) -> None:
        self._open_shard = open_shard
        self._methods = methods
        self._lock = threading.Lock()
        self._opening: dict[Place, threading.Lock] = {}
        self._held: dict[Place, _Held] = {}
        self._closed = False
        self._threads = ThreadPoolExecutor(THREADS, "kbengine-shard-call")

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a call, or the error that it ended with; both as messages."""
        return self._answer(message, takes_many=True)

    def _answer(self, message: bytes | memoryview, *, takes_many: bool = False) -> bytes:
        try:
            found = parsed_call(message)
            if found.method == MANY:
                if not takes_many:
                    raise MessageError("several calls within one of several, wanted calls of shards")
                return answered_with(*self._threads.map(self._answer, found.requests))
            request = request_of(found, self._methods)
            with self._using(found.place) as shard:
                return answered(self._methods[found.method], getattr(shard, found.method)(request))
        except KBError as error:
            return failed(error)

    def open(self, places: list[Place]) -> None:
        """Open shards now rather than at the first call; raises what opening them raises."""
        for place in places:
            with self._using(place):
                pass

    @property
    def places(self) -> list[Place]:
        """The places that are open, by generation and shard."""
        with self._lock:
            return sorted(self._held, key=lambda place: (place.generation, place.shard))

    def close(self) -> None:
        """Close all shards, each when the last call that uses it has ended."""
        with self._lock:
            self._closed = True
            leaving = list(self._held)
        self._threads.shutdown(wait=False)
        self._leave(leaving)

    @contextmanager
    def _using(self, place: Place) -> Iterator[Any]:
        held = self._taken(place) or self._opened(place)
        try:
            yield held.shard
        finally:
            with self._lock:
                held.users -= 1
                closes = held.is_leaving and held.users == 0
            if closes:
                held.shard.close()

    def _taken(self, place: Place) -> _Held | None:
        with self._lock:
            held = self._held.get(place)
            if held is not None:
                held.users += 1
            return held

    def _opened(self, place: Place) -> _Held:
        """Return the shard, opened by one of the callers that want it; older generations leave."""
        with self._lock:
            if self._closed:
                raise StateError("this host is closing; ask another replica")
            opening = self._opening.setdefault(place, threading.Lock())
        with opening:
            held = self._taken(place)
            if held is not None:
                return held
            shard = self._open_shard(place)
            with self._lock:
                held = self._held[place] = _Held(shard, users=1)
                self._opening.pop(place, None)
                newest = sorted({each.generation for each in self._held}, reverse=True)[:GENERATIONS]
                leaving = [each for each in self._held if each.generation not in newest and each != place]
        self._leave(leaving)
        return held

    def _leave(self, places: list[Place]) -> None:
        idle = []
        with self._lock:
            for place in places:
                held = self._held.pop(place, None)
                if held is not None:
                    held.is_leaving = True
                    if held.users == 0:
                        idle.append(held)
        for held in idle:
            held.shard.close()
