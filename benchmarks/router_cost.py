"""What a query costs the router of a cluster, by shards and searchers: answers of shards are replayed.

Run: python -m benchmarks.router_cost --cluster URL --queries FILE.jsonl.gz --scratch DIR

Shards answer each query once, and from then on their answers are given again, from memory: what is left is the
router, with the query's encoding. Time is that of the process, of all its threads, without Ray. The same code runs on
an older commit, for before and after.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster_stages import OPTIONS, read_queries
from benchmarks.measurement import write_result
from kbengine.cluster.breaker import Breaker
from kbengine.cluster.host import ShardHost
from kbengine.cluster.hosting import METHODS, ShardOpener
from kbengine.cluster.replicas import ReplicaOptions, Watched
from kbengine.cluster.routing import Router, RouterOptions
from kbengine.encoders.encoder import Encoder
from kbengine.search.query import Query
from kbengine.search.searcher import Searcher
from storage.cluster import Cluster


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        cluster: Its address.
        queries: KILT rows whose inputs are asked.
        scratch: A folder for fetched shards.
        n: How many questions.
        repeats: How often each; the least counts.
    """

    cluster: str
    queries: Path
    scratch: Path
    n: int = 12
    repeats: int = 15


class Replaying:
    """A replica that answers a query's messages at once, as it answered them when the query came first.

    Messages of a query are told apart by their order: what a shard is asked has a name that is new each time.
    """

    def __init__(self, host: ShardHost, name: str) -> None:
        self.name = name
        self.sent = 0
        self.n_bytes = 0
        self._host = host
        self._known: list[bytes] = []
        self._place: int | None = None

    def begin(self, *, anew: bool) -> None:
        """Take what comes for a query's first message; `anew`: of one that was not asked before."""
        self._known, self._place = ([], None) if anew else (self._known, 0)

    def send(self, message: bytes) -> Future[bytes]:
        """Return the answer."""
        self.sent += 1
        if self._place is None:
            answer = self._host.answer(message)
            self._known.append(answer)
        else:
            answer = self._known[self._place]
            self._place += 1
        self.n_bytes += len(message) + len(answer)
        future: Future[bytes] = Future()
        future.set_result(answer)
        return future


class Searchers:
    """So many searchers, each with one replica."""

    def __init__(self, host: ShardHost, n: int) -> None:
        self.n = n
        self.each = [Replaying(host, f"searcher {number}") for number in range(n)]
        options = ReplicaOptions()
        self._watched = [(Watched(each, Breaker(options.breaker)),) for each in self.each]

    def replicas(self, searcher: int) -> tuple[Watched, ...]:
        """Return the replica of a searcher."""
        return self._watched[searcher]

    def all(self) -> tuple[Watched, ...]:
        """Return all."""
        return tuple(each for (each,) in self._watched)

    def tend(self, draining: Any) -> tuple[str, ...]:  # noqa: ARG002  # as the protocol has it
        """Move nothing."""
        return ()

    def machines(self) -> dict[str, Any]:
        """Return nothing: there is but this one."""
        return {}

    def leave(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


def asked(router: Router, searchers: Searchers, encoder: Encoder, query: Query, *, anew: bool = False) -> Any:
    """Return what is found; `anew`: by the shards."""
    for each in searchers.each:
        each.begin(anew=anew)
    return router.ask(lambda source: Searcher(source, encoder).search([query], OPTIONS)).result


def measure(
    cluster: Cluster, host: ShardHost, encoder: Encoder, queries: list[Query], n: int, repeats: int
) -> dict[str, float]:
    """Return what a query costs the router with so many searchers: means over queries of the least time of each."""
    searchers = Searchers(host, n)
    router = Router(cluster, searchers, RouterOptions(deadline_s=600.0))
    times, calls, sizes = [], 0, 0
    try:
        for query in queries:
            asked(router, searchers, encoder, query, anew=True)
            before = sum(each.sent for each in searchers.each), sum(each.n_bytes for each in searchers.each)
            runs = []
            for _ in range(repeats):
                began = time.process_time()
                asked(router, searchers, encoder, query)
                runs.append(time.process_time() - began)
            times.append(min(runs))
            calls += (sum(each.sent for each in searchers.each) - before[0]) // repeats
            sizes += (sum(each.n_bytes for each in searchers.each) - before[1]) // repeats
    finally:
        router.close()
    return {
        "ms": round(1e3 * statistics.mean(times), 2),
        "messages": round(calls / len(queries), 1),
        "kib": round(sizes / len(queries) / 1024, 1),
    }


def encoding(encoder: Encoder, queries: list[Query], repeats: int) -> float:
    """Return what of it is encoding the query, ms."""
    times = []
    for query in queries:
        runs = []
        for _ in range(repeats):
            began = time.process_time()
            encoder.encode_queries([query.input])
            runs.append(time.process_time() - began)
        times.append(min(runs))
    return round(1e3 * statistics.mean(times), 2)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    config = Config(**vars(parser.parse_args()))
    encoder = Encoder.load("minilm-phrase")
    queries = read_queries(config.queries, config.n)
    cluster = Cluster.open(config.cluster)
    host = ShardHost(ShardOpener(cluster, config.scratch), METHODS)
    shards = len(cluster.manifest().shards)
    found = {f"{n} searchers": measure(cluster, host, encoder, queries, n, config.repeats) for n in sorted({1, shards})}
    figures = {
        "config": {"queries": config.queries.name, "n": config.n, "repeats": config.repeats},
        "shards": shards,
        "encoding_ms": encoding(encoder, queries, config.repeats),
        **found,
        "load": list(os.getloadavg()),
    }
    host.close()
    cluster.close()
    write_result("router_cost", "what a query costs the router of a cluster", figures)


if __name__ == "__main__":
    main()
