"""Token search of several knowledge bases of the same text by turns: recall@100, clock and processor time, memory.

Run: python -m benchmarks.token_search --kb DIR --kb DIR … --queries FILE.jsonl[.gz] [--queries …] [--n N]
They are opened for reading only. The environment that `kbengine` sets for itself: GOMP_SPINCOUNT=3000
OPENBLAS_NUM_THREADS=1; with OMP_NUM_THREADS=1 the two times can be compared on a machine that others use too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.measurement import write_result
from benchmarks.query_latency import Config as QueryConfig
from benchmarks.query_latency import read_queries
from kbengine.encoders.encoder import Encoder
from storage.reader import KBReader
from storage.snapshot import Snapshot

K = 100
BATCH = 64
RECALL_VECTORS = 200
# Other queries than those that are timed: whoever asks first pays for pages and checksums of what nobody has read.
WARM_UP = 448
T = TypeVar("T")


@dataclass(frozen=True)
class Times:
    """Seconds of each call, by the clock and of the processor."""

    clock: list[float]
    processor: list[float]

    def take(self, call: Callable[[], T]) -> T:
        """Time one call and return what it gives."""
        began, began_processor = time.perf_counter(), time.process_time()
        given = call()
        self.clock.append(time.perf_counter() - began)
        self.processor.append(time.process_time() - began_processor)
        return given

    def medians_ms(self, n_queries: int = 1) -> dict[str, float]:
        """Return the medians in milliseconds a query."""
        return {
            "clock_ms": round(float(np.median(self.clock)) * 1e3 / n_queries, 3),
            "processor_ms": round(float(np.median(self.processor)) * 1e3 / n_queries, 3),
        }


def anonymous_bytes() -> int:
    """Return the memory of this process that is no file's."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("RssAnon")).split()[1]) * 1024


def recall(snapshot: Snapshot, vectors: NDArray[np.float32]) -> float:
    """Return recall@100 against comparing every indexed vector."""
    _, found = snapshot.search_tokens(vectors, K)
    _, wanted = snapshot.search_tokens(vectors, K, exact=True)
    return round(float(np.mean([len(np.intersect1d(a, b)) / K for a, b in zip(found, wanted, strict=True)])), 4)


def measure(paths: list[Path], queries: tuple[Path, ...], n: int) -> dict[str, Any]:
    """Return the figures of each knowledge base."""
    encoder = Encoder.load("minilm-phrase")
    asked = read_queries(QueryConfig(kb=paths[0], queries=queries, n_queries=n + WARM_UP))
    encoded = encoder.encode_queries([query.input for query in asked], truncate=True)
    both = np.stack([encoded.start, encoded.end], axis=1)  # (n, 2, d): what a query searches with
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        snapshots: list[Snapshot] = []
        for path in paths:
            before, began = anonymous_bytes(), time.perf_counter()
            reader = stack.enter_context(KBReader.open(path))
            snapshot = reader.snapshot()
            opened_s = time.perf_counter() - began
            for start in range(0, WARM_UP, BATCH):
                snapshot.search_tokens(both[start : start + BATCH].reshape(-1, both.shape[2]), K)
            info = reader.info()
            figures[path.name] = {
                "index": reader.settings.ann_options.kind,
                "indexed_vectors": info.indexed_rows,
                "segments": info.segments,
                "probing": None if reader.settings.probing is None else reader.settings.probing.to_json(),
                "open_s": round(opened_s, 2),
                "anonymous_bytes": anonymous_bytes() - before,
                "index_bytes": info.bytes_by_use["index"],
            }
            snapshots.append(snapshot)
        both = both[WARM_UP:]
        single = [Times([], []) for _ in paths]
        batches = [Times([], []) for _ in paths]
        for vectors in both:
            for snapshot, times in zip(snapshots, single, strict=True):
                times.take(partial(snapshot.search_tokens, vectors, K))
        for start in range(0, len(both) - BATCH + 1, BATCH):
            some = both[start : start + BATCH].reshape(-1, both.shape[2])
            for snapshot, times in zip(snapshots, batches, strict=True):
                times.take(partial(snapshot.search_tokens, some, K))
        for path, snapshot, one, many in zip(paths, snapshots, single, batches, strict=True):
            figures[path.name] |= {
                "single": one.medians_ms(),
                "batch_of_64": many.medians_ms(BATCH) if many.clock else None,
                "recall_at_100": recall(snapshot, both.reshape(-1, both.shape[2])[:RECALL_VECTORS]),
            }
    return {"n_queries": len(both), "vectors_a_query": 2, "k": K, "knowledge_bases": figures}


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", type=Path, action="append", required=True)
    parser.add_argument("--queries", type=Path, action="append", required=True)
    parser.add_argument("--n", type=int, default=256)
    arguments = parser.parse_args()
    write_result(
        "token_search",
        "token search with the lists of int8 codes and with 4-bit codes scanned in registers, by turns",
        measure(arguments.kb, tuple(arguments.queries), arguments.n),
    )


if __name__ == "__main__":
    main()
