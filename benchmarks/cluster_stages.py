"""What each stage of a search costs a shard and the router: seconds of one core, calls and bytes.

Run: python -m benchmarks.cluster_stages --cluster URL --queries FILE.jsonl.gz --scratch DIR [--kb DIR]

Every call goes through messages, as it does between machines, though all is in one process and one thread: so a stage's
time is that thread's own, which other work on the machine changes little. Of several runs of a query the least counts.
"""

from __future__ import annotations

import gzip
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kbengine.cluster.calls import Place, answered, call, parsed_call, read_outcome, request_of
from kbengine.cluster.hosting import METHODS, ShardOpener
from kbengine.cluster.routing import place_of
from kbengine.encoders.encoder import Encoder
from kbengine.search.joined_records import JoinedRecords
from kbengine.search.query import Query, SearchOptions
from kbengine.search.searcher import Searcher
from kbengine.search.shard_directories import ShardDirectory, open_shard
from kbengine.search.shards import Shards
from storage.cluster import Cluster

SEARCHING = ("count", "say", "look", "candidates", "score", "resolve", "known_names")
HERE = Place(1, "0" * 64, "here")
OPTIONS = SearchOptions(k=10)


@dataclass(frozen=True)
class Called:
    """A call: which method, of which shard, seconds of a core, bytes of both messages."""

    method: str
    shard: int
    seconds: float
    n_bytes: int


class MeteredShard:
    """A shard that notes what its calls cost, messages included."""

    def __init__(self, shard: Any, number: int, calls: list[Called], spent: list[float]) -> None:
        self._shard, self._number, self._calls, self._spent = shard, number, calls, spent

    def __getattr__(self, name: str) -> Any:
        """Return a method that is called by message."""
        if name not in SEARCHING:
            raise AttributeError(name)
        return lambda request: self._ask(name, request)

    def _ask(self, name: str, request: object) -> object:
        method = METHODS[name]
        message = call(HERE, name, method, request)
        began = time.thread_time()
        found = parsed_call(message)
        asked = request_of(found, METHODS)
        answer = answered(method, getattr(self._shard, found.method)(asked))
        seconds = time.thread_time() - began
        self._spent[0] += seconds
        self._calls.append(Called(name, self._number, seconds, len(message) + len(answer)))
        return read_outcome(answer, method)


class Source:
    """Metered shards, as a searcher takes them."""

    def __init__(self, shards: Sequence[Any], records: Sequence[Any], generation: int) -> None:
        self.calls: list[Called] = []
        self.spent = [0.0]
        self.records = JoinedRecords(tuple(records), generation)
        members = tuple(MeteredShard(each, number, self.calls, self.spent) for number, each in enumerate(shards))
        self._shards = Shards(generation, members, self.records)

    def shards(self, where: str | None) -> Shards:
        """Return the shards."""
        assert where is None
        return self._shards


@contextmanager
def cluster_source(root: str, scratch: Path) -> Iterator[tuple[Source, dict[str, Any]]]:
    """All shards of a cluster's newest generation, and their sizes."""
    cluster = Cluster.open(root)
    manifest = cluster.manifest()
    opener = ShardOpener(cluster, scratch)
    with ExitStack() as stack:
        opened = []
        for entry in manifest.shards:
            shard = opener(place_of(manifest.ref(), entry.name))
            stack.callback(shard.close)
            opened.append(shard)
        sizes = {"rows": [e.rows for e in manifest.shards], "passages": [e.passages for e in manifest.shards]}
        yield Source(opened, [each._records for each in opened], manifest.generation), sizes


@contextmanager
def directory_source(kb: Path) -> Iterator[tuple[Source, dict[str, Any]]]:
    """A knowledge base's directory as the only shard."""
    opened = open_shard(ShardDirectory(kb), 1)
    info = opened.records.reader.info()
    try:
        yield (
            Source([opened.shard], [opened.records], 1),
            {"rows": [info.tokens_stored], "passages": [info.passages]},
        )
    finally:
        opened.close()


def read_queries(path: Path, n: int) -> list[Query]:
    """Return the first questions of a file of KILT rows."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Query.question(json.loads(line)["input"]) for _, line in zip(range(n), file, strict=False)]


def measure(source: Source, encoder: Encoder, queries: Sequence[Query], *, repeats: int) -> list[dict[str, Any]]:
    """Return for each query what it cost: the router's seconds, and its rounds with the cost of each shard's call."""
    searcher = Searcher(source, encoder)
    searcher.search(queries[:4], OPTIONS)
    best: list[dict[str, Any]] = []
    for number, query in enumerate(queries):
        runs = []
        for _ in range(repeats):
            source.calls.clear()
            source.spent[0] = 0.0
            began = time.process_time()
            searcher.search([query], OPTIONS)
            total = time.process_time() - began
            runs.append((total - source.spent[0], list(source.calls)))
        router = min(seconds for seconds, _ in runs)
        rounds: list[dict[str, Any]] = []
        for place, first in enumerate(runs[0][1]):
            seconds = min(calls[place].seconds for _, calls in runs if len(calls) == len(runs[0][1]))
            one = {"shard": first.shard, "seconds": round(seconds, 7), "bytes": first.n_bytes}
            if rounds and rounds[-1]["method"] == first.method and rounds[-1]["calls"][-1]["shard"] < first.shard:
                rounds[-1]["calls"].append(one)
            else:
                rounds.append({"method": first.method, "calls": [one]})
        best.append({"query": number, "router_s": round(router, 7), "rounds": rounds})
    return best


def summary(queries: Sequence[dict[str, Any]], sizes: dict[str, Any]) -> dict[str, Any]:
    """Return means over queries: the router's seconds, and for each method rounds, calls, seconds a call and bytes."""
    by_method: dict[str, list[tuple[float, int]]] = defaultdict(list)
    rounds: dict[str, int] = defaultdict(int)
    for query in queries:
        for each in query["rounds"]:
            rounds[each["method"]] += 1
            by_method[each["method"]] += [(one["seconds"], one["bytes"]) for one in each["calls"]]
    n = len(queries)
    return {
        "shards": len(sizes["rows"]),
        "rows_a_shard": float(np.mean(sizes["rows"])),
        "passages_a_shard": float(np.mean(sizes["passages"])),
        "queries": n,
        "router_ms": round(1e3 * float(np.mean([each["router_s"] for each in queries])), 3),
        "methods": {
            name: {
                "rounds_a_query": rounds[name] / n,
                "calls_a_round": len(calls) / rounds[name],
                "ms_a_call": round(1e3 * float(np.mean([seconds for seconds, _ in calls])), 4),
                "bytes_a_call": round(float(np.mean([size for _, size in calls]))),
            }
            for name, calls in sorted(by_method.items())
        },
        "load": list(os.getloadavg()),
    }
