"""Ray actors that have shards open: started where they belong, started again when they die, moved when asked to.

Only bytes travel over Ray, which would unpickle anything else. What an actor does follows from what its constructor
was given and from each call, so one that was started again answers as before.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from kbengine.cluster.breaker import Breaker
from kbengine.cluster.host import ShardHost
from kbengine.cluster.hosting import HostSpec, host_of
from kbengine.cluster.placement import Slot, place_replicas
from kbengine.cluster.ray_runtime import NAMESPACE
from kbengine.cluster.replicas import ReplicaOptions, Watched
from kbengine.cluster.wire import decode, encode
from kbengine.errors import InvalidOptionError, KBError, StateError

START_S = 300.0
"""How long an actor may take until its shards are open; under load, and with shards to fetch first, it takes long."""
LEAVE_S = 10.0
"""How long an actor that moved may take for the calls that it has."""
REPLACED_S = 30.0
"""How long actors stay after others took the place of all: as long as a request may take, and for other services, which
look every few seconds whether others are wanted."""
PING_S = 2.0
MOST_SILENT = 6
"""An actor that was asked so often, at one look after the other, and did not answer is lost."""
_CALLS = 8
"""Calls that an actor answers at once: numpy, FAISS and SQLite release the interpreter."""


@dataclass(frozen=True)
class PoolOptions:
    """How many actors there are.

    Attributes:
        searchers: Among how many the shards are divided.
        replicas: Actors of each.
        is_shared: Whether other routers use the same actors, which then outlive this process.
    """

    searchers: int
    replicas: int = 1
    is_shared: bool = False

    def __post_init__(self) -> None:
        for name, value in (("searchers", self.searchers), ("replicas", self.replicas)):
            if not 1 <= value <= 10_000:
                raise InvalidOptionError(f"{name} is {value}, wanted 1 to 10,000")


class _Actor:
    """What runs in the actor's process."""

    def __init__(self, spec: bytes) -> None:
        self._host: ShardHost = host_of(decode(HostSpec, spec))

    def answer(self, message: bytes) -> bytes:
        """Return the answer to a call."""
        return self._host.answer(message)

    def pid(self) -> bytes:
        """Return the number of the process, in decimal; it answers once the shards are open."""
        return str(os.getpid()).encode()


class RayReplica:
    """An actor as what calls are sent to."""

    def __init__(self, name: str, handle: Any, node: str) -> None:
        self.name = name
        self.handle = handle
        self.node = node

    def send(self, message: bytes) -> Future[bytes]:
        """Send a call."""
        future: Future[bytes] = self.handle.answer.remote(message).future()
        return future


