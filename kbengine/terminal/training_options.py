"""What the commands of `kbengine train` share: their options, how these make a recipe, and the run itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import F, json_option, option, options

if TYPE_CHECKING:
    from kbengine.learning.data.report import DataReport
    from kbengine.learning.runs.run import Recipe


_SAME_NAME = {
    "data": ("train", "dev", "pages", "exclude_pages", "adapt", "reader", "limit"),
    "model": ("init", "architecture", "frozen", "top", "max_tokens"),
    "losses": ("negatives", "pre_batches", "distillation"),
    "loop": ("epochs", "batch_size", "accumulate", "seed", "device", "dtype", "patience", "tensorboard"),
}
_SECTION_OF = {name: f"{section}.{name}" for section, names in _SAME_NAME.items() for name in names} | {
    "weights": "weights",
    "joint": "losses.train_encoder",
    "negative_fraction": "reading.negative_fraction",
    "dev_limit": "reading.max_dev_examples",
    "learning_rate": "loop.optimizer.learning_rate",
}
"""Where in a recipe each option of the command line belongs."""


data_options = options(
    option("--train", Path, "Train on these rows (SQuAD, NQ, KILT, zsRE); by default on none.", multiple=True),
    option("--dev", Path, "Keep the weights that are best on these rows; by default the last ones.", multiple=True),
    option("--pages", Path, "Look up the passages of KILT rows in this corpus; by default in none.", multiple=True),
    option("--exclude-pages", Path, "Leave out the documents with the ids in this file, one a line; by default none."),
)


def loop_options(*, epochs: int, batch_size: int, learning_rate: str, dtype: str = "auto") -> Callable[[F], F]:
    """Return a decorator for the usual options of a run; a recipe and `--set` reach all others.

    Args:
        epochs: The recipe's default, as are the others; the help tells them.
        batch_size: Of examples.
        learning_rate: As people write it.
        dtype: Of matrix products.
    """
    return options(
        option("--epochs", int, f"See every example so many times; by default {epochs}."),
        option("--batch-size", int, f"Take so many examples a forward pass in all processes; by default {batch_size}."),
        option("--accumulate", int, "Average the gradients of so many batches before a step; by default 1."),
        option("--learning-rate", float, f"Rise to this rate in the warm-up; by default {learning_rate}."),
        option("--seed", int, "Seed data order, dropout and draws with this number; by default 0."),
        option("--device", str, "Train on auto, cpu, cuda or cuda:N; by default auto."),
        option(
            "--dtype", ("auto", "float32", "bfloat16"), f"Compute matrix products in this type; by default {dtype}."
        ),
        option("--patience", int, "Stop after so many development scores that were no better; by default never."),
        option("--tensorboard", bool, "Write TensorBoard events too.", default=None),
        option("--recipe", Path, "Read options from this TOML file; others given override it. By default from none."),
        option("--set settings", str, "Set SECTION.OPTION=VALUE of the recipe; by default nothing.", multiple=True),
        option("--resume", bool, "Go on with the interrupted run of the same options."),
        json_option,
    )


def run_training(
    kind: type[Recipe],
    out: Path,
    *,
    recipe: Path | None,
    settings: tuple[str, ...],
    resume: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Train what the recipe's file and the command line say, and tell what came of it.

    Args:
        kind: of the recipe.
        out: the model directory to make.
        recipe: its file.
        settings: what `--set` said, which wins over everything.
        resume: go on with an interrupted run.
        as_json: facts as one JSON object.
        given: options of the command line; None and empty ones were not given.
    """
    from kbengine.learning.loop.interruption import stop_on_interrupt
    from kbengine.learning.loop.memory import keep_freed_memory
    from kbengine.learning.loop.processes import join_processes
    from kbengine.learning.loop.recipe import parse_override, read_recipe
    from kbengine.learning.runs.run import train_model
    from kbengine.progress import progress_for_terminal

    named = [(_SECTION_OF[name], value) for name, value in given.items() if value not in (None, ())]
    options = read_recipe(kind, recipe, [*named, *(parse_override(each) for each in settings)])
    keep_freed_memory()
    processes = join_processes(options.loop.device)
    with progress_for_terminal(quiet=not processes.is_main) as progress, stop_on_interrupt() as stop:
        trained = train_model(options, out, resume=resume, processes=processes, progress=progress, stop=stop)
    if processes.is_main:
        show_unusable(trained.data, trained.notes)
        standard_output(as_json=as_json).facts(trained.facts())


def show_unusable(report: DataReport, notes: Mapping[str, int]) -> None:
    """Tell on stderr what rows could not be used and why, file by file."""
    for file in report.files:
        for what, counts in (("unusable", file.unusable), ("noted", file.notes)):
            for reason, n in counts.most_common():
                rows = ", ".join(file.rows_of.get(reason, []))
                click.echo(f"{file.file}: {n:,} of {file.rows:,} rows {what}: {reason} ({rows} …)", err=True)
    for note, n in notes.items():
        if n:
            click.echo(f"{n:,} examples: {note}", err=True)
