"""A cluster that answers queries, event by event: routers, rounds, messages, actors with one interpreter each, cores.

A call holds its process's interpreter and a core of its machine for as long as its stage costs; others wait. Cores are
dealt out in slices, as operating systems do, so that short work passes long work. What stages cost is measured
(`benchmarks.cluster_stages`); queries come from clients that each wait for an answer before they ask again.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

SLICE_S = 0.003
HEDGE_FACTOR, HEDGE_SHARE = 1.5, 0.1
Events = Generator[Any, Any, None]


@dataclass(frozen=True)
class Stage:
    """What a method costs: rounds of it in a query, shards that a round asks, and seconds of a core for each call.

    A call takes `fixed_s`, `row_s` for each stored vector of its shard, and its part of `divided_s`, which all shards
    together spend on what the query has found, whatever their number.
    """

    rounds: float
    asked: float
    fixed_s: float
    row_s: float
    divided_s: float

    def call_s(self, rows: float, shards: int) -> float:
        """Return the seconds of a call."""
        return self.fixed_s + self.row_s * rows + self.divided_s / shards


@dataclass(frozen=True)
class Costs:
    """All costs: stages in the order of a search, the router's own, and those of messages.

    Attributes:
        stages: by method.
        router_s: seconds of the router for a query, besides its calls.
        router_call_s: for each call: writing the request, reading the answer, merging.
        send_s: for each call in the router, to send and to receive over Ray.
        take_s: the same in the actor.
        wire_s: on the way, both ways together.
        spread: standard deviation of the logarithm of a call's time.
    """

    stages: Mapping[str, Stage]
    router_s: float
    router_call_s: float
    send_s: float
    take_s: float
    wire_s: float
    spread: float


@dataclass(frozen=True)
class Layout:
    """A cluster: shards, actors for each, machines with cores, routers on machines of their own or on the first.

    Attributes:
        rows: stored vectors of each shard.
        apart: whether routers have machines of their own, with as many cores.
        others: processes on each machine that are always busy with something else.
        queries: that are counted, after a tenth as many that are not.
    """

    rows: tuple[float, ...]
    replicas: int = 1
    machines: int = 1
    cores: int = 2
    routers: int = 1
    apart: bool = False
    clients: int = 1
    others: int = 0
    queries: int = 500
    seed: int = 7


@dataclass(frozen=True)
class Seen:
    """What a simulation gave: answers in a second, and quantiles of their times in seconds."""

    queries: int
    per_s: float
    p50_s: float
    p95_s: float
    p99_s: float


class _Process:
    """A process of a machine: one interpreter, any core."""

    def __init__(self, world: simpy.Environment, cores: simpy.Resource) -> None:
        self._world, self._cores = world, cores
        self._interpreter = simpy.Resource(world, 1)
        self.in_flight = 0

    def work(self, seconds: float) -> Events:
        while seconds > 1e-9:
            part = min(seconds, SLICE_S)
            with self._interpreter.request() as turn:
                yield turn
                with self._cores.request() as core:
                    yield core
                    yield self._world.timeout(part)
            seconds -= part


class _Cluster:
    def __init__(self, costs: Costs, layout: Layout) -> None:
        self.costs, self.layout = costs, layout
        self.world = simpy.Environment()
        self.random = random.Random(layout.seed)
        machines = [simpy.Resource(self.world, layout.cores) for _ in range(layout.machines)]
        slots = [(shard, each) for each in range(layout.replicas) for shard in range(len(layout.rows))]
        self.actors: list[list[_Process]] = [[] for _ in layout.rows]
        for place, (shard, _) in enumerate(slots):
            self.actors[shard].append(_Process(self.world, machines[place % layout.machines]))
        homes = [simpy.Resource(self.world, layout.cores) for _ in range(layout.routers)] if layout.apart else machines
        self.routers = [_Process(self.world, homes[each % len(homes)]) for each in range(layout.routers)]
        for cores in machines:
            for _ in range(layout.others):
                self.world.process(self._other(cores))
        self.times: list[float] = []
        self.known: dict[str, list[float]] = {}
        self.calls = self.hedges = 0
        for client in range(layout.clients):
            self.world.process(self._client(self.routers[client % len(self.routers)]))

    def _other(self, cores: simpy.Resource) -> Events:
        while True:
            with cores.request() as core:
                yield core
                yield self.world.timeout(SLICE_S)

    def _client(self, router: _Process) -> Events:
        while True:
            began = self.world.now
            yield self.world.process(self._query(router))
            self.times.append(self.world.now - began)

    def _query(self, router: _Process) -> Events:
        rounds = []
        for method, stage in self.costs.stages.items():
            n = int(stage.rounds) + (self.random.random() < stage.rounds % 1)
            rounds += [(method, stage)] * n
        own = self.costs.router_s / (len(rounds) + 1)
        for method, stage in rounds:
            yield from router.work(own)
            n = min(len(self.actors), max(1, round(stage.asked * len(self.actors))))
            shards = self.random.sample(range(len(self.actors)), n)
            yield self.world.all_of([self.world.process(self._call(router, method, stage, each)) for each in shards])
        yield from router.work(own)

    def _call(self, router: _Process, method: str, stage: Stage, shard: int) -> Events:
        began = self.world.now
        yield from router.work((self.costs.send_s + self.costs.router_call_s) / 2)
        first = self._least(shard, None)
        asked = [self.world.process(self._answer(first, stage, shard))]
        known = self.known.setdefault(method, [])
        self.calls += 1
        if len(self.actors[shard]) > 1 and len(known) >= 32 and self.hedges < HEDGE_SHARE * self.calls:
            patience = HEDGE_FACTOR * float(np.quantile(known[-256:], 0.95))
            yield self.world.any_of([asked[0], self.world.timeout(patience)])
            if not asked[0].processed:
                self.hedges += 1
                asked.append(self.world.process(self._answer(self._least(shard, first), stage, shard)))
        yield self.world.any_of(asked)
        known.append(self.world.now - began)
        yield from router.work((self.costs.send_s + self.costs.router_call_s) / 2)

    def _least(self, shard: int, other_than: _Process | None) -> _Process:
        left = [each for each in self.actors[shard] if each is not other_than]
        return min(left, key=lambda each: (each.in_flight, self.random.random()))

    def _answer(self, actor: _Process, stage: Stage, shard: int) -> Events:
        actor.in_flight += 1
        yield self.world.timeout(self.costs.wire_s / 2)
        noise = self.random.lognormvariate(-(self.costs.spread**2) / 2, self.costs.spread)
        seconds = stage.call_s(self.layout.rows[shard], len(self.actors)) * noise
        yield from actor.work(seconds + self.costs.take_s)
        yield self.world.timeout(self.costs.wire_s / 2)
        actor.in_flight -= 1


def simulate(costs: Costs, layout: Layout) -> Seen:
    """Return what clients see of a cluster, after some queries that nothing is counted of."""
    cluster = _Cluster(costs, layout)
    began = _run(cluster, layout.clients + layout.queries // 10)
    cluster.times.clear()
    ended = _run(cluster, layout.queries)
    p50, p95, p99 = (float(each) for each in np.quantile(cluster.times, (0.5, 0.95, 0.99)))
    return Seen(len(cluster.times), len(cluster.times) / (ended - began), p50, p95, p99)


def _run(cluster: _Cluster, queries: int) -> float:
    """Let time go by until so many queries are answered; return when that was."""
    while len(cluster.times) < queries:
        cluster.world.step()
    return float(cluster.world.now)
