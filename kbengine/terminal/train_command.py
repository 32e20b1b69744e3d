"""`kbengine train`: the phrase encoder by default; further models are commands of the same group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click_default_group import DefaultGroup

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import F, json_option, option, options

if TYPE_CHECKING:
    from kbengine.learning.phrases.recipe import EncoderRecipe


_SECTION_OF = {
    "train": "data.train",
    "dev": "data.dev",
    "pages": "data.pages",
    "exclude_pages": "data.exclude_pages",
    "adapt": "data.adapt",
    "reader": "data.reader",
    "limit": "data.limit",
    "init": "model.init",
    "architecture": "model.architecture",
    "frozen": "model.frozen",
    "negatives": "losses.negatives",
    "pre_batches": "losses.pre_batches",
    "distillation": "losses.distillation",
    "weights": "weights",
    "epochs": "loop.epochs",
    "batch_size": "loop.batch_size",
    "accumulate": "loop.accumulate",
    "learning_rate": "loop.optimizer.learning_rate",
    "seed": "loop.seed",
    "device": "loop.device",
    "dtype": "loop.dtype",
    "patience": "loop.patience",
    "tensorboard": "loop.tensorboard",
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


@click.group(cls=DefaultGroup, default="encoder", default_if_no_args=False)
def train() -> None:
    """Train a model: the phrase encoder unless another is named.

    \b
    Example:
      kbengine train --train squad.json --dev squad-dev.json --init minilm-phrase --out my-encoder
      kbengine train --adapt my-pages.jsonl --out my-encoder
    """


@click.command()
@data_options
@option("--adapt", Path, "Train on cloze questions made of this corpus; by default of none.", multiple=True)
@option("--init", str, "Begin with this encoder or BERT (folder, wheel or hub name); by default minilm-phrase.")
@option("--out", Path, "Make this model directory; the run is kept in OUT.run.", required=True)
@option("--architecture", ("shared-query", "three-tower"), "Build this from a BERT; by default shared-query.")
@option("--frozen", ("none", "words", "embeddings"), "Leave these embeddings as they are; by default all (embeddings).")
@option("--negatives", ("none", "golds", "tokens"), "Compare with these in L_neg; by default tokens.")
@option("--pre-batches", int, "Take the gold phrases of so many earlier batches as negatives too; by default 2.")
@option("--reader", Path, "Distil from the cross-encoder in this directory; by default from none.")
@option("--distillation", float, "Weigh the distillation's loss by this; by default 1 with --reader.")
@option("--limit", int, "Use at most so many training examples; by default all.")
@option("--weights", ("int8", "float16", "float32"), "Store the result in this number type; by default int8.")
@option("--sparse", bool, "Train sparse heads on the encoder of --init, as `kbengine train sparse` does.")
@loop_options(epochs=4, batch_size=32, learning_rate="3e-5")
def encoder(out: Path, resume: bool, as_json: bool, sparse: bool, **given: Any) -> None:
    """Train the phrase encoder, the query encoders and the filter.

    \b
    Example: kbengine train --train nq.train.jsonl.gz --dev nq.dev.jsonl.gz --pages pages.jsonl.gz --out my-encoder
    """
    from kbengine.learning.loop.interruption import stop_on_interrupt
    from kbengine.learning.loop.memory import keep_freed_memory
    from kbengine.learning.loop.processes import join_processes
    from kbengine.learning.phrases.encoder_training import train_encoder
    from kbengine.progress import progress_for_terminal
    from kbengine.terminal.train_sparse_command import run_sparse

    if sparse:
        run_sparse(out, resume, as_json, **given)
        return
    recipe = _recipe(**given)
    keep_freed_memory()
    processes = join_processes(recipe.loop.device)
    with progress_for_terminal(quiet=as_json or not processes.is_main) as progress, stop_on_interrupt() as stop:
        trained = train_encoder(recipe, out, resume=resume, processes=processes, progress=progress, stop=stop)
    if processes.is_main:
        show_unusable(trained.data, trained.notes)
        standard_output(as_json=as_json).facts(trained.facts())


train.add_command(encoder)


def overrides_of(settings: tuple[str, ...], given: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the (dotted name, value) pairs of the options that were given, `--set` last."""
    from kbengine.learning.phrases.recipe import parse_override

    named = [(_SECTION_OF[name], value) for name, value in given.items() if value not in (None, ())]
    return [*named, *(parse_override(each) for each in settings)]


def show_unusable(report: Any, notes: Any) -> None:
    """Tell on stderr what rows could not be used and why, file by file."""
    for file in report.files:
        for what, counts in (("unusable", file.unusable), ("noted", file.notes)):
            for reason, n in counts.most_common():
                rows = ", ".join(file.rows_of.get(reason, []))
                click.echo(f"{file.file}: {n:,} of {file.rows:,} rows {what}: {reason} ({rows} …)", err=True)
    for note, n in notes.items():
        if n:
            click.echo(f"{n:,} examples: {note}", err=True)


def _recipe(recipe: Path | None, settings: tuple[str, ...], **given: Any) -> EncoderRecipe:
    """Return the recipe: the file's options, then those of the command line."""
    from kbengine.learning.phrases.recipe import EncoderRecipe, read_recipe

    overrides = overrides_of(settings, given)
    if given["reader"] is not None and given["distillation"] is None and recipe is None:
        overrides.insert(0, ("losses.distillation", 1.0))
    return read_recipe(EncoderRecipe, recipe, overrides)
