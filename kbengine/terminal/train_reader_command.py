"""The command `train reader`: a cross-encoder from reading-comprehension data; a command of the group `train`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kbengine.terminal.console import standard_output
from kbengine.terminal.options import option
from kbengine.terminal.train_command import data_options, loop_options, overrides_of, show_unusable

_SECTION_OF = {
    "negative_fraction": "reading.negative_fraction",
    "dev_limit": "reading.max_dev_examples",
    "max_tokens": "model.max_tokens",
}


@click.command("reader")
@data_options
@option("--init", str, "Begin with this reader, encoder or BERT (folder, wheel or hub name); by default minilm-phrase.")
@option("--out", Path, "Make this directory with the reader; the run is kept in OUT.run.", required=True)
@option("--negative-fraction", float, "Read this share of the queries with a wrong passage too; by default 0.5.")
@option("--max-tokens", int, "Read at most so many tokens at once, longer passages in windows; by default 384.")
@option("--dev-limit", int, "Read so many development examples at each evaluation; by default 1000.")
@option("--limit", int, "Use at most so many training examples; by default all.")
@option("--weights", ("float16", "float32"), "Store the result in this number type; by default float16.")
@loop_options(epochs=3, batch_size=32, learning_rate="1e-4")
def reader(out: Path, resume: bool, as_json: bool, **given: Any) -> None:
    """Train a cross-encoder: it reads query and passage together and finds the answer, or that there is none.

    It is the teacher of `kbengine train --reader`, the filter of `kbengine questions --reader`, and the reader of
    `kbengine evaluate`.

    \b
    Example:
      kbengine train reader --train train-v2.0.json --dev dev-v2.0.json --out my-reader
      kbengine evaluate reading dev-v2.0.json --reader my-reader
    """
    from kbengine.learning.loop.interruption import stop_on_interrupt
    from kbengine.learning.loop.memory import keep_freed_memory
    from kbengine.learning.loop.processes import join_processes
    from kbengine.learning.reading.training_run import train_reader
    from kbengine.progress import progress_for_terminal

    recipe = _recipe(**given)
    keep_freed_memory()
    processes = join_processes(recipe.loop.device)
    with progress_for_terminal(quiet=as_json or not processes.is_main) as progress, stop_on_interrupt() as stop:
        trained = train_reader(recipe, out, resume=resume, processes=processes, progress=progress, stop=stop)
    if processes.is_main:
        show_unusable(trained.data, {"no answer span, left out": trained.n_left_out})
        standard_output(as_json=as_json).facts(trained.facts())


def _recipe(recipe: Path | None, settings: tuple[str, ...], **given: Any) -> Any:
    """Return the recipe: the file's options or else the reader's own defaults, then those of the command line."""
    from kbengine.learning.phrases.recipe import read_recipe
    from kbengine.learning.reading.training_run import EPOCHS, LEARNING_RATE, ReaderRecipe

    defaults = [("loop.epochs", EPOCHS), ("loop.optimizer.learning_rate", LEARNING_RATE)] if recipe is None else []
    own = [(section, given.pop(name)) for name, section in _SECTION_OF.items()]
    named = [(section, value) for section, value in own if value is not None]
    return read_recipe(ReaderRecipe, recipe, [*defaults, *named, *overrides_of(settings, given)])
