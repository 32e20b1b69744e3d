"""`kbengine train`: the phrase encoder by default; further models are commands of the same group."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click_default_group import DefaultGroup

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH, json_option

if TYPE_CHECKING:
    from kbengine.learning.phrases.recipe import EncoderRecipe

F = TypeVar("F", bound=Callable[..., Any])

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


def data_options(function: F) -> F:
    """Return the command with the files of a training."""
    for option in (
        click.option("--exclude-pages", type=PATH, help="Document ids, one a line, whose text is not trained on."),
        click.option("--pages", multiple=True, type=PATH, help="The corpus that KILT rows point into; repeat it."),
        click.option("--dev", multiple=True, type=PATH, help="Development rows; the best weights are kept by them."),
        click.option("--train", multiple=True, type=PATH, help="Training rows: SQuAD, Natural Questions, KILT, zsRE."),
    ):
        function = option(function)
    return function


def loop_options(function: F) -> F:
    """Return the command with the usual options of a run; a recipe and `--set` reach all others."""
    for option in (
        json_option,
        click.option("--resume", is_flag=True, help="Go on with the interrupted run of the same options."),
        click.option("--set", "settings", multiple=True, metavar="SECTION.OPTION=VALUE", help="Any recipe option."),
        click.option("--recipe", type=PATH, help="A TOML file of options; the command line overrides it."),
        click.option("--tensorboard", is_flag=True, default=None, help="Write TensorBoard events too."),
        click.option("--patience", type=int, help="Stop after so many development scores that were no better."),
        click.option("--dtype", type=click.Choice(["auto", "float32", "bfloat16"]), help="Of matrix products."),
        click.option("--device", help="auto, cpu, cuda or cuda:N."),
        click.option("--seed", type=int, help="Of data order, dropout and draws."),
        click.option("--learning-rate", type=float, help="The highest, after the warm-up."),
        click.option("--accumulate", type=int, help="Batches whose gradients are averaged before a step."),
        click.option("--batch-size", type=int, help="Examples of one forward pass, over all processes."),
        click.option("--epochs", type=int, help="Times that every example is seen."),
    ):
        function = option(function)
    return function


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
@click.option("--adapt", multiple=True, type=PATH, help="Your own corpus: train on cloze questions made from it.")
@click.option("--init", help="What to begin with: an encoder's name or directory, or a BERT folder, wheel or hub name.")
@click.option("--out", type=PATH, required=True, help="The model directory to make; the run is kept in OUT.run.")
@click.option("--architecture", type=click.Choice(["shared-query", "three-tower"]), help="Of a model made from BERT.")
@click.option("--frozen", type=click.Choice(["none", "words", "embeddings"]), help="Embeddings that are not trained.")
@click.option("--negatives", type=click.Choice(["none", "golds", "tokens"]), help="What L_neg compares with.")
@click.option("--pre-batches", type=int, help="Earlier batches whose gold phrases are negatives too.")
@click.option("--reader", type=PATH, help="The cross-encoder to distil from; see `kbengine train reader`.")
@click.option("--distillation", type=float, help="Its loss's weight; 1 by default with --reader.")
@click.option("--limit", type=int, help="Use at most so many training examples.")
@click.option("--weights", type=click.Choice(["int8", "float16", "float32"]), help="What the result is stored in.")
@click.option("--sparse", is_flag=True, help="Train sparse heads on the encoder of --init: `kbengine train sparse`.")
@loop_options
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
