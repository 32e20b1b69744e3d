"""One query from text to resolved answers, a batch of 64, recall of the approximate search, memory, size and opening.

Run: python -m benchmarks.query_latency --kb DIR --queries FILE.jsonl[.gz] [--queries …] [--encoder DIR]
With an encoder that has sparse heads, and sparse rows in the knowledge base, also without sparse scores; the other
strategies too. The environment that `kbengine` sets for itself: GOMP_SPINCOUNT=3000 OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from adapters.tasks.queries import task_query
from benchmarks.measurement import quantiles_ms, resident_bytes, write_result
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.inputs import SEPARATOR
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import STRATEGIES, Query
from storage.reader import KBReader


@dataclass(frozen=True)
class Config:
    """What is measured."""

    kb: Path
    queries: tuple[Path, ...]
    n_queries: int
    encoder: str = DEFAULT_ENCODER
    seed: int = 13
    warm_up: int = 20
    batch: int = 64
    recall_queries: int = 100


def read_queries(config: Config) -> list[Query]:
    """Return shuffled queries of the KILT files: questions, and slot filling where the input has a separator."""
    texts = []
    for path in config.queries:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as file:
            texts += [json.loads(line)["input"] for line in file]
    random.Random(config.seed).shuffle(texts)
    return [task_query("slot-filling" if SEPARATOR in text else "question", text) for text in texts[: config.n_queries]]


def measure(config: Config) -> dict[str, Any]:
    """Return all figures."""
    encoder = Encoder.load(config.encoder)
    began = time.perf_counter()
    knowledge_base = KnowledgeBase.open(config.kb, encoder)
    opened_s = time.perf_counter() - began
    info = knowledge_base.info()
    queries = read_queries(config)
    for query in queries[: config.warm_up]:
        knowledge_base.search(query, k=10, truncate=True)
    memory_warm = resident_bytes()

    times, stages = timed(knowledge_base, queries)
    sparse: dict[str, Any] = {}
    if knowledge_base.has_sparse():
        plain = [replace(query, weights=replace(query.weights, sparse=0.0)) for query in queries]
        sparse = {
            "sparse_bytes": info.bytes_by_use["sparse"],
            "sparse_weight_0": quantiles_ms(timed(knowledge_base, plain)[0]),
        }
    strategies = {}
    for strategy in STRATEGIES:
        asked = [replace(query, strategy=strategy) for query in queries]
        strategies[strategy] = quantiles_ms(timed(knowledge_base, asked)[0])
    batches = [queries[i : i + config.batch] for i in range(0, len(queries) - config.batch + 1, config.batch)]
    began = time.perf_counter()
    for batch in batches:
        knowledge_base.search(batch, k=10, truncate=True)
    batch_ms = (time.perf_counter() - began) / max(1, sum(map(len, batches))) * 1e3
    single = quantiles_ms(times)
    total_bytes = sum(info.bytes_by_kind.values())
    return {
        "stored_vectors": info.tokens_stored,
        "documents": info.documents,
        "passages": info.passages,
        "single": single,
        "stages_p50_ms": {name: round(float(np.median([stage[name] for stage in stages])), 2) for name in stages[0]},
        **sparse,
        "strategies": strategies,
        "batch_of_64_ms_per_query": round(batch_ms, 2),
        "batch_speedup": round(single["mean_ms"] / batch_ms, 2),
        "ann_recall_at_100": round(recall(config.kb, encoder, queries[: config.recall_queries]), 4),
        "open_s": round(opened_s, 2),
        "memory_bytes": resident_bytes(),
        "memory_after_warm_up_bytes": memory_warm,
        "file_bytes": info.bytes_by_kind,
        "bytes_per_vector": round(total_bytes / info.tokens_stored, 1),
        "n_queries": len(queries),
        "k": 10,
    }


def timed(knowledge_base: KnowledgeBase, queries: list[Query]) -> tuple[list[float], list[Mapping[str, float]]]:
    """Return the seconds of each query, asked one at a time, and the milliseconds of its stages."""
    times, stages = [], []
    for query in queries:
        began = time.perf_counter()
        result = knowledge_base.search(query, k=10, truncate=True)
        times.append(time.perf_counter() - began)
        stages.append(result.timings_ms)
    return times, stages


def recall(kb: Path, encoder: Encoder, queries: list[Query]) -> float:
    """Return recall@100 of the approximate token search against comparing every stored vector."""
    with KBReader.open(kb) as reader:
        snapshot = reader.snapshot()
        vectors = encoder.encode_queries([query.input for query in queries], truncate=True)
        both = np.concatenate([vectors.start, vectors.end])
        _, found = snapshot.search_tokens(both, 100)
        _, wanted = snapshot.search_tokens(both, 100, exact=True)
    return float(np.mean([len(np.intersect1d(a, b)) / 100 for a, b in zip(found, wanted, strict=True)]))


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--queries", type=Path, action="append", required=True)
    parser.add_argument("--encoder", default=DEFAULT_ENCODER, help="the encoder, or one with sparse heads on it")
    parser.add_argument("--n", type=int, default=640)
    parser.add_argument("--name", default="query_latency")
    arguments = parser.parse_args()
    config = Config(arguments.kb, tuple(arguments.queries), arguments.n, arguments.encoder)
    write_result(
        arguments.name,
        "one query at 1,000,000 stored vectors: p50 <= 12 ms, p95 <= 25 ms; recall@100 >= 0.95; batch of 64 >= 3x",
        measure(config),
    )


if __name__ == "__main__":
    main()
