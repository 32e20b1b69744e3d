"""What query-side tuning makes of an encoder that has seen no row of a task: learning curves by rows, a papers' claim.

`--start` was trained without any row of slot filling, entity linking and dialogue, `--full` alike but on all rows. The
first is tuned on 1,000, 5,000 and all rows of each task over one index, which stays as it is; the second, with an index
of its own, is what training everything anew would give.

    python -m recipes.transfer --start ENCODER --full ENCODER --work DIR --data DIR [--minutes 10]

Cells that are done are kept in the work directory: run it again to go on.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from adapters.tuning.tuning import TuneRequest, tune_files
from adapters.tuning.tuning_files import TaskFile
from adapters.tuning.tuning_scores import ScoreOptions
from benchmarks.kilt_sets import data_folder, page_files, set_files
from benchmarks.measurement import RESULTS, machine
from benchmarks.ranking_scores import RankedSet, rank_sets
from kbengine.build.builder import CorpusOptions, build
from kbengine.build.filtering import DEFAULT_FILTER
from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.options import OptimizerOptions
from kbengine.learning.tuning.options import TuningLoop, TuningOptions
from recipes.learning_curves import SUBJECTS, Subject, drawn, plot, table
from storage.durable import write_durably

SIZES = (0, 1000, 5000)
"""Rows tuned on; all of them come after these."""
VISITS = 3000
"""A small set is gone through several times, until about so many rows were seen."""
SHARED_PAGES = "shared"
"""The page file that sets have in common."""
LARGE_PAGES = "wiki"
"""The page file of which only a part is taken."""
IMAGES = Path(__file__).parent.parent / "docs" / "images"


@dataclass(frozen=True)
class Cell:
    """A subject with the encoder: "full", or "start" tuned on so many rows."""

    subject: Subject
    encoder: str
    rows: int

    @property
    def name(self) -> str:
        """Its key among the results."""
        return f"{self.subject.task} {self.encoder} {self.rows}"


@dataclass(frozen=True)
class Plan:
    """What is measured, where, and until when (by `time.monotonic`)."""

    start: str
    full: str
    work: Path
    data: Path
    dev_rows: int
    pages: int
    learning_rate: float
    batch_size: int
    top_k: int
    tasks: tuple[str, ...]
    deadline: float

    @property
    def subjects(self) -> list[Subject]:
        """The subjects of the tasks asked for."""
        return [subject for subject in SUBJECTS if subject.task in self.tasks]

    def is_over(self) -> bool:
        """Return whether time is up."""
        return time.monotonic() > self.deadline


def sizes(n_rows: int) -> list[int]:
    """Return the numbers of rows to tune on: the usual ones that are fewer than there are, and all."""
    return [*(size for size in SIZES if size < n_rows), n_rows]


def epochs_of(n_rows: int) -> int:
    """Return how often so many rows are gone through."""
    return max(1, round(VISITS / n_rows))


def read_lines(paths: Iterable[Path]) -> list[str]:
    """Return the lines of gzipped files."""
    lines = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines += list(file)
    return lines


def gold_pages(lines: Iterable[str]) -> set[str]:
    """Return the ids of all gold pages of KILT rows."""
    outputs = (output for line in lines for output in json.loads(line)["output"])
    entries = (entry for output in outputs for entry in output.get("provenance") or ())
    return {str(entry["wikipedia_id"]).strip() for entry in entries if "wikipedia_id" in entry}


def knowledge_source(plan: Plan) -> tuple[Path, ...]:
    """Return the page files of the sets, and of the large one the gold pages of all rows and some thousands more."""
    files = {path.name.partition(".")[0]: path for path in page_files(plan.data)}
    names = {name for subject in plan.subjects for name in (*subject.train, *subject.dev)}
    part = plan.work / "part.pages.jsonl"
    if not part.exists():
        gold: set[str] = set()
        for split in ("train", "dev"):
            there = [name for name in names if (plan.data / f"{name}.{split}.jsonl.gz").exists()]
            gold |= gold_pages(read_lines(set_files(plan.data, split, tuple(there)).values()))
        pages = read_lines([files[LARGE_PAGES]])
        some = set(random.Random(0).sample(range(len(pages)), min(plan.pages, len(pages))))
        kept = [
            line for i, line in enumerate(pages) if i in some or str(json.loads(line)["wikipedia_id"]).strip() in gold
        ]
        write_durably(part, ["".join(kept).encode()])
    return (*(path for name, path in files.items() if name in {*names, SHARED_PAGES}), part)


def kb_of(plan: Plan, which: str) -> Path:
    """Return the knowledge base of the encoder "start" or "full", built unless it is there."""
    path, done = plan.work / f"kb-{which}", plan.work / f"kb-{which}.done"
    if not done.exists():
        encoder = Encoder.load(plan.start if which == "start" else plan.full)
        build(CorpusOptions(knowledge_source(plan)), path, encoder=encoder, filter_options=DEFAULT_FILTER)
        done.touch()
    return path


def training_rows(plan: Plan, subject: Subject) -> list[str]:
    """Return all training rows of a subject in a random order, always the same: smaller sets are parts of larger."""
    lines = read_lines(set_files(plan.data, "train", subject.train).values())
    random.Random(0).shuffle(lines)
    return lines


def tune_cell(plan: Plan, cell: Cell, stop: Callable[[], bool]) -> dict[str, Any]:
    """Return what came of tuning on the cell's rows; no development row is looked at, the last weights are kept."""
    rows = plan.work / f"{cell.subject.task}-{cell.rows}.jsonl"
    if not rows.exists():
        write_durably(rows, ["".join(training_rows(plan, cell.subject)[: cell.rows]).encode()])
    loop = TuningLoop(
        epochs=epochs_of(cell.rows),
        batch_size=plan.batch_size,
        optimizer=OptimizerOptions(learning_rate=plan.learning_rate),
    )
    facts = tune_files(
        TuneRequest(
            kb=kb_of(plan, "start"),
            name=tuned_name(cell),
            train=(TaskFile(rows, cell.subject.task),),
            dev=(),
            options=TuningOptions(loss=cell.subject.loss, top_k=plan.top_k, loop=loop),
            score=ScoreOptions(),
            calibrate=False,
            run=plan.work / f"run-{tuned_name(cell)}",
            overwrite=True,
            resume=True,
        ),
        stop=stop,
    )
    return {
        name: facts[name]
        for name in ("rows", "unusable_rows", "steps", "first_loss", "last_loss", "last_epoch", "elapsed_s")
    }


