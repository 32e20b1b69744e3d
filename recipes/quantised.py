"""Quantisation-aware tuning: what a code loses in passage recall, and what tuning the query encoder on it wins back.

For each kind of code the int8 vectors are dropped, so that every score comes from decoded codes. Compared with ranking
by every int8 vector ("exact"), on development rows: the code alone, after tuning on it, the same tuned encoder on the
exact index, and an encoder tuned on the exact index. The last two tell what tuning gains as such from what it repairs.

    python -m recipes.quantised --kb KB --scratch DIR --data DIR [--kinds opq48,opq16] [--minutes 10]

The knowledge base is read only. Cells that are done are kept in the scratch directory: run it again to go on.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from adapters.kilt.predicting import task_of_file
from adapters.tuning.tuning import TuneRequest, tune_files
from adapters.tuning.tuning_files import TaskFile
from adapters.tuning.tuning_scores import ScoreOptions
from benchmarks.kilt_sets import data_folder, set_files
from benchmarks.measurement import RESULTS, machine
from benchmarks.ranking_scores import WAYS, RankedSet, RowScores, figures_of, rank_rows, with_macro
from kbengine.build.reindexing import ReindexOptions, reindex
from kbengine.encoders.encoder import Encoder
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.options import OptimizerOptions
from kbengine.learning.tuning.options import TuningLoop, TuningOptions
from kbengine.search.query import Effort
from storage.durable import write_durably

SETS = ("squad", "newwiki", "qed", "nqopen", "docred", "knet")
"""Sets whose rows name paragraphs; fewrel is found nearly always and tells nothing."""
EXACT = "exact"
NAME = "for-codes"
HEADS = {"phrase": "recall@5, phrases alone", "fused": "all signals"}

Cells = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What is measured.

    Attributes:
        kb: With int8 vectors.
        scratch: Holds the coded copies and the cells.
        data: The folder of KILT sets.
        kinds: Of codes.
        rows: At most so many development rows of each set.
        ways: Of ranking.
        options: Of tuning.
        deadline: No cell is begun after it, by `time.monotonic`.
    """

    kb: Path
    scratch: Path
    data: Path
    kinds: tuple[str, ...]
    rows: int
    ways: tuple[str, ...]
    options: TuningOptions
    deadline: float

    def kb_of(self, kind: str) -> Path:
        """Return the knowledge base that ranks by these vectors, made unless it is there."""
        path = self.scratch / kind
        if path.exists():
            return path
        if kind == EXACT:  # a copy too: tuned encoders are stored with it
            linked_copy(self.kb, path)
        else:
            reindex(self.kb, ReindexOptions(ann={"kind": kind}, drop_vectors=True), out=path)
        return path


