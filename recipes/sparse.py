"""Sparse heads for the default encoder: rows → heads → a knowledge base with sparse rows → the table of strategies.

Run: python -m recipes.sparse --data DIR --work DIR [--steps N] [--rows N] [--orders 1,2,3] [--heads-only]
The data folder holds KILT files: *.pages.jsonl.gz, *.train.jsonl.gz, *.dev.jsonl.gz, unseen_pages.txt. Finished stages
are kept; an interrupted one begins anew, but for the training, which goes on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.kilt_sets import PHRASE_ROWS, PHRASE_SETS, half_rows, page_files
from benchmarks.strategies import Config, markdown, measure
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.encoders.encoder import Encoder
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.learning.loop.interruption import Stop, stop_on_interrupt
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.run import train_model
from kbengine.learning.runs.sparse import SparseModelOptions, SparseRecipe
from kbengine.progress import ProgressSink, progress_for_terminal
from kbengine.terminal.threads import set_thread_defaults

NAME = "minilm-phrase-sparse"


@dataclass(frozen=True)
class Plan:
    """What is made.

    Attributes:
        data: The folder of KILT files.
        work: For everything that is made.
        init: Name or directory of the phrase encoder.
        steps: Of the optimiser, of 24 rows each; the best of four development scores is kept.
        top: N-grams kept of each token and side.
        orders: Lengths of the n-grams; DenSPI+SPARC's table of ablations adds trigrams.
        rows: Scored rows of each set in the table.
        sets: The sets of the table; empty: all.
    """

    data: Path
    work: Path
    init: str = DEFAULT_ENCODER
    steps: int = 260
    top: int = 24
    orders: tuple[int, ...] = (1, 2)
    rows: int = 120
    sets: tuple[str, ...] = ()


def run(plan: Plan, *, progress: ProgressSink, stop: Stop) -> dict[str, Any]:
    """Return the table of strategies; stages whose results are there are not done again."""
    heads, kb, table = train_heads(plan, progress=progress, stop=stop), plan.work / "kb", plan.work / "strategies.json"
    if not kb.exists():
        corpus = CorpusOptions(page_files(plan.data))
        build(corpus, kb, encoder=Encoder.load(heads), filter_options=DEFAULT_FILTER, progress=progress)
    if not table.exists():
        found = measure(Config(kb, str(heads), plan.data, plan.work / "scratch", plan.sets, plan.rows))
        table.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        (plan.work / "strategies.md").write_text(markdown(found), encoding="utf-8")
    figures: dict[str, Any] = json.loads(table.read_text(encoding="utf-8"))
    return figures


def train_heads(plan: Plan, *, progress: ProgressSink, stop: Stop) -> Path:
    """Return the encoder with sparse heads, trained unless it is there."""
    heads = plan.work / NAME
    if not heads.exists():
        trained = train_model(sparse_recipe(plan), heads, resume=True, progress=progress, stop=stop)
        print(json.dumps(trained.facts()), flush=True)
    return heads


def sparse_recipe(plan: Plan) -> SparseRecipe:
    """Return how the heads are trained."""
    scratch = plan.work / "dev"
    scratch.mkdir(parents=True, exist_ok=True)
    train = tuple(path for name in PHRASE_SETS if (path := plan.data / f"{name}.train.jsonl.gz").exists())
    dev = (path for name in PHRASE_SETS if (path := plan.data / f"{name}.dev.jsonl.gz").exists())
    halves = [half_rows(path, "choose", PHRASE_ROWS, scratch) for path in dev]
    data = DataSection(
        train=train,
        dev=tuple(path for path in halves if path.stat().st_size),
        pages=page_files(plan.data),
        exclude_pages=plan.data / "unseen_pages.txt",
    )
    recipe = SparseRecipe(data=data, model=SparseModelOptions(init=plan.init, top=plan.top, orders=plan.orders))
    every = max(1, plan.steps // 4)
    return replace(recipe, loop=replace(recipe.loop, max_steps=plan.steps, evaluate_every_steps=every))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the recipe."""
    set_thread_defaults()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of KILT files")
    parser.add_argument("--work", type=Path, required=True, help="folder for all results")
    parser.add_argument("--steps", type=int, default=Plan.steps, help="optimiser steps")
    parser.add_argument("--rows", type=int, default=Plan.rows, help="scored rows of each set")
    parser.add_argument("--orders", default="1,2", help="lengths of n-grams, separated by commas")
    parser.add_argument("--heads-only", action="store_true", help="stop when the heads are trained")
    parser.add_argument("--sets", default="", help="of the table, separated by commas; by default all")
    given = parser.parse_args(arguments)
    sets = tuple(filter(None, given.sets.split(",")))
    orders = tuple(int(each) for each in given.orders.split(","))
    plan = Plan(given.data, given.work, steps=given.steps, orders=orders, rows=given.rows, sets=sets)
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        if given.heads_only:
            print(train_heads(plan, progress=progress, stop=stop))
        else:
            print(markdown(run(plan, progress=progress, stop=stop)))


if __name__ == "__main__":
    main()