def tuned_name(cell: Cell) -> str:
    """Return the name of the cell's tuned encoder."""
    return f"{cell.subject.task}-{cell.rows}"


def measure_cell(plan: Plan, cell: Cell) -> dict[str, Any]:
    """Return the cell's figures by way of ranking and set."""
    paths = set_files(plan.data, "dev", cell.subject.dev).values()
    sets = [RankedSet.read(path, limit=plan.dev_rows) for path in paths]
    tuned = tuned_name(cell) if cell.encoder == "start" and cell.rows else None
    with KnowledgeBase.open(kb_of(plan, cell.encoder)) as knowledge_base:
        return {
            "dev_rows": {each.name: len(each.rows) for each in sets},
            "stored_vectors": knowledge_base.info().segment_rows,
            "documents": knowledge_base.info().documents,
            "scores": rank_sets(knowledge_base.searcher(tuned), sets),
        }


def all_cells(plan: Plan) -> list[Cell]:
    """Return the cells in the order of measuring: what is not tuned first, then the small tunings of all subjects."""
    cells = []
    for subject in plan.subjects:
        cells += [Cell(subject, "start", size) for size in sizes(len(training_rows(plan, subject)))]
        cells.append(Cell(subject, "full", 0))
    return sorted(cells, key=lambda cell: (cell.rows, cell.encoder == "full"))


def run(plan: Plan) -> tuple[dict[str, Any], bool]:
    """Return the cells that are done, and whether all are."""
    plan.work.mkdir(parents=True, exist_ok=True)
    store = plan.work / "cells.json"
    done: dict[str, Any] = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    for cell in all_cells(plan):
        if cell.name in done:
            continue
        if plan.is_over():
            return done, False
        facts: dict[str, Any] = {}
        if cell.encoder == "start" and cell.rows:
            try:
                facts = tune_cell(plan, cell, plan.is_over)
            except KeyboardInterrupt:
                return done, False
        done[cell.name] = {"task": cell.subject.task, "encoder": cell.encoder, "rows": cell.rows}
        done[cell.name] |= {"tuning": facts} | measure_cell(plan, cell)
        write_durably(store, [json.dumps(done, indent=1).encode()], replace=True)
        click.echo(f"{cell.name}: {[drawn(done[cell.name], cell.subject, way) for way in ('phrase', 'fused')]}")
    return done, True


@click.command()
@click.option("--start", required=True, help="An encoder trained on questions alone.")
@click.option("--full", required=True, help="An encoder trained likewise on all rows.")
@click.option("--work", type=click.Path(path_type=Path), required=True)
@click.option("--data", type=click.Path(path_type=Path), help="The folder of KILT sets (or KBENGINE_KILT_DATA).")
@click.option("--dev-rows", type=int, default=200, show_default=True, help="Of each development set.")
@click.option("--pages", type=int, default=3000, show_default=True, help="Of the large page file besides gold ones.")
@click.option("--learning-rate", type=float, default=1e-4, show_default=True)
@click.option("--batch-size", type=int, default=24, show_default=True)
@click.option("--top-k", type=int, default=50, show_default=True)
@click.option("--tasks", default=",".join(subject.task for subject in SUBJECTS), show_default=True)
@click.option("--minutes", type=float, default=float("inf"), help="Stop after them; run it again to go on.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "transfer.json", show_default=True)
@click.option("--images", type=click.Path(path_type=Path), default=IMAGES, show_default=True)
def main(
    start: str,
    full: str,
    work: Path,
    data: Path | None,
    dev_rows: int,
    pages: int,
    learning_rate: float,
    batch_size: int,
    top_k: int,
    tasks: str,
    minutes: float,
    out: Path,
    images: Path,
) -> None:
    """Tune the start on ever more rows of each task, and compare with training on all of them."""
    deadline = time.monotonic() + 60 * minutes
    folder = data_folder(data)
    wanted = tuple(tasks.split(","))
    plan = Plan(start, full, work, folder, dev_rows, pages, learning_rate, batch_size, top_k, wanted, deadline)
    done, complete = run(plan)
    click.echo(table(done))
    options = {"learning_rate": learning_rate, "batch_size": batch_size, "top_k": top_k, "visits": VISITS}
    cells = list(done.values())
    record = {"recipe": "transfer", "options": options, "complete": complete, "cells": cells, "machine": machine()}
    write_durably(out, [(json.dumps(record, indent=2) + "\n").encode()], replace=True)
    plot(done, [images / "transfer.png"])
    click.echo(f"written to {out}" + ("" if complete else "; time was up, run it again to go on"))


if __name__ == "__main__":
    main()
