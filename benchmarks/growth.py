"""How the time of a query grows with the number of vectors: knowledge bases of several sizes, asked by turns.

Run: python -m benchmarks.growth --kb DIR --kb DIR … --queries FILE.jsonl[.gz] …

Sizes are those of indexed vectors. Smaller knowledge bases are some of the pages of a large one, larger ones have
each page several times (`benchmarks.stored_pages`): such are synthetic, and said to be. They are opened for reading
only, all at once, and each is asked the same questions in turns, so that what else the machine does falls on all alike.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measurement import RESULTS, write_result
from benchmarks.query_latency import Config as QueryConfig
from benchmarks.query_latency import read_queries
from benchmarks.token_search import Times
from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from kbengine.search.query import Query
from kbengine.terminal.threads import set_thread_defaults

BATCH = 64
ALLOWED = 1.35


@dataclass(frozen=True)
class Config:
    """What is measured.

    Attributes:
        kbs: knowledge bases.
        queries: KILT files.
        warm_up: questions asked before any is timed: what nobody has read before is checked when it is first read.
        rounds: turns.
        per_round: single questions in a turn, beside one batch of 64.
    """

    kbs: tuple[Path, ...]
    queries: tuple[Path, ...]
    warm_up: int = 256
    rounds: int = 4
    per_round: int = 16


def measure(config: Config) -> dict[str, Any]:
    """Return what each knowledge base holds and takes, the smallest first, and how times grow."""
    encoder = Encoder.load("minilm-phrase")
    n = config.warm_up + config.rounds * BATCH
    asked = read_queries(QueryConfig(kb=config.kbs[0], queries=config.queries, n_queries=n))
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        opened: list[tuple[KnowledgeBase, Times, Times, list[dict[str, float]]]] = []
        for path in config.kbs:
            knowledge_base = stack.enter_context(KnowledgeBase.open(path, encoder))
            info = knowledge_base.info()
            probing = knowledge_base.reader.settings.probing
            rows.append(
                {
                    "indexed_vectors": info.indexed_rows,
                    "stored_vectors": info.tokens_stored,
                    "documents": info.documents,
                    "passages": info.passages,
                    "segments": info.segments,
                    "index": knowledge_base.reader.settings.ann_options.kind,
                    "probing": None if probing is None else probing.to_json(),
                    "synthetic": len(knowledge_base.reader.titled([_first_title(knowledge_base)], limit=2)[0]) > 1,
                }
            )
            opened.append((knowledge_base, Times([], []), Times([], []), []))
            for begin in range(0, config.warm_up, BATCH):
                _ask(knowledge_base, asked[begin : begin + BATCH])
        for turn in range(config.rounds):
            some = asked[config.warm_up + turn * BATCH :][:BATCH]
            for knowledge_base, single, batch, stages in opened if turn % 2 else opened[::-1]:
                for query in some[: config.per_round]:
                    stages.append(single.take(partial(_ask, knowledge_base, [query])))
                batch.take(partial(_ask, knowledge_base, some))
    for row, (_, single, batch, stages) in zip(rows, opened, strict=True):
        row["single"] = single.medians_ms()
        row["batch_of_64"] = batch.medians_ms(BATCH)
        row["stages_ms"] = {
            name: round(float(np.median([each[name] for each in stages])), 2) for name in (stages[0] if stages else {})
        }
    rows.sort(key=lambda row: int(row["indexed_vectors"]))
    return {"rows": rows, "growth": growth(rows), "n_single": config.rounds * config.per_round}


def _first_title(knowledge_base: KnowledgeBase) -> str:
    document, _ = next(iter(knowledge_base.reader.iterate_documents()))
    return document.title


def _ask(knowledge_base: KnowledgeBase, queries: list[Query]) -> dict[str, float]:
    return dict(knowledge_base.search(queries, k=10, truncate=True, read=0)[0].timings_ms)


def growth(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each step from a size to the next by what a doubling multiplies the times."""
    steps = []
    for smaller, larger in itertools.pairwise(rows):
        doublings = math.log2(larger["indexed_vectors"] / smaller["indexed_vectors"])
        step: dict[str, Any] = {"from": smaller["indexed_vectors"], "to": larger["indexed_vectors"]}
        for kind in ("single", "batch_of_64"):
            for unit in ("clock_ms", "processor_ms"):
                step[f"{kind}_{unit[:-3]}"] = round((larger[kind][unit] / smaller[kind][unit]) ** (1 / doublings), 3)
        steps.append(step)
    return steps


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw times over sizes, and the stages of single questions, to a file."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    rows = figures["rows"]
    sizes = [row["indexed_vectors"] for row in rows]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for kind, label in (("single", "single"), ("batch_of_64", "batch of 64, a question")):
        left.plot(sizes, [row[kind]["clock_ms"] for row in rows], "o-", label=label)
    start = rows[0]["single"]["clock_ms"]
    left.plot(sizes, [start * ALLOWED ** math.log2(n / sizes[0]) for n in sizes], "k:", label="1.35 a doubling")
    left.set(title="Time of a query", xlabel="indexed vectors", ylabel="ms", xscale="log", yscale="log")
    left.legend()
    for name in ("encode", "lexical", "nearest", "rescore", "resolve"):
        right.plot(sizes, [row["stages_ms"][name] for row in rows], "o-", label=name)
    right.set(title="Stages of a single question", xlabel="indexed vectors", ylabel="ms", xscale="log")
    right.set_ylim(bottom=0)
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Measure and write the result, or draw what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, action="append", default=[])
    parser.add_argument("--queries", type=Path, action="append", default=[])
    parser.add_argument("--rounds", type=int, default=Config.rounds)
    parser.add_argument("--warm-up", type=int, default=Config.warm_up)
    parser.add_argument("--plot", action="store_true", help="only draw benchmarks/results/growth.json")
    given = parser.parse_args()
    source = RESULTS / "growth.json"
    if not given.plot:
        config = Config(tuple(given.kb), tuple(given.queries), given.warm_up, given.rounds)
        write_result("growth", f"each doubling of the vectors takes at most {ALLOWED} times as long", measure(config))
    plot(json.loads(source.read_text(encoding="utf-8"))["figures"], source.with_suffix(".png"))


if __name__ == "__main__":
    set_thread_defaults()
    main()
