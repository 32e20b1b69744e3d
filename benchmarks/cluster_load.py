"""A cluster under load while its actors are killed: wrong answers, errors, and how long answers take.

Run: python -m benchmarks.cluster_load --cluster URL --queries FILE.jsonl.gz --scratch DIR

Each query's answer is first asked of the same shards in this process. Then clients ask over Ray actors, two for each
searcher, while one actor after another is killed, each time a random one, and Ray starts it again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cluster_stages import OPTIONS, read_queries
from benchmarks.measurement import quantiles_ms, write_result
from kbengine.cluster.opening import ClusterOptions, open_cluster
from kbengine.errors import KBError


@dataclass(frozen=True)
class Config:
    """What is asked, and how often something is killed."""

    cluster: str
    queries: Path
    scratch: Path
    seconds: float = 90.0
    kill_every_s: float = 10.0
    clients: int = 4
    searchers: int = 2
    replicas: int = 2
    n: int = 40
    seed: int = 5


@dataclass
class Seen:
    """What clients saw."""

    times_s: list[float] = field(default_factory=list)
    wrong: int = 0
    degraded: int = 0
    errors: dict[str, int] = field(default_factory=dict)


def answer_of(found: Any) -> list[tuple[str, str, float]]:
    """Return documents, texts and scores."""
    return [(hit.document.doc_id, hit.text, hit.score) for hit in found.hits]


def run(config: Config) -> dict[str, Any]:
    """Ask, kill, count."""
    queries = read_queries(config.queries, config.n)
    folder = config.scratch / "state"
    with open_cluster(ClusterOptions(config.cluster, folder=folder)) as here:
        wanted = [answer_of(here.search(each, OPTIONS)) for each in queries]
    options = ClusterOptions(config.cluster, folder=folder, replicas=config.replicas, searchers=config.searchers)
    seen, lock, kills = Seen(), threading.Lock(), 0
    with open_cluster(options) as cluster:
        import ray  # connected by now, with its token

        for each in queries:
            cluster.search(each, OPTIONS)
        until = time.monotonic() + config.seconds

        def ask(client: int) -> None:
            place = client * 11
            while time.monotonic() < until:
                number = place % len(queries)
                began = time.perf_counter()
                try:
                    found = cluster.search(queries[number], OPTIONS)
                except KBError as error:
                    with lock:
                        seen.errors[error.code] = seen.errors.get(error.code, 0) + 1
                else:
                    with lock:
                        seen.times_s.append(time.perf_counter() - began)
                        seen.wrong += answer_of(found) != wanted[number]
                        seen.degraded += found.shards is not None and found.shards.degraded
                place += 1

        threads = [threading.Thread(target=ask, args=(each,)) for each in range(config.clients)]
        for each in threads:
            each.start()
        chosen = random.Random(config.seed)
        while time.monotonic() + config.kill_every_s < until:
            time.sleep(config.kill_every_s)
            victim: Any = chosen.choice(list(cluster.router._searchers.all())).replica
            try:
                os.kill(int(ray.get(victim.handle.pid.remote(), timeout=5)), signal.SIGKILL)
                kills += 1
            except (ray.exceptions.RayError, ProcessLookupError):
                continue  # it is being started again
        for each in threads:
            each.join()
        hedged = sum(each.hedged for each in cluster.router.facts().replicas)
    return {
        "searchers": config.searchers,
        "replicas": config.replicas,
        "clients": config.clients,
        "seconds": config.seconds,
        "kills": kills,
        "answers": len(seen.times_s),
        "wrong": seen.wrong,
        "degraded": seen.degraded,
        "errors": seen.errors,
        "hedged_calls": hedged,
        "times": quantiles_ms(seen.times_s),
        "longest_ms": round(1e3 * max(seen.times_s)),
        "load": list(os.getloadavg()),
    }


def main() -> None:
    """Read arguments, run, write figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=90.0)
    given = parser.parse_args()
    claim = "actors that are killed under load cost no answer and make none wrong"
    write_result("cluster_load", claim, run(Config(given.cluster, given.queries, given.scratch, given.seconds)))


if __name__ == "__main__":
    main()
