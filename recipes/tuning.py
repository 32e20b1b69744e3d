"""Query-side fine-tuning on the KILT sets: development figures before and after, beside what was asked for.

Runs in the time it is given: where the machine is too slow for all rows, an epoch has fewer, and the table says so.

    python -m recipes.tuning --kb KB --data DIR --minutes 110
    python -m recipes.tuning --kb KB --data DIR --only linking --minutes 10 --rows 200 --dev-rows 120
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from adapters.tasks import Task
from adapters.tuning import TuneRequest, tune_files
from adapters.tuning_files import TaskFile, read_gold_rows
from adapters.tuning_scores import Measure, ScoreOptions
from benchmarks.kilt_sets import data_folder
from benchmarks.measurement import RESULTS, machine
from kbengine.knowledge_base import KnowledgeBase
from kbengine.progress import progress_for_terminal
from kbengine.training.options import OptimizerOptions
from kbengine.tuning.deltas import PARAMETERS, ParameterOptions, Parameters
from kbengine.tuning.losses import Loss
from kbengine.tuning.options import TuningLoop, TuningOptions

PROBE_QUERIES = 32
LEAST_ROWS = 24
"""Rows of an epoch, however little time there is."""


@dataclass(frozen=True)
class Experiment:
    """One line of the table.

    Attributes:
        name: Of the tuned encoder too.
        task: Of all its files.
        loss: What is right.
        train: Sets learned from.
        dev: Sets scored on; those not in `train` tell what transfer loses.
        measure: The figure that the goal is about.
        goal: Points wanted of the mean over `dev`: by phrases alone, and fused.
        kl: Weight of staying close to the start.
    """

    name: str
    task: Task
    loss: Loss
    train: tuple[str, ...]
    dev: tuple[str, ...]
    measure: Measure
    goal: tuple[float, float]
    kl: float = 0.0


_LINKS = ("el_wikilinks", "el_human", "el_conel")
_LINKS_DEV = ("el_wikilinks", "el_conel", "el_human", "el_news")
_SLOTS = ("docred", "fewrel", "knet")
_QUESTIONS = ("squad", "newwiki", "qed", "nqopen")

EXPERIMENTS = (
    Experiment("linking", "entity-linking", "doc", _LINKS, _LINKS_DEV, "rprec", (8.0, 4.0)),
    Experiment("linking-by-phrase", "entity-linking", "phrase", _LINKS, _LINKS_DEV, "rprec", (0.0, 0.0)),
    Experiment(
        "dialogue",
        "dialogue",
        "doc",
        ("topicalchat",),
        ("topicalchat", "cmudog", "inscit"),
        "rprec",
        (0.0, 5.0),
        kl=0.1,
    ),
    Experiment("questions", "question", "phrase", _QUESTIONS, _QUESTIONS, "em", (1.5, 1.0)),
    Experiment("slots", "slot-filling", "phrase", _SLOTS, _SLOTS, "kilt_em", (0.0, 0.0)),
    Experiment("slots-by-doc", "slot-filling", "doc", _SLOTS, _SLOTS, "kilt_em", (0.0, 0.0)),
)


@dataclass(frozen=True)
class Budget:
    """What one experiment may take: seconds, rows of a training file, rows of a development file, epochs."""

    seconds: float
    rows: int | None
    dev_rows: int
    epochs: int


def run_experiment(
    experiment: Experiment, kb: Path, data: Path, budget: Budget, parameters: Parameters, rate: float
) -> dict[str, Any]:
    """Return the figures of one experiment before and after, and how large a run they are from."""
    train = tuple(TaskFile(data / f"{name}.train.jsonl.gz", experiment.task) for name in experiment.train)
    dev = tuple(TaskFile(data / f"{name}.dev.jsonl.gz", experiment.task) for name in experiment.dev)
    n_rows = sum(len(read_gold_rows(file, limit=budget.rows)) for file in train)
    n_dev = sum(len(read_gold_rows(file, limit=budget.dev_rows)) for file in dev)
    search_s = seconds_a_search(kb, dev[0])
    # Before training, after every epoch, each row by two ways of ranking; a row to learn from is searched for twice.
    affordable = (budget.seconds / search_s - 2 * n_dev * (budget.epochs + 1)) / (2 * budget.epochs)
    rows_per_epoch = max(LEAST_ROWS, min(n_rows, int(affordable)))
    loop = TuningLoop(
        epochs=budget.epochs,
        log_every_steps=5,
        optimizer=OptimizerOptions(learning_rate=rate),
    )
    options = TuningOptions(
        loss=experiment.loss,
        kl=experiment.kl,
        mixing="root",
        rows_per_epoch=rows_per_epoch,
        parameters=ParameterOptions(parameters),
        loop=loop,
    )
    with tempfile.TemporaryDirectory(prefix="kbengine-") as scratch, progress_for_terminal() as progress:
        request = TuneRequest(
            kb=kb,
            name=f"recipe-{experiment.name}",
            train=train,
            dev=dev,
            options=options,
            score=ScoreOptions(experiment.measure),
            limit=budget.rows,
            dev_limit=budget.dev_rows,
            calibrate=False,
            run=Path(scratch) / "run",
            overwrite=True,
        )
        facts = tune_files(request, progress=progress)
        curve = _curve(Path(scratch) / "run")
    return {
        "experiment": dataclasses.asdict(experiment),
        "parameters": parameters,
        "learning_rate": rate,
        "rows": n_rows,
        "rows_per_epoch": rows_per_epoch,
        "epochs": budget.epochs,
        "dev_rows": n_dev,
        "seconds_a_search": round(search_s, 4),
        "elapsed_s": facts["elapsed_s"],
        "stored": facts["stored"],
        "best_step": facts["best_step"],
        "steps": facts["steps"],
        "last_epoch": facts["last_epoch"],
        "development": {
            name: {when: round(value, 2) for when, value in each.items()} for name, each in facts["development"].items()
        },
        "curve": curve,
    }


def seconds_a_search(kb: Path, file: TaskFile) -> float:
    """Return the time of a search on this machine as it is loaded now."""
    rows = read_gold_rows(file, limit=PROBE_QUERIES)
    with KnowledgeBase.open(kb) as knowledge_base:
        queries = [row.query for row in rows]
        knowledge_base.search(queries[:4], k=10, unit="document", truncate=True)
        began = time.perf_counter()
        knowledge_base.search(queries, k=10, unit="document", truncate=True)
        return (time.perf_counter() - began) / len(queries)


def _curve(run: Path) -> list[dict[str, Any]]:
    """Return the mean development figures over the steps."""
    from kbengine.training.journal import read_log

    return [
        {"step": record["step"], **{n: round(v, 2) for n, v in record["measures"].items() if n.startswith("mean")}}
        for record in read_log(run)
        if record["kind"] == "evaluation"
    ]


def table(results: Sequence[dict[str, Any]]) -> str:
    """Return the figures as a Markdown table: the mean over an experiment's development sets, in percent."""
    lines = [
        "| experiment | loss | rows × epochs | phrases alone | wanted | fused | wanted |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for result in results:
        experiment, cells = result["experiment"], []
        for signals, goal in zip(("phrase", "fused"), experiment["goal"], strict=True):
            figure = result["development"][f"mean {signals} {experiment['measure']}"]
            change = figure["after"] - figure["before"]
            cells += [f"{figure['before']:.1f} → {figure['after']:.1f} ({change:+.1f})", f"{goal:+.1f}"]
        size = f"{result['rows_per_epoch']:,} of {result['rows']:,} × {result['epochs']}"
        lines.append(f"| {experiment['name']} | {experiment['loss']} | {size} | {' | '.join(cells)} |")
    return "\n".join(lines)


@click.command()
@click.option("--kb", type=click.Path(path_type=Path), required=True, help="A knowledge base of all pages; changed.")
@click.option("--data", type=click.Path(path_type=Path), help="The folder of KILT sets (or KBENGINE_KILT_DATA).")
@click.option("--only", multiple=True, type=click.Choice([each.name for each in EXPERIMENTS]))
@click.option("--minutes", type=float, default=110.0, show_default=True, help="For all experiments together.")
@click.option("--rows", type=int, help="At most so many rows of each training file.")
@click.option("--dev-rows", type=int, default=250, show_default=True, help="And of each development file.")
@click.option("--epochs", type=int, default=2, show_default=True)
@click.option("--parameters", type=click.Choice(PARAMETERS), default="full", show_default=True)
@click.option("--learning-rate", type=float, default=5e-5, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "tuning.json", show_default=True)
def main(
    kb: Path,
    data: Path | None,
    only: tuple[str, ...],
    minutes: float,
    rows: int | None,
    dev_rows: int,
    epochs: int,
    parameters: Parameters,
    learning_rate: float,
    out: Path,
) -> None:
    """Tune on each experiment's rows, print the table and write the figures."""
    folder = data_folder(data)
    chosen = [each for each in EXPERIMENTS if not only or each.name in only]
    began, results = time.monotonic(), []
    for i, experiment in enumerate(chosen):
        seconds = (60 * minutes - (time.monotonic() - began)) / (len(chosen) - i)
        budget = Budget(seconds, rows, dev_rows, epochs)
        results.append(run_experiment(experiment, kb, folder, budget, parameters, learning_rate))
        record = {"machine": machine(), "minutes": minutes, "results": results}
        out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        click.echo(table(results))
    smaller = [each for each in results if each["rows_per_epoch"] < each["rows"] or rows is not None]
    if smaller:
        click.echo(f"a smaller run: {len(smaller)} of {len(results)} experiments saw fewer rows than there are")


if __name__ == "__main__":
    main()