def linked_copy(source: Path, target: Path) -> None:
    """Make a copy whose segments and index files, which never change, are the same files."""
    temporary = target.with_name(f"{target.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    shutil.copytree(source, temporary, copy_function=_linked_or_copied)
    temporary.rename(target)


def _linked_or_copied(source: str, target: str) -> None:
    if Path(source).suffix in (".seg", ".ann", ".quantiser"):
        try:
            os.link(source, target)
        except OSError:  # another file system
            pass
        else:
            return
    shutil.copy2(source, target)


def cells(kinds: Sequence[str]) -> list[tuple[str, str | None]]:
    """Return the pairs (index searched, index tuned on or None) in the order of measuring."""
    pairs: list[tuple[str, str | None]] = [(EXACT, None)]
    for kind in kinds:
        pairs += [(kind, None), (kind, kind), (EXACT, kind)]
    return [*pairs, (EXACT, EXACT), *((kind, EXACT) for kind in kinds)]


def cell_name(searched: str, tuned_on: str | None) -> str:
    """Return the key of a cell."""
    return searched if tuned_on is None else f"{searched}, tuned on {tuned_on}"


def measure_cell(plan: Plan, sets: Sequence[RankedSet], searched: str, tuned_on: str | None) -> dict[str, Any]:
    """Return the scores of one index with one encoder: the figures, and each row's recall for paired comparisons."""
    encoder: Encoder | None = None
    if tuned_on is not None:
        with KnowledgeBase.open(plan.kb_of(tuned_on)) as tuned:
            encoder = tuned.encoder_for(NAME)
    effort: Effort = "exact" if searched == EXACT else "normal"
    cell: dict[str, Any] = {}
    with KnowledgeBase.open(plan.kb_of(searched)) as knowledge_base:
        info = knowledge_base.info()
        cell["stored_vectors"] = info.segment_rows
        used = info.bytes_by_use["vectors"] + info.bytes_by_use["index"]
        cell["bytes_per_vector_without_text"] = round(used / info.segment_rows, 1)
        searcher = knowledge_base.searcher(encoder)
        for way in plan.ways:
            # Comparing every vector decodes them all for each batch: larger ones cost less.
            batch = 128 if effort == "exact" else 32
            scores = {each.name: rank_rows(searcher, each, way, effort=effort, batch=batch) for each in sets}
            cell[way] = with_macro({name: figures_of(rows) for name, rows in scores.items()})
            cell[f"{way} found"] = {name: _found(rows) for name, rows in scores.items()}
    return cell


def _found(rows: Sequence[RowScores]) -> str:
    """Return a 1 for each row with a gold paragraph among the first five, else a 0."""
    return "".join("1" if row.recall else "0" for row in rows)


def tune_on(plan: Plan, kind: str, stop: Callable[[], bool]) -> dict[str, Any]:
    """Return what came of tuning on the vectors that an index of this kind serves; no development row is looked at."""
    paths = set_files(plan.data, "train", SETS).values()
    request = TuneRequest(
        kb=plan.kb_of(kind),
        name=NAME,
        train=tuple(TaskFile(path, task_of_file(path)) for path in paths),
        dev=(),
        options=plan.options,
        score=ScoreOptions(),
        calibrate=False,
        run=plan.scratch / f"run-{kind}",
        overwrite=True,
        resume=True,
    )
    facts = tune_files(request, stop=stop)
    return {name: facts[name] for name in ("rows", "steps", "first_loss", "last_loss", "last_epoch", "elapsed_s")}


def difference(cell: dict[str, Any], other: dict[str, Any], way: str) -> tuple[float, float]:
    """Return the macro of passage recall@5 less the other's, in points, and its standard error over paired rows."""
    means, variances = [], []
    for name, found in cell[f"{way} found"].items():
        changes = _bits(found) - _bits(other[f"{way} found"][name])
        means.append(100 * changes.mean())
        variances.append(1e4 * changes.var() / len(changes))
    return float(np.mean(means)), float(np.sqrt(np.sum(variances)) / len(means))


def _bits(found: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array([each == "1" for each in found], dtype=np.float64)


def ways_of(cell: dict[str, Any]) -> list[str]:
    """Return the ways of ranking that a cell was measured by."""
    return [way for way in WAYS if way in cell]


def table(done: Cells) -> str:
    """Return the cells as a Markdown table: recall@5, and the difference from the untuned exact index."""
    ways = ways_of(done[EXACT])
    heads = ["index", "tuned on", "bytes a vector", *(head for way in ways for head in (HEADS[way], "less exact"))]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    for name, cell in done.items():
        searched, _, tuned_on = name.partition(", tuned on ")
        row = [searched, tuned_on or "–", f"{cell['bytes_per_vector_without_text']:.0f}"]
        for way in ways:
            mean, error = difference(cell, done[EXACT], way)
            row += [f"{cell[way]['macro']['recall@5']:.1f}", "–" if name == EXACT else f"{mean:+.1f} ± {error:.1f}"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def differences(done: Cells) -> dict[str, dict[str, dict[str, float]]]:
    """Return for each cell and way the difference from the untuned exact index and its standard error."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name, cell in done.items():
        for way in ways_of(cell):
            mean, error = difference(cell, done[EXACT], way)
            found.setdefault(name, {})[way] = {"points": round(mean, 2), "standard_error": round(error, 2)}
    return found


def run(plan: Plan) -> tuple[Cells, dict[str, Any], bool]:
    """Return the cells that are done, what tuning did, and whether all are done."""
    plan.scratch.mkdir(parents=True, exist_ok=True)
    sets = [RankedSet.read(path, limit=plan.rows) for path in set_files(plan.data, "dev", SETS).values()]
    store = plan.scratch / "cells.json"
    state = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {"cells": {}, "tuned": {}}
    for searched, tuned_on in cells(plan.kinds):
        name = cell_name(searched, tuned_on)
        if name in state["cells"]:
            continue
        if time.monotonic() > plan.deadline:
            return state["cells"], state["tuned"], False
        if tuned_on is not None and tuned_on not in state["tuned"]:
            try:
                state["tuned"][tuned_on] = tune_on(plan, tuned_on, lambda: time.monotonic() > plan.deadline)
            except KeyboardInterrupt:
                return state["cells"], state["tuned"], False
        state["cells"][name] = measure_cell(plan, sets, searched, tuned_on)
        write_durably(store, [json.dumps(state, indent=1).encode()], replace=True)
        macros = {way: state["cells"][name][way]["macro"]["recall@5"] for way in plan.ways}
        click.echo(f"{name}: {macros}")
    return state["cells"], state["tuned"], True


@click.command()
@click.option("--kb", type=click.Path(path_type=Path), required=True, help="With int8 vectors; read only.")
@click.option("--scratch", type=click.Path(path_type=Path), required=True)
@click.option("--data", type=click.Path(path_type=Path), help="The folder of KILT sets (or KBENGINE_KILT_DATA).")
@click.option("--kinds", default="opq48,opq16", show_default=True)
@click.option("--ways", default=",".join(WAYS), show_default=True, help="Of ranking.")
@click.option("--rows", type=int, default=250, show_default=True, help="Development rows of each set.")
@click.option("--steps", type=int, default=300, show_default=True, help="Of tuning.")
@click.option("--batch-size", type=int, default=24, show_default=True)
@click.option("--learning-rate", type=float, default=5e-5, show_default=True)
@click.option("--top-k", type=int, default=100, show_default=True)
@click.option("--minutes", type=float, default=float("inf"), help="Stop after them; run it again to go on.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "quantised.json", show_default=True)
def main(
    kb: Path,
    scratch: Path,
    data: Path | None,
    kinds: str,
    ways: str,
    rows: int,
    steps: int,
    batch_size: int,
    learning_rate: float,
    top_k: int,
    minutes: float,
    out: Path,
) -> None:
    """Measure what codes lose and what tuning on them wins back."""
    loop = TuningLoop(epochs=1, batch_size=batch_size, optimizer=OptimizerOptions(learning_rate=learning_rate))
    options = TuningOptions(
        loss="passage", retrieval="dense", top_k=top_k, mixing="root", rows_per_epoch=steps * batch_size, loop=loop
    )
    deadline = time.monotonic() + 60 * minutes
    folder = data_folder(data)
    plan = Plan(kb, scratch, folder, tuple(kinds.split(",")), rows, tuple(ways.split(",")), options, deadline)
    done, tuned, complete = run(plan)
    if EXACT not in done:
        click.echo("time is up; run it again to go on")
        return
    click.echo(table(done))
    shown = {
        name: {key: each for key, each in cell.items() if not key.endswith(" found")} for name, cell in done.items()
    }
    record = {
        "recipe": "quantised",
        "complete": complete,
        "dev_rows": {name: len(found) for name, found in done[EXACT][f"{ways_of(done[EXACT])[0]} found"].items()},
        "tuning": {"options": options.to_json(), "runs": tuned},
        "cells": shown,
        "recall@5 less exact": differences(done),
        "machine": machine(),
    }
    write_durably(out, [(json.dumps(record, indent=2) + "\n").encode()], replace=True)
    click.echo(f"written to {out}" + ("" if complete else "; cells are missing, run it again to go on"))


if __name__ == "__main__":
    main()
