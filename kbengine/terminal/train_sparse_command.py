"""The command `train sparse` (or `train --sparse`): sparse heads on a phrase encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import PATH
from kbengine.terminal.train_command import data_options, loop_options, overrides_of, show_unusable

_SECTION_OF = {"joint": "losses.train_encoder", "top": "model.top"}


@click.command("sparse")
@data_options
@click.option("--adapt", multiple=True, type=PATH, help="Also train on cloze questions from it.")
@click.option("--init", help="Name or directory of the phrase encoder to train the heads on.")
@click.option("--out", type=PATH, required=True, help="The model directory; the run: OUT.run.")
@click.option("--joint", is_flag=True, default=None, help="Train the encoder too, instead of leaving it as it is.")
@click.option("--top", type=int, help="N-grams kept of each stored token and side; 24 by default.")
@click.option("--limit", type=int, help="Use at most so many training examples.")
@loop_options
def sparse(out: Path, resume: bool, as_json: bool, **given: Any) -> None:
    """Train SPARC's sparse encoders: n-gram vectors of phrases, searched together with the dense ones.

    \b
    Example:
      kbengine train sparse --train squad.train.jsonl.gz --pages pages.jsonl.gz --init my-encoder --out with-sparse
      kbengine build pages.jsonl.gz --encoder with-sparse --kb my-kb
    """
    run_sparse(out, resume, as_json, **given)


def run_sparse(out: Path, resume: bool, as_json: bool, **given: Any) -> None:
    """Train and tell; options of the phrase encoder's own training are refused."""
    from kbengine.learning.loop.interruption import stop_on_interrupt
    from kbengine.learning.loop.memory import keep_freed_memory
    from kbengine.learning.loop.processes import join_processes
    from kbengine.learning.phrases.recipe import read_recipe
    from kbengine.learning.sparse.training_run import SparseRecipe, run_sparse_training
    from kbengine.progress import progress_for_terminal

    own = [(section, given.pop(name, None)) for name, section in _SECTION_OF.items()]
    named = [(section, value) for section, value in own if value is not None]
    file, settings = given.pop("recipe"), given.pop("settings")
    recipe = read_recipe(SparseRecipe, file, [*named, *overrides_of(settings, given)])
    keep_freed_memory()
    processes = join_processes(recipe.loop.device)
    with progress_for_terminal(quiet=as_json or not processes.is_main) as progress, stop_on_interrupt() as stop:
        trained = run_sparse_training(recipe, out, resume=resume, processes=processes, progress=progress, stop=stop)
    if processes.is_main:
        show_unusable(trained.data, {})
        standard_output(as_json=as_json).facts(trained.facts())
