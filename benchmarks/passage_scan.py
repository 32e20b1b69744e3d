"""What a query costs that scans all passage vectors, as in a shard of a cluster, by how many there are.

Run: OMP_NUM_THREADS=1 python -m benchmarks.passage_scan

A cluster's shards have no index of passages, which would look into other lists in other shards (decision 0034). Codes
are random: what a scan takes does not depend on them. The time is that of the thread, which hardly depends on others.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import asdict, dataclass

import numpy as np

from benchmarks.measurement import write_result
from storage.code_block import BlockPart, CodeBlock

D = 384
SCALE = 1 / 256
FAR = 25_000_000
"""How many passages the last number is for, by the slope of the others."""


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        passages: How many vectors, one measurement each.
        k: How many are looked for.
        queries: How many queries, one after the other.
        seed: Of codes and queries.
    """

    passages: tuple[int, ...] = (250_000, 1_000_000, 2_000_000)
    k: int = 100
    queries: int = 12
    seed: int = 1


def measure(config: Config) -> dict[str, dict[str, float]]:
    """Return the least and the median time of a query, in milliseconds, by the number of passages."""
    rng = np.random.default_rng(config.seed)
    queries = rng.standard_normal((config.queries, D), dtype=np.float32)
    found = {}
    for n in config.passages:
        codes = rng.integers(-128, 128, (n, D), dtype=np.int8)
        part = BlockPart(codes, np.full(n, SCALE, np.float16), np.arange(n))
        block = CodeBlock([part], common=SCALE, d=D)
        block.search(queries[:1], config.k)
        times = []
        for query in queries:
            begin = time.thread_time()
            block.search(query[None], config.k)
            times.append((time.thread_time() - begin) * 1_000)
        found[f"{n:,}"] = {"least_ms": round(min(times), 2), "median_ms": round(statistics.median(times), 2)}
    return found


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, nargs="+", default=list(Config.passages))
    config = Config(passages=tuple(parser.parse_args().passages))
    found = measure(config)
    slope = found[f"{max(config.passages):,}"]["median_ms"] / max(config.passages)
    figures = {"config": asdict(config), "scan": found, f"by the slope, {FAR:,}": {"median_ms": round(slope * FAR, 1)}}
    claim = "scanning all passage vectors takes time in proportion to their number, on one core"
    write_result("passage_scan", claim, figures)


if __name__ == "__main__":
    main()
