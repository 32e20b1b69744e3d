"""Query-side fine-tuning on the KILT sets: development figures before and after.

Runs in the time it is given: where the machine is too slow for all rows, an epoch has fewer, and the results say so.
Results are added to those of the file, so that the experiments may run one by one.

    python -m recipes.tuning --kb KB --data DIR --minutes 110
    python -m recipes.tuning --kb KB --data DIR --only linking --minutes 10 --dev-rows 120 --figure-rows 250
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from adapters.tuning.tuning import TuneRequest, tune_files
from adapters.tuning.tuning_files import TaskFile, read_gold_rows
from adapters.tuning.tuning_scores import ScoreOptions
from benchmarks.kilt_sets import data_folder
from benchmarks.measurement import RESULTS, machine
from kbengine.knowledge_base import KnowledgeBase
from kbengine.learning.loop.journal import read_log
from kbengine.learning.loop.recipe import parse_override
from kbengine.learning.tuning.options import TuningOptions, read_tuning_options
from kbengine.progress import progress_for_terminal
from recipes.tuning_experiments import COMMON, EXPERIMENTS, Experiment
from recipes.tuning_figures import Figures, figures_of, table
from recipes.tuning_plot import draw

PROBE_QUERIES = 32
SEARCHES_A_ROW = 1.5
"""What a row to learn from costs (measured): its encoding, forth and back, and a search with low effort."""
EVALUATIONS = 5
"""Before the first step, as often as an experiment says, and the figures at the end."""
LEAST_ROWS = 24
"""Rows of an epoch, however little time there is."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """What one experiment may take: seconds (None: as long as it takes), and development rows to choose the best by."""

    seconds: float | None
    dev_rows: int


def run_experiment(
    experiment: Experiment, kb: Path, data: Path, budget: Budget, options: TuningOptions
) -> dict[str, Any]:
    """Return how one tuning went, and how large a run it was; the encoder is stored as `recipe-NAME`."""
    train, dev = experiment.files(data, "train"), experiment.files(data, "dev")
    n_rows = sum(len(read_gold_rows(file)) for file in train)
    n_dev = sum(len(read_gold_rows(file, limit=budget.dev_rows)) for file in dev)
    wanted, epochs = options.rows_per_epoch or n_rows, options.loop.epochs
    rows_per_epoch = wanted
    if budget.seconds is not None:
        search_s = seconds_a_search(kb, dev[0])
        affordable = (budget.seconds / search_s - EVALUATIONS * n_dev) / (SEARCHES_A_ROW * epochs)
        rows_per_epoch = max(LEAST_ROWS, min(wanted, int(affordable)))
    with tempfile.TemporaryDirectory(prefix="kbengine-") as scratch, progress_for_terminal() as progress:
        request = TuneRequest(
            kb=kb,
            name=f"recipe-{experiment.name}",
            train=train,
            dev=dev,
            options=dataclasses.replace(options, rows_per_epoch=rows_per_epoch),
            score=ScoreOptions(experiment.measure),
            dev_limit=budget.dev_rows,
            calibrate=False,
            run=Path(scratch) / "run",
            overwrite=True,
        )
        facts = tune_files(request, progress=progress)
        curve = _curve(Path(scratch) / "run")
    return {
        "experiment": dataclasses.asdict(experiment),
        "options": options.to_json(),
        "rows": n_rows,
        "rows_per_epoch": rows_per_epoch,
        "fewer_rows_for_lack_of_time": rows_per_epoch < wanted,
        "dev_rows": n_dev,
        "elapsed_s": facts["elapsed_s"],
        "stored": facts["stored"],
        "best_step": facts["best_step"],
        "steps": facts["steps"],
        "last_epoch": facts["last_epoch"],
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
    """Return all development figures over the steps."""
    return [
        {"step": record["step"], **{name: round(value, 2) for name, value in record["measures"].items()}}
        for record in read_log(run)
        if record["kind"] == "evaluation"
    ]


def show(record: dict[str, Any]) -> str:
    """Return the table of all results that have figures."""
    tuned = {
        name: (result["experiment"]["dev"], _shown(result["experiment"]["measure"]), result["figures"])
        for name, result in record["results"].items()
        if result.get("figures")
    }
    return table(record["start"], tuned)


def _shown(measure: str) -> str:
    return "rprec" if measure == "mean" else measure


@click.command()
@click.option("--kb", type=click.Path(path_type=Path), required=True, help="A knowledge base of all pages; changed.")
@click.option("--data", type=click.Path(path_type=Path), help="The folder of KILT sets (or KBENGINE_KILT_DATA).")
@click.option("--only", multiple=True, type=click.Choice([each.name for each in EXPERIMENTS]))
@click.option("--minutes", type=float, help="For all experiments together; by default as long as they take.")
@click.option("--dev-rows", type=int, default=100, show_default=True, help="Of each file, to choose the weights by.")
@click.option("--figure-rows", type=int, default=250, show_default=True, help="Of each file, for the figures.")
@click.option("--no-figures", is_flag=True, help="Only tune: the curves are all there is.")
@click.option("--figures-only", is_flag=True, help="Only the figures of what was tuned before.")
@click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Another option than the recipe's.")
@click.option("--suffix", default="", help="Added to the name of results and encoders: for runs with --set.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "tuning.json", show_default=True)
def main(
    kb: Path,
    data: Path | None,
    only: tuple[str, ...],
    minutes: float | None,
    dev_rows: int,
    figure_rows: int,
    no_figures: bool,
    figures_only: bool,
    settings: tuple[str, ...],
    suffix: str,
    out: Path,
) -> None:
    """Tune on each experiment's rows, print the table and write the figures."""
    folder = data_folder(data)
    chosen = [each for each in EXPERIMENTS if not only or each.name in only]
    record = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    record = {"start": {}, "results": {}} | record
    given = [parse_override(each) for each in settings]
    began = time.monotonic()
    for i, experiment in enumerate(chosen):
        options = read_tuning_options(None, [*COMMON, ("loss", experiment.loss), *experiment.options, *given])
        left = None if minutes is None else 60 * minutes - (time.monotonic() - began)
        seconds = None if left is None else left / (len(chosen) - i)
        named = dataclasses.replace(experiment, name=experiment.name + suffix)
        if not figures_only:
            result = run_experiment(named, kb, folder, Budget(seconds, dev_rows), options)
            record["results"][named.name] = result | {"machine": machine()}
            _write(record, out)
        if not no_figures:
            add_figures(record, named, kb, folder, figure_rows)
            _write(record, out)
            click.echo(show(record))
    draw(record, out.with_suffix(".png"))
    smaller = [name for name, each in record["results"].items() if each["fewer_rows_for_lack_of_time"]]
    if smaller:
        click.echo(f"a smaller run: an epoch of {', '.join(smaller)} had fewer rows than the recipe says")


def add_figures(record: dict[str, Any], experiment: Experiment, kb: Path, folder: Path, rows: int | None) -> None:
    """Add the figures of the start, where they are not known, and those of the tuned encoder."""
    result = record["results"][experiment.name]
    encoder = f"recipe-{experiment.name}"
    with KnowledgeBase.open(kb) as knowledge_base, progress_for_terminal() as progress:
        unknown = [name for name in experiment.dev if name not in record["start"]]
        if unknown:
            record["start"] |= figures_of(knowledge_base, None, unknown, folder, rows=rows, progress=progress)
        figures: Figures = {name: record["start"][name] for name in experiment.dev}
        if result["stored"]:
            figures = figures_of(knowledge_base, encoder, experiment.dev, folder, rows=rows, progress=progress)
        result["figures"] = figures


def _write(record: dict[str, Any], out: Path) -> None:
    out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
