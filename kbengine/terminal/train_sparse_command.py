"""The command `train sparse` (or `train --sparse`): sparse heads on a phrase encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import option
from kbengine.terminal.train_command import data_options, loop_options, overrides_of, show_unusable

_SECTION_OF = {"joint": "losses.train_encoder", "top": "model.top"}


@click.command("sparse")
@data_options
@option("--adapt", Path, "Also train on cloze questions of this corpus; by default on none.", multiple=True)
@option("--init", str, "Train the heads on the encoder of this name or directory; by default minilm-phrase.")
@option("--out", Path, "Make this model directory; the run is kept in OUT.run.", required=True)
@option("--joint", bool, "Train the encoder too, instead of leaving it as it is.", default=None)
@option("--top", int, "Keep so many n-grams of each stored token and side; by default 24.")
@option("--limit", int, "Use at most so many training examples; by default all.")
@loop_options(epochs=1, batch_size=24, learning_rate="1e-3", dtype="float32")
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