class RayPool:
    """The actors of one cluster; `tend` keeps each where it belongs.

    Args:
        ray: the connected module.
        name: what names of actors begin with: actors of another version, or of an earlier arrangement, are others.
        spec_of: what the actors of a searcher are to open.
        options: how many there are.
        replica_options: how they are asked.
    """

    def __init__(
        self,
        ray: Any,
        name: str,
        spec_of: Callable[[int], HostSpec],
        options: PoolOptions,
        replica_options: ReplicaOptions,
    ) -> None:
        self._ray = ray
        self._prefix = name
        self._silent: Counter[Slot] = Counter()
        self._leaving: threading.Timer | None = None
        self._spec_of = spec_of
        self._options = options
        self._replica_options = replica_options
        self._lock = threading.Lock()
        self._moving = threading.Lock()
        self._actors: dict[Slot, Watched] = {}
        self._replicas: dict[Slot, RayReplica] = {}
        self._affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        self._slots = [Slot(i, j) for j in range(options.replicas) for i in range(options.searchers)]

    @property
    def n(self) -> int:
        """Return among how many searchers the shards are divided."""
        return self._options.searchers

    def start(self, draining: Sequence[str] = ()) -> None:
        """Start all actors and wait until their shards are open.

        Raises:
            StateError: one does not start.
        """
        self._move(place_replicas(self._slots, self._usable(draining)))

    def replicas(self, searcher: int) -> list[Watched]:
        """Return the replicas of a searcher as they are now."""
        with self._lock:
            return [self._actors[slot] for slot in self._slots if slot.searcher == searcher and slot in self._actors]

    def all(self) -> list[Watched]:
        """Return all replicas, by searcher."""
        with self._lock:
            return [self._actors[slot] for slot in sorted(self._actors, key=lambda each: (each.searcher, each.replica))]

    def nodes(self) -> list[str]:
        """Return the names of the machines that are up and search: those that only route have no processors to give."""
        return sorted(_node_name(node) for node in self._ray.nodes() if _may_search(node))

    def tend(self, draining: Sequence[str] = ()) -> list[str]:
        """Move actors away from machines that are drained or gone, and replace those that are lost; return which.

        An actor leaves after the one in its place has its shards open, so that no call is without a replica.

        Raises:
            InvalidOptionError: no machine is left.
        """
        with self._moving:
            with self._lock:
                replicas, watched = dict(self._replicas), dict(self._actors)
            lost = {slot for slot, each in replicas.items() if self._is_lost(slot, watched[slot], each)}
            current = {slot: each.node for slot, each in replicas.items() if slot not in lost}
            wanted = place_replicas(self._slots, self._usable(draining), current)
            moved = {slot: node for slot, node in wanted.items() if current.get(slot) != node}
            self._move(moved)
        return [f"{self._name(slot)} to {node}" for slot, node in moved.items()]

    def machines(self) -> dict[str, list[str]]:
        """Return the names of the replicas on each machine that is up."""
        with self._lock:
            replicas = list(self._replicas.values())
        return {node: sorted(each.name for each in replicas if each.node == node) for node in self.nodes()}

    def leave(self) -> None:
        """End the actors after a while: whoever shares them has others by then, and calls under way are answered."""
        self._leaving = threading.Timer(REPLACED_S, self._end_all)
        self._leaving.daemon = True
        self._leaving.start()

    def close(self) -> None:
        """End the actors, unless others use them."""
        if self._leaving is not None:
            self._leaving.cancel()
        if self._leaving is not None or not self._options.is_shared:
            self._end_all()

    def _is_lost(self, slot: Slot, watched: Watched, replica: RayReplica) -> bool:
        """Return whether Ray has given an actor up, or it is silent for long; one that is started again is not lost."""
        if watched.breaker.state == "closed":
            self._silent.pop(slot, None)
            return False
        errors = self._ray.exceptions
        try:
            self._ray.get(replica.handle.pid.remote(), timeout=PING_S)
        except (errors.ActorUnavailableError, errors.GetTimeoutError):
            self._silent[slot] += 1
            if self._silent[slot] < MOST_SILENT:
                return False
        except errors.RayError:
            pass
        else:
            self._silent.pop(slot, None)
            return False
        self._silent.pop(slot, None)
        self._end(replica)  # its name is free then for the one in its place
        return True

    def _end_all(self) -> None:
        with self._lock:
            replicas, self._actors, self._replicas = list(self._replicas.values()), {}, {}
        for each in replicas:
            self._end(each)

    def _usable(self, draining: Sequence[str]) -> list[str]:
        return [node for node in self.nodes() if node not in draining]

    def _move(self, places: dict[Slot, str]) -> None:
        started = {slot: self._started(slot, node) for slot, node in places.items()}
        until = time.monotonic() + START_S
        for slot, replica in started.items():
            self._await(replica, until)
            watched = Watched(replica, Breaker(self._replica_options.breaker))
            with self._lock:
                before, asked = self._replicas.get(slot), self._actors.get(slot)
                self._actors[slot], self._replicas[slot] = watched, replica
            if before is not None and asked is not None:
                until_answered = time.monotonic() + LEAVE_S
                while asked.in_flight and time.monotonic() < until_answered:
                    time.sleep(0.01)
                self._end(before)

    def _started(self, slot: Slot, node: str) -> RayReplica:
        ids = {_node_name(each): each["NodeID"] for each in self._ray.nodes() if _may_search(each)}
        if node not in ids:
            raise StateError(f"the machine {node} is gone; the actor goes elsewhere at the next look")
        shared = {"lifetime": "detached", "get_if_exists": True} if self._options.is_shared else {}
        name = f"{self._name(slot)}@{node}"
        actor = self._ray.remote(_Actor).options(
            name=name if self._options.is_shared else None,
            namespace=NAMESPACE,
            num_cpus=0,  # calls are short and the machine's cores are shared by its actors
            max_restarts=-1,
            max_task_retries=0,  # the router asks another replica, which is sooner
            max_concurrency=_CALLS,
            scheduling_strategy=self._affinity(ids[node], soft=True),
            **shared,
        )
        return RayReplica(name, actor.remote(encode(self._spec_of(slot.searcher))), node)

    def _await(self, replica: RayReplica, until: float) -> None:
        try:
            self._ray.get(replica.handle.pid.remote(), timeout=max(1.0, until - time.monotonic()))
        except (KBError, self._ray.exceptions.RayError) as error:
            said = str(error).strip().rpartition("\n")[2]
            raise StateError(f"the actor {replica.name} does not start: {said}") from error

    def _end(self, replica: RayReplica) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):  # it is gone already
            self._ray.kill(replica.handle, no_restart=True)

    def _name(self, slot: Slot) -> str:
        return f"{self._prefix}-{slot.searcher}.{slot.replica}"


def _node_name(node: Mapping[str, Any]) -> str:
    """Return the name that a machine was given ("ray start --node-name"), or its address."""
    return str(node.get("NodeName") or node["NodeManagerAddress"])


def _may_search(node: Mapping[str, Any]) -> bool:
    return bool(node["Alive"]) and node["Resources"].get("CPU", 0) > 0
