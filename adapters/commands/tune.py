"""The command `tune`: a query encoder for a task, learned on the index as it is and stored with the knowledge base."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from adapters.tasks.task import Task
    from adapters.tuning.tuning import TuneRequest
    from adapters.tuning.tuning_scores import Measure, Signals
    from kbengine.terminal.console import Output

F = TypeVar("F", bound=Callable[..., Any])
TASK_NAMES = ("question", "slot-filling", "entity-linking", "dialogue")
FILE = click.Path(path_type=Path)

_SECTION_OF = {
    "parameters": "parameters.parameters",
    "rank": "parameters.rank",
    "epochs": "loop.epochs",
    "batch_size": "loop.batch_size",
    "accumulate": "loop.accumulate",
    "max_steps": "loop.max_steps",
    "learning_rate": "loop.optimizer.learning_rate",
    "seed": "loop.seed",
    "device": "loop.device",
    "patience": "loop.patience",
    "evaluate_every": "loop.evaluate_every_steps",
}
"""Where in the options each option of the command line belongs; the others keep their names."""


def tuning_options(function: F) -> F:
    """Return the command with what `TuningOptions` holds; `--set` reaches the rest."""
    for option in (
        click.option("--recipe", type=FILE, help="A TOML file of options; the command line overrides it."),
        click.option("--set", "settings", multiple=True, metavar="OPTION=VALUE", help="Any option of docs/tuning.md."),
        click.option("--evaluate-every", type=int, help="Steps between development scores; by default an epoch."),
        click.option("--patience", type=int, help="Stop after so many development scores that were no better."),
        click.option("--device", help="auto, cpu, cuda or cuda:N."),
        click.option("--seed", type=int, help="Of the order of rows and of draws."),
        click.option("--learning-rate", type=float, help="The highest, after the warm-up; 3e-5 by default."),
        click.option("--max-steps", type=int, help="Stop after so many steps."),
        click.option("--accumulate", type=int, help="Batches whose gradients are averaged before a step."),
        click.option("--batch-size", type=int, help="Rows a batch; 12 by default."),
        click.option("--epochs", type=int, help="Times that every row is seen; 5 by default."),
        click.option("--rows-per-epoch", type=int, help="Rows of an epoch; by default as many as there are."),
        click.option(
            "--mixing", type=click.Choice(["proportional", "root", "equal"]), help="How files share an epoch."
        ),
        click.option("--kl", type=float, help="Weight of staying close to the start's scores (KL)."),
        click.option("--l2", type=float, help="Weight of staying close to the start's weights (L2)."),
        click.option("--refresh-steps", type=int, help="Steps between renewals of the retrieving encoder; 1."),
        click.option("--retrieval", type=click.Choice(["dense", "fused", "both"]), help="Candidates; both by default."),
        click.option("--scores", type=click.Choice(["phrase", "fused", "both"]), help="Of candidates; phrase."),
        click.option("--top-k", type=int, help="Candidates a row and way of retrieval; 100 by default."),
        click.option("--rank", type=int, help="LoRA's rank; 8 by default."),
        click.option("--parameters", type=click.Choice(["full", "heads", "lora"]), help="What is tuned; full."),
        click.option("--separate-ends", is_flag=True, default=None, help="Add the loss of starts and of ends alone."),
        click.option("--loss", type=click.Choice(["phrase", "doc", "passage", "joint", "task"]), required=True),
    ):
        function = option(function)
    return function


@click.command()
@click.option("--kb", type=FILE, required=True, envvar="KBENGINE_KB", help="The knowledge base.")
@click.option("--name", required=True, help="What the tuned encoder is called: 'kbengine query --encoder NAME'.")
@click.option("--train", multiple=True, required=True, type=FILE, help="KILT rows to learn from; repeat it.")
@click.option("--task", "tasks", multiple=True, type=click.Choice(TASK_NAMES), help="Of all --train, or of each.")
@click.option("--dev", multiple=True, type=FILE, help="KILT rows that decide which weights are best; repeat it.")
@click.option("--dev-task", "dev_tasks", multiple=True, type=click.Choice(TASK_NAMES), help="Likewise, of --dev.")
@click.option("--limit", type=int, help="Use at most so many rows of each --train file.")
@click.option("--dev-limit", type=int, default=500, show_default=True, help="And of each --dev file.")
@click.option(
    "--measure", type=click.Choice(["em", "rprec", "kilt_em", "mean"]), help="The development score; by the loss."
)
@click.option("--signals", type=click.Choice(["fused", "phrase", "both"]), default="both", show_default=True)
@tuning_options
@click.option("--calibrate/--no-calibrate", default=True, show_default=True, help="Fit weights and probabilities too.")
@click.option("--run", type=FILE, help="Log, checkpoints and curves; KB.tuning/NAME by default.")
@click.option("--overwrite", is_flag=True, help="Replace the encoder of that name.")
@click.option("--resume", is_flag=True, help="Go on with the interrupted run of the same options.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def tune(kb: Path, name: str, as_json: bool, **given: Any) -> None:
    """Tune the query encoder for a task on a knowledge base whose index stays as it is.

    \b
    Examples:
      kbengine tune --kb my-kb --task entity-linking --train el.jsonl --dev el-dev.jsonl --loss doc --name linker
      kbengine tune --kb my-kb --train nq.jsonl --train trex.jsonl --loss phrase --mixing root --name general
    """
    from adapters.tuning.tuning import tune_files
    from kbengine.learning.loop.interruption import stop_on_interrupt
    from kbengine.progress import progress_for_terminal
    from kbengine.terminal.console import Output

    request = tune_request(kb, name, **given)
    with progress_for_terminal(quiet=as_json) as progress, stop_on_interrupt() as stop:
        facts = tune_files(request, progress=progress, stop=stop, notice=lambda text: click.echo(text, err=True))
    show_tuned(Output(sys.stdout, as_json=as_json), facts)


def tune_request(
    kb: Path,
    name: str,
    *,
    train: tuple[Path, ...],
    tasks: tuple[Task, ...],
    dev: tuple[Path, ...],
    dev_tasks: tuple[Task, ...],
    limit: int | None,
    dev_limit: int | None,
    measure: Measure | None,
    signals: Signals,
    calibrate: bool,
    run: Path | None,
    overwrite: bool,
    resume: bool,
    recipe: Path | None,
    settings: tuple[str, ...],
    **given: Any,
) -> TuneRequest:
    """Return what the command line asks for; the rest of its options are those of `TuningOptions`."""
    from adapters.tuning.tuning import TuneRequest
    from adapters.tuning.tuning_files import task_files
    from adapters.tuning.tuning_scores import ScoreOptions, usual_measure
    from kbengine.learning.phrases.recipe import parse_override
    from kbengine.learning.tuning.options import read_tuning_options

    chosen = [(_SECTION_OF.get(option, option), value) for option, value in given.items() if value is not None]
    options = read_tuning_options(recipe, [*chosen, *(parse_override(each) for each in settings)])
    one_task = tasks[:1] if len(set(tasks)) == 1 else ()
    return TuneRequest(
        kb=kb,
        name=name,
        train=tuple(task_files(train, tasks)),
        dev=tuple(task_files(dev, dev_tasks or one_task)),
        limit=limit,
        dev_limit=dev_limit,
        score=ScoreOptions(measure or usual_measure(options.loss), signals),
        options=options,
        calibrate=calibrate,
        run=run,
        overwrite=overwrite,
        resume=resume,
    )


def show_tuned(output: Output, facts: dict[str, Any]) -> None:
    """Write what came of it: facts, and for people a table of the development figures before and after."""
    if output.as_json:
        output.record(facts)
        return
    figures = facts.pop("development")
    output.facts(facts)
    if figures:
        output.line()
        rows = [
            (name, f"{each['before']:.1f}", f"{each['after']:.1f}", f"{each['after'] - each['before']:+.1f}")
            for name, each in figures.items()
        ]
        output.table(("development set, signals, measure (%)", "before", "after", "change"), rows)
    if facts["stored"]:
        output.line(f"next: kbengine query --kb KB --encoder {facts['encoder']} …")
    elif not facts["taught"]:
        output.line(
            "no row had a right candidate, so nothing was learned and no encoder stored; 'phrase' and 'joint' want "
            "answers that stand in the texts: tune with --loss doc, or see whether the gold pages are in the "
            "knowledge base"
        )
    else:
        output.line("nothing beat the start on the development set: no encoder was stored")
