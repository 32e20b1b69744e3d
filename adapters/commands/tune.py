"""The command `tune`: a query encoder for a task, learned on the index as it is and stored with the knowledge base."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.inputs import TASKS
from kbengine.terminal.console import Output, standard_output
from kbengine.terminal.options import json_option, kb_option, option, options

if TYPE_CHECKING:
    from adapters.tuning.tuning import TuneRequest
    from adapters.tuning.tuning_scores import Measure, Signals
    from kbengine.inputs import Task


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


tuning_options = options(
    option("--loss", ("phrase", "doc", "passage", "joint", "task"), "Minimise this loss.", required=True),
    option("--separate-ends", bool, "Add the loss of starts and of ends alone.", default=None),
    option("--parameters", ("full", "heads", "lora"), "Tune these parameters; by default full (all)."),
    option("--rank", int, "Give LoRA this rank; by default 8."),
    option("--top-k", int, "Retrieve so many candidates for each row, in each way; by default 100."),
    option("--scores", ("phrase", "fused", "both"), "Score candidates by these signals; by default phrase."),
    option("--retrieval", ("dense", "fused", "both"), "Retrieve candidates in this way; by default in both."),
    option("--refresh-steps", int, "Renew the retrieving encoder after so many steps; by default 1."),
    option(
        "--reader",
        str,
        "Follow this reader's scores of candidates too, a directory or a bundled one's name; by default none's.",
    ),
    option("--reader-weight", float, "Weigh the KL divergence from the reader's scores by this; by default 1."),
    option("--l2", float, "Weigh the squared distance from the start's weights by this; by default 0."),
    option("--kl", float, "Weigh the KL divergence from the start's scores by this; by default 0."),
    option(
        "--mixing",
        ("proportional", "root", "equal"),
        "Mix the files of an epoch in this way; by default proportional.",
    ),
    option("--rows-per-epoch", int, "Take so many rows for an epoch; by default as many as there are."),
    option("--epochs", int, "See every row so many times; by default 5."),
    option("--batch-size", int, "Take so many rows in a batch; by default 12."),
    option("--accumulate", int, "Average the gradients of so many batches before a step; by default 1."),
    option("--max-steps", int, "Stop after so many steps; by default after all epochs."),
    option("--learning-rate", float, "Rise to this rate in the warm-up; by default 3e-5."),
    option("--seed", int, "Seed the order of rows and the draws with this number; by default 0."),
    option("--device", str, "Tune on auto, cpu, cuda or cuda:N; by default auto."),
    option("--patience", int, "Stop after so many development scores that were no better; by default never."),
    option("--evaluate-every", int, "Score the development rows after so many steps; by default after an epoch."),
    option("--set settings", str, "Set any other option, such as loop.epochs=3; by default nothing.", multiple=True),
    option("--recipe", Path, "Read options from this TOML file; others given override it. By default from none."),
)
"""What `TuningOptions` holds; `--set` reaches the rest."""


@click.command()
@kb_option
@option("--name", str, "Name the tuned encoder, for 'kbengine query --encoder NAME'.", required=True)
@option("--train", Path, "Learn from these KILT rows.", multiple=True, required=True)
@option("--task tasks", TASKS, "Take --train for this, all files or each; by default as named.", multiple=True)
@option("--dev", Path, "Keep the weights that are best on these KILT rows; by default the last ones.", multiple=True)
@option("--dev-task dev_tasks", TASKS, "Take --dev for this, as above; by default as --train.", multiple=True)
@option("--limit", int, "Use at most so many rows of each --train file; by default all.")
@option("--dev-limit", int, "Use at most so many rows of each --dev file.", default=500)
@option(
    "--measure",
    ("em", "rprec", "kilt_em", "mean"),
    "Judge development rows by this measure; by default as suits the loss.",
)
@option("--signals", ("fused", "phrase", "both"), "Rank development answers by these signals.", default="both")
@tuning_options
@option("--calibrate/--no-calibrate", bool, "Fit weights and probabilities too.", default=True)
@option("--run", Path, "Keep log, checkpoints and curves in this directory; by default in KB.tuning/NAME.")
@option("--overwrite", bool, "Replace the encoder of that name.")
@option("--resume", bool, "Go on with the interrupted run of the same options.")
@json_option
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

    request = tune_request(kb, name, **given)
    with progress_for_terminal() as progress, stop_on_interrupt() as stop:
        facts = tune_files(request, progress=progress, stop=stop, notice=lambda text: click.echo(text, err=True))
    show_tuned(standard_output(as_json=as_json), facts)


def tune_request(
    kb: Path,
    name: str,
    *,
    train: tuple[Path, ...],
    tasks: tuple[Task, ...],
    dev: tuple[Path, ...],
    dev_tasks: tuple[Task, ...],
    measure: Measure | None,
    signals: Signals,
    recipe: Path | None,
    settings: tuple[str, ...],
    **given: Any,
) -> TuneRequest:
    """Return what the command line asks for; the rest of its options are those of `TuningOptions`."""
    from adapters.tuning.tuning import TuneRequest
    from adapters.tuning.tuning_files import task_files
    from adapters.tuning.tuning_scores import ScoreOptions, usual_measure
    from kbengine.learning.loop.recipe import parse_override
    from kbengine.learning.tuning.options import read_tuning_options

    own = {each.name: given.pop(each.name) for each in fields(TuneRequest) if each.name in given}
    chosen = [(_SECTION_OF.get(option, option), value) for option, value in given.items() if value is not None]
    options = read_tuning_options(recipe, [*chosen, *(parse_override(each) for each in settings)])
    one_task = tasks[:1] if len(set(tasks)) == 1 else ()
    return TuneRequest(
        kb=kb,
        name=name,
        train=tuple(task_files(train, tasks)),
        dev=tuple(task_files(dev, dev_tasks or one_task)),
        score=ScoreOptions(measure or usual_measure(options.loss), signals),
        options=options,
        **own,
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
