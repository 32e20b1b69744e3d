"""Every kind of index over one knowledge base: recall@100 against comparing every vector, time and bytes a vector.

Run: python -m benchmarks.index_kinds --kb DIR --scratch DIR --queries FILE.jsonl[.gz] [--kinds opq48,opq96] [--keep]

The knowledge base is read only; a copy with each index is made in the scratch directory and removed again.
"""

from __future__ import annotations

import argparse
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measurement import quantiles_ms, resident_bytes, write_result
from benchmarks.query_latency import Config as QueryConfig
from benchmarks.query_latency import read_queries
from kbengine.build.reindexing import ReindexOptions, reindex
from kbengine.encoders.encoder import Encoder
from kbengine.progress import progress_for_terminal
from storage.index_kind import INDEX_KINDS, IndexKind
from storage.reader import KBReader

K = 100
BATCH = 64


@dataclass(frozen=True)
class Config:
    """What is measured."""

    kb: Path
    scratch: Path
    queries: tuple[Path, ...]
    kinds: tuple[str, ...]
    n_queries: int
    nprobe: int | None
    keep: bool


@dataclass(frozen=True)
class Asked:
    """Query vectors float32 (m, d), and the token ids int64 (m, 100) that comparing every int8 vector finds."""

    vectors: NDArray[np.float32]
    wanted: NDArray[np.int64]


def ask(config: Config) -> Asked:
    """Return the start and end vectors of real queries with the true nearest tokens."""
    encoder = Encoder.load("minilm-phrase")
    queries = read_queries(QueryConfig(kb=config.kb, queries=config.queries, n_queries=config.n_queries))
    encoded = encoder.encode_queries([query.input for query in queries], truncate=True)
    vectors = np.concatenate([encoded.start, encoded.end])
    with KBReader.open(config.kb) as reader:
        snapshot = reader.snapshot()
        _, rows = snapshot.search_tokens(vectors, K, exact=True)
        return Asked(vectors, snapshot.token_ids_of_rows(rows))


def measure(path: Path, asked: Asked, nprobe: int | None) -> dict[str, Any]:
    """Return recall, times and sizes of one knowledge base."""
    began = time.perf_counter()
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        opened_s = time.perf_counter() - began
        info = reader.info()
        snapshot.search_tokens(asked.vectors[:8], K, nprobe=nprobe)
        times, hits = [], []
        for vector, wanted in zip(asked.vectors, asked.wanted, strict=True):
            began = time.perf_counter()
            _, rows = snapshot.search_tokens(vector[None], K, nprobe=nprobe)
            times.append(time.perf_counter() - began)
            hits.append(len(np.intersect1d(snapshot.token_ids_of_rows(rows[0]), wanted)) / K)
        n = len(asked.vectors) // BATCH * BATCH
        began = time.perf_counter()
        for start in range(0, n, BATCH):
            snapshot.search_tokens(asked.vectors[start : start + BATCH], K, nprobe=nprobe)
        batch_ms = (time.perf_counter() - began) / max(n, 1) * 1e3
        sample = np.random.default_rng(0).choice(snapshot.n_rows, size=min(5_000, snapshot.n_rows), replace=False)
        served, stored = snapshot.served_vectors(np.sort(sample)), snapshot.vectors(np.sort(sample))
        norms = np.linalg.norm(served, axis=1) * np.linalg.norm(stored, axis=1)
        return {
            "recall_at_100": round(float(np.mean(hits)), 4),
            "single": quantiles_ms(times),
            "batch_of_64_ms_per_query": round(batch_ms, 3),
            "bytes_per_vector_without_text": round(
                (info.bytes_by_use["vectors"] + info.bytes_by_use["index"]) / info.segment_rows, 1
            ),
            "bytes_by_use": info.bytes_by_use,
            "cosine_of_served_with_stored": round(float(np.median((served * stored).sum(axis=1) / norms)), 4),
            "open_s": round(opened_s, 2),
            "memory_bytes": resident_bytes(),
        }


def measure_all(config: Config) -> dict[str, Any]:
    """Return the figures of every kind, with int8 vectors kept and, where that is possible, dropped."""
    asked = ask(config)
    figures: dict[str, Any] = {}
    with KBReader.open(config.kb) as reader:
        figures["stored_vectors"] = reader.info().segment_rows
    figures["n_query_vectors"], figures["kinds"] = len(asked.vectors), {}
    for kind in config.kinds:
        copy, dropped = config.scratch / kind, config.scratch / f"{kind}-dropped"
        began = time.perf_counter()
        with progress_for_terminal() as progress:
            reindex(config.kb, ReindexOptions(ann={"kind": kind}), out=copy, progress=progress)
        built_s = time.perf_counter() - began
        figures["kinds"][kind] = {"kept": measure(copy, asked, config.nprobe), "reindex_s": round(built_s, 1)}
        if IndexKind.of(kind).needs_quantiser:
            with progress_for_terminal() as progress:
                reindex(copy, ReindexOptions(drop_vectors=True), out=dropped, progress=progress)
            figures["kinds"][kind]["dropped"] = measure(dropped, asked, config.nprobe)
        if not config.keep:
            for path in (copy, dropped):
                shutil.rmtree(path, ignore_errors=True)
    return figures


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--queries", type=Path, action="append", required=True)
    parser.add_argument("--kinds", default=",".join(INDEX_KINDS))
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--nprobe", type=int)
    parser.add_argument("--keep", action="store_true", help="Leave the copies in the scratch directory.")
    arguments = parser.parse_args()
    config = Config(
        kb=arguments.kb,
        scratch=arguments.scratch,
        queries=tuple(arguments.queries),
        kinds=tuple(arguments.kinds.split(",")),
        n_queries=arguments.n,
        nprobe=arguments.nprobe,
        keep=arguments.keep,
    )
    write_result(
        "index_kinds",
        "recall@100 of every kind of index against comparing every vector, with its time and its bytes a vector",
        measure_all(config),
    )


if __name__ == "__main__":
    main()
