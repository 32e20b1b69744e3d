"""One process of several that train the tiny encoder together: `python process_child.py INIT OUT`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions
from kbengine.learning.phrases.initial import ModelOptions
from kbengine.learning.phrases.phrase_task import LossOptions
from kbengine.learning.runs.encoder import EncoderRecipe
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import train_model
from tests.kbengine.learning.phrases.small_training import examples


def run(init: Path, out: Path) -> None:
    """Train six steps, all losses between processes on, dropout off."""
    recipe = EncoderRecipe(
        model=ModelOptions(init=str(init), frozen="none", dropout=0.0),
        losses=LossOptions(negatives="golds", pre_batches=1, pre_batch_warmup=0.3),
        loop=LoopOptions(epochs=6, batch_size=8, device="cpu", optimizer=OptimizerOptions(learning_rate=1e-3)),
        weights="float32",
    )
    given = Examples(tuple(examples()), (), DataReport())
    train_model(replace(recipe, loop=replace(recipe.loop, log_every_steps=1)), out, examples=given)


if __name__ == "__main__":
    run(Path(sys.argv[1]), Path(sys.argv[2]))
