"""What a query needs of the machine, stage by stage, beside what the machine can give: bytes read and multiply-adds.

Run: python -m benchmarks.limits --kb DIR --queries FILE.jsonl[.gz] …

One core is measured: reading memory in order, reading rows of stored codes in any order, and multiplying matrices of
float32 and of int8. What a query reads and multiplies is counted while questions are answered one at a time. A stage's
limit is the longer of the two times; where it has neither, such as reading texts from SQLite, there is none.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement import write_result
from benchmarks.query_latency import Config as QueryConfig
from benchmarks.query_latency import read_queries
from kbengine.knowledge_base import KnowledgeBase
from kbengine.terminal.threads import set_thread_defaults
from storage import coded_search, mixed_codes
from storage.terms import terms_of

REPEATS = 7
POSTING_BYTES = 5  # a passage's number and how often the term is in it


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        kb: the knowledge base.
        queries: KILT files.
        n: questions.
    """

    kb: Path
    queries: tuple[Path, ...]
    n: int = 96


def fastest_s(call: Callable[[], object]) -> float:
    """Return the shortest of some times of a call: what the machine can do when nothing is in its way."""
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def machine_rates() -> dict[str, float]:
    """Return what one core does in a second."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(13)
    numbers = rng.random(1 << 27, dtype=np.float32)  # 512 MiB: more than any cache holds
    in_order = fastest_s(lambda: np.dot(numbers, numbers))
    codes = numbers.view(np.uint8).reshape(-1, 192 if len(numbers) % 48 == 0 else 256)
    rows = rng.integers(0, len(codes), 200_000)
    gathered = fastest_s(lambda: codes[rows])
    n = 2048
    left, right = torch.rand(n, n), torch.rand(n, n)
    float32 = fastest_s(lambda: left @ right)
    low, high = (torch.randint(-128, 127, (n, n), dtype=torch.int8) for _ in range(2))
    int8 = fastest_s(lambda: torch._int_mm(low, high))
    return {
        "read_in_order_bytes": numbers.nbytes / in_order,
        "read_rows_bytes": len(rows) * codes.shape[1] / gathered,
        "float32_multiply_adds": n**3 / float32,
        "int8_multiply_adds": n**3 / int8,
    }


class Counts:
    """What the search reads and multiplies, counted at the functions that do it."""

    def __init__(self) -> None:
        # The second stage's are all but those of the first.
        self.rows = {"nearest": 0, "rescore": 0}
        self.row_targets = {"nearest": 0, "rescore": 0}
        self._stage = "rescore"
        self.code_bytes = 0
        self.lists = 0
        self._multiply = mixed_codes._multiply
        self._best_lists = coded_search.best_lists
        self._scored = coded_search._scored

    def __enter__(self) -> Counts:
        def multiply(codes: Any, rows: Any, *others: Any) -> bool:
            self.rows[self._stage] += len(rows)
            self.row_targets[self._stage] += len(rows) * len(others[3])
            self.code_bytes = codes.shape[1]
            return bool(self._multiply(codes, rows, *others))

        def best_lists(quantiser: Any, queries: Any, nprobe: int) -> Any:
            self.lists += len(queries) * nprobe
            return self._best_lists(quantiser, queries, nprobe)

        def scored(*given: Any) -> Any:
            self._stage = "nearest"
            try:
                return self._scored(*given)
            finally:
                self._stage = "rescore"

        coded_search._scored = scored
        mixed_codes._multiply = multiply  # type: ignore[assignment]
        coded_search.best_lists = best_lists
        return self

    def __exit__(self, *_: object) -> None:
        mixed_codes._multiply = self._multiply
        coded_search.best_lists = self._best_lists
        coded_search._scored = self._scored


def limit(rates: dict[str, float], *, in_order: float = 0, rows: float = 0, float32: float = 0, int8: float = 0) -> Any:
    """Return what a stage needs, and the milliseconds that one core needs for it at least."""
    memory = in_order / rates["read_in_order_bytes"] + rows / rates["read_rows_bytes"]
    arithmetic = float32 / rates["float32_multiply_adds"] + int8 / rates["int8_multiply_adds"]
    return {
        "megabytes": round((in_order + rows) / 1e6, 2),
        "million_multiply_adds": round((float32 + int8) / 1e6, 1),
        "memory_ms": round(memory * 1e3, 3),
        "multiplying_ms": round(arithmetic * 1e3, 3),
        "limit_ms": round(max(memory, arithmetic) * 1e3, 3),
    }


def measure(config: Config) -> dict[str, Any]:
    """Return the machine's rates, and what each stage needs, could take and takes."""
    rates = machine_rates()
    asked = read_queries(QueryConfig(kb=config.kb, queries=config.queries, n_queries=2 * config.n))
    with KnowledgeBase.open(config.kb) as knowledge_base:
        snapshot = knowledge_base.reader.snapshot()
        encoder = knowledge_base.encoder_for()
        for query in asked[: config.n]:
            knowledge_base.search(query, k=10, truncate=True, read=0)
        timed = asked[config.n :]
        stages = [
            knowledge_base.search(query, k=10, truncate=True, read=0).timings_ms for query in timed for _ in range(2)
        ][1::2]  # the second time of each: its pages are read and checked
        with Counts() as counts:
            results = [knowledge_base.search(query, k=10, truncate=True, read=0) for query in timed]
        n_tokens = float(np.mean([result.n_query_tokens for result in results]))
        postings = float(
            np.mean([sum(len(snapshot.passages_with_term(t)) for t in set(terms_of(str(q.input.text)))) for q in timed])
        )
        coded = snapshot.segments[0].token_ann.quantiser
        assert coded is not None
        info = knowledge_base.info()
    n = len(timed)
    d = encoder.d
    weights = 6 * 12 * d * d  # MiniLM: six layers, each four square products and two of four times the width
    scanned = counts.lists / n / coded.nlist * info.indexed_rows
    needs = {
        "encode": limit(rates, in_order=weights, int8=weights * n_tokens),
        "lexical": limit(rates, in_order=postings * POSTING_BYTES),
        "nearest": limit(
            rates,
            in_order=coded.centroids.nbytes + scanned * coded.code_bytes,
            rows=counts.rows["nearest"] / n * counts.code_bytes,
            float32=2 * coded.nlist * d + counts.row_targets["nearest"] / n * d,
        ),
        "rescore": limit(
            rates,
            in_order=counts.rows["rescore"] / n * counts.code_bytes,  # a passage's rows lie side by side
            float32=counts.row_targets["rescore"] / n * d,
        ),
        "resolve": None,
    }
    table = {
        name: {"measured_ms": round(float(np.median([stage[name] for stage in stages])), 2), "needs": needs[name]}
        for name in needs
    }
    return {
        "rates_of_one_core": {name: float(f"{value:.4g}") for name, value in rates.items()},
        "indexed_vectors": info.indexed_rows,
        "questions": n,
        "of_a_question": {
            "tokens": round(n_tokens, 1),
            "postings": round(postings),
            "lists": round(counts.lists / n),
            "of_lists": coded.nlist,
            "rows_scanned_about": round(scanned),
            "rows_multiplied_exactly": {name: round(rows / n) for name, rows in counts.rows.items()},
        },
        "stages": table,
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--queries", type=Path, action="append", default=[])
    given = parser.parse_args()
    claim = "what each stage of a query takes beside the least that this machine's memory and arithmetic allow"
    write_result("limits", claim, measure(Config(given.kb, tuple(given.queries))))


if __name__ == "__main__":
    set_thread_defaults()
    main()
