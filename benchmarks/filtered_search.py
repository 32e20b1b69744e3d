"""Queries with a filter against the same queries without: one document in 10,000 passing, one in 100, half of them.

Run: python -m benchmarks.filtered_search --kb DIR --queries FILE.jsonl[.gz] [--queries …] --scratch DIR
The knowledge base is copied to the scratch directory (segments by links), where every document gets fields: a number
`rank` in random order, a date, a text and a list of tags.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import bindparam, select, update

from benchmarks.measurement import quantiles_ms, write_result
from benchmarks.query_latency import Config, read_queries
from kbengine.encoders.encoder import DEFAULT_ENCODER
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import Query
from storage import schema
from storage.checksum import sealed
from storage.records import to_json
from storage.session import WriteSession
from storage.verify_fields import remake_fields
from storage.writer import KBWriter

SOURCES = ("manual", "feed", "scan", "mail")
TAGS = [f"tag{i}" for i in range(50)]
K = 10
BLOCK = 20
"""Queries asked one way before the next way has its turn, so that all ways see the same machine."""


def copy_with_fields(source: Path, target: Path, *, seed: int) -> dict[str, float]:
    """Return the seconds that migrating took and that indexing four fields of every document took."""
    shutil.copytree(source, target, copy_function=_link_segments)
    began = time.perf_counter()
    KBWriter.open(target).close()
    migrated_s = time.perf_counter() - began
    table, rng = schema.documents, random.Random(seed)
    session = WriteSession(target)
    try:
        with session.reading() as connection:
            rows = [dict(row) for row in connection.execute(select(table)).mappings()]
        ranks = list(range(len(rows)))
        rng.shuffle(ranks)
        changes = []
        for rank, row in zip(ranks, rows, strict=True):
            meta = {
                "rank": rank,
                "date": (date(2000, 1, 1) + timedelta(days=rng.randrange(9_000))).isoformat(),
                "source": rng.choice(SOURCES),
                "tags": rng.sample(TAGS, 3),
            }
            changed = sealed({**row, "meta": to_json(meta, "meta")})
            changes.append({"key_": row["document_id"], "meta_": changed["meta"], "checksum_": changed["checksum"]})
        statement = update(table).where(table.c.document_id == bindparam("key_"))
        with session.writing() as connection:
            connection.execute(statement.values(meta=bindparam("meta_"), checksum=bindparam("checksum_")), changes)
            began = time.perf_counter()
            remake_fields(connection)
        indexed_s = time.perf_counter() - began
    finally:
        session.close()
    return {"migrated_s": round(migrated_s, 2), "four_fields_indexed_s": round(indexed_s, 2)}


def _link_segments(source: str, target: str) -> None:
    # Segments are immutable; the database and its log are not.
    if Path(source).suffix == ".seg":
        Path(target).hardlink_to(source)
    else:
        shutil.copy2(source, target)


def filters(n_documents: int) -> dict[str, Callable[[int], str | None]]:
    """Return the ways to ask, by the share of documents that pass: the filter of each query by its number."""
    few, many = max(1, n_documents // 10_000), n_documents // 100
    return {
        "unfiltered": lambda _: None,
        "one in 10,000": lambda _: f"rank < {few}",
        "one in 10,000, another each time": lambda i: f"rank between {i * few} and {i * few + few - 1}",
        "one in 100": lambda _: f"rank < {many}",
        "one in 100, another each time": lambda i: f"rank between {i * 7} and {i * 7 + many - 1}",
        "one in 8, two fields": lambda _: "source = 'manual' and date >= '2012-06-01'",
        "half": lambda _: f"rank < {n_documents // 2}",
        "all": lambda _: "rank >= 0",
    }


def measure(knowledge_base: KnowledgeBase, queries: list[Query], warm_up: int) -> dict[str, Any]:
    """Return times of every way to ask, of applying its filter for the first time, and how many answers came back."""
    ways = filters(knowledge_base.info().documents)
    reader = knowledge_base.reader
    for query in queries[:warm_up]:
        knowledge_base.search(query, k=K, truncate=True)
    reader.snapshot("id = 'nobody'")  # the grammar is read once in a process
    figures: dict[str, dict[str, Any]] = {}
    for name, filter_of in ways.items():
        began = time.perf_counter()
        snapshot = reader.snapshot(filter_of(0))
        filter_ms = (time.perf_counter() - began) * 1e3
        knowledge_base.search(queries[0], k=K, truncate=True, where=filter_of(0))
        figures[name] = {
            "where": filter_of(0),
            "passing_passages": snapshot.n_live_passages,
            "passing_vectors": int(snapshot.token_counts[snapshot.live_passages].sum()),
            "filter_ms": round(filter_ms, 2),
        }
    times: dict[str, list[float]] = {name: [] for name in ways}
    answers: dict[str, list[int]] = {name: [] for name in ways}
    for start in range(0, len(queries), BLOCK):
        for name, filter_of in ways.items():
            for number, query in enumerate(queries[start : start + BLOCK], start=start + 1):
                began = time.perf_counter()
                result = knowledge_base.search(query, k=K, truncate=True, where=filter_of(number))
                times[name].append(time.perf_counter() - began)
                answers[name].append(len(result.hits))
    unfiltered_ms = quantiles_ms(times["unfiltered"])["p50_ms"]
    for name, figure in figures.items():
        figure |= quantiles_ms(times[name])
        figure["times_unfiltered_p50"] = round(figure["p50_ms"] / unfiltered_ms, 2)
        figure["fewest_answers"] = min(answers[name])
    return figures


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--queries", type=Path, action="append", required=True)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--encoder", default=DEFAULT_ENCODER)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--name", default="filtered_search")
    arguments = parser.parse_args()
    config = Config(arguments.kb, tuple(arguments.queries), arguments.n, arguments.encoder)
    target = arguments.scratch / "filtered-kb"
    shutil.rmtree(target, ignore_errors=True)
    seconds = copy_with_fields(arguments.kb, target, seed=config.seed)
    with KnowledgeBase.open(target, arguments.encoder) as knowledge_base:
        info = knowledge_base.info()
        figures = {
            "documents": info.documents,
            "stored_vectors": info.tokens_stored,
            **seconds,
            "k": K,
            "n_queries": arguments.n,
            "ways": measure(knowledge_base, read_queries(config), config.warm_up),
        }
    write_result(
        arguments.name, "with one document in 10,000 passing, k answers in at most 2 times the unfiltered p50", figures
    )


if __name__ == "__main__":
    main()
