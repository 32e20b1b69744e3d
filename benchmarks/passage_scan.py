"""What a query costs that scans all passage vectors of a shard, or looks into lists of them, by how many there are.

Run: OMP_NUM_THREADS=1 python -m benchmarks.passage_scan

Clusters have lists of passages, the same in all shards, from 10,000 passages on; those planned before scan (decision
0034). Codes are random: what a scan takes does not depend on them, and of the lists as many are looked into as real
passages needed. The time is that of the thread, which hardly depends on others.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.measurement import write_result
from storage.ann_codes import build_codes
from storage.ann_lists import AnnSource
from storage.ann_options import AnnOptions
from storage.code_block import BlockPart, CodeBlock
from storage.coded_search import CodedPart, search_coded
from storage.exact import Found
from storage.filled_index import FilledIndex
from storage.index_kind import LARGE_KIND
from storage.passage_quantiser import train_passage_quantiser

Float32 = NDArray[np.float32]

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
        sample: How many passages a plan trains lists on.
        share: Of the lists a query looks into this share: of 149,367 real passages, with samples of 8,192, for 98 % of
            the nearest.
        seed: Of codes and queries.
    """

    passages: tuple[int, ...] = (250_000, 1_000_000, 2_000_000)
    k: int = 100
    queries: int = 12
    sample: int = 8_192
    share: float = 0.15
    seed: int = 1


def measure(config: Config) -> dict[str, dict[str, dict[str, float]]]:
    """Return the times of a query that scans, and of one that looks into lists, in ms, by the number of passages."""
    rng = np.random.default_rng(config.seed)
    queries = rng.standard_normal((config.queries, D), dtype=np.float32)
    scan, index = {}, {}
    for n in config.passages:
        codes = rng.integers(-128, 128, (n, D), dtype=np.int8)
        scales = np.full(n, SCALE, np.float16)
        block = CodeBlock([BlockPart(codes, scales, np.arange(n))], common=SCALE, d=D)
        scan[f"{n:,}"] = _timed(queries, partial(block.search, k=config.k))
        source = AnnSource("", "passages", codes, scales, SCALE)
        chosen = np.sort(rng.choice(n, min(n, config.sample), replace=False))
        sample = rng.permutation(source.vectors(chosen))
        options = AnnOptions(kind=LARGE_KIND)
        trained = train_passage_quantiser(sample, n, options, name="e" * 32, stage=lambda *_: None)
        assert trained is not None
        quantiser, _ = trained
        nprobe = max(1, round(config.share * quantiser.nlist))
        part = CodedPart(FilledIndex.of_codes(build_codes(source, quantiser)), source, None, 0, None)
        part.index.filling.need_all()
        refine = quantiser.kind.refine
        search = partial(search_coded, quantiser, [part], k=config.k, nprobe=nprobe, refine=refine)
        index[f"{n:,}"] = {"lists": quantiser.nlist, "looked_into": nprobe, **_timed(queries, search)}
    return {"scan": scan, "index": index}


def _timed(queries: Float32, search: Callable[[Float32], Found]) -> dict[str, float]:
    search(queries[:1])
    times = []
    for query in queries:
        begin = time.thread_time()
        search(query[None])
        times.append((time.thread_time() - begin) * 1_000)
    return {"least_ms": round(min(times), 2), "median_ms": round(statistics.median(times), 2)}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passages", type=int, nargs="+", default=list(Config.passages))
    config = Config(passages=tuple(parser.parse_args().passages))
    found = measure(config)
    most = max(config.passages)
    far = {kind: round(each[f"{most:,}"]["median_ms"] / most * FAR, 1) for kind, each in found.items()}
    figures = {"config": asdict(config), **found, f"by the slope, {FAR:,}": far}
    claim = "looking into lists of passage vectors takes a small part of the time of scanning them, on one core"
    write_result("passage_scan", claim, figures)


if __name__ == "__main__":
    main()
