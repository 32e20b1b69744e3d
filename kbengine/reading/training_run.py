"""One run of training a reader: from examples to a directory with a reader in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbengine.progress import ProgressSink
from kbengine.reading.checkpoint import ReaderDType
from kbengine.reading.initial import ReaderModelOptions, initial_reader
from kbengine.reading.reader import Reader
from kbengine.reading.training import ReaderTask, ReaderTrainingOptions
from kbengine.training.encoder_training import refuse_existing, run_directory
from kbengine.training.examples import TrainingExample
from kbengine.training.interruption import Stop, never
from kbengine.training.loop import train
from kbengine.training.options import LoopOptions, OptimizerOptions
from kbengine.training.processes import Processes, join_processes
from kbengine.training.report import TrainingReport


def default_loop() -> LoopOptions:
    """Return how a reader of MiniLM's size is trained."""
    return LoopOptions(epochs=3, batch_size=32, optimizer=OptimizerOptions(learning_rate=1e-4))


@dataclass(frozen=True)
class ReaderRecipe:
    """Everything that a reader's training depends on beside its data."""

    model: ReaderModelOptions = field(default_factory=ReaderModelOptions)
    data: ReaderTrainingOptions = field(default_factory=ReaderTrainingOptions)
    loop: LoopOptions = field(default_factory=default_loop)
    weights: ReaderDType = "float16"


@dataclass(frozen=True)
class ReaderRun:
    """What came of a run: where the reader is, how the training went, examples that could not be used."""

    reader: Path
    report: TrainingReport
    n_left_out: int

    def facts(self) -> dict[str, Any]:
        """Return the run as named values, for people and for JSON."""
        report = self.report
        return {
            "reader": str(self.reader),
            "examples": report.n_examples,
            "left_out": self.n_left_out,
            "steps": report.n_steps,
            "stopped_early": report.stopped_early,
            "first_loss": report.first_loss,
            "last_loss": report.last_loss,
            "best_step": report.best_step,
            **{f"dev_{name}": round(value, 2) for name, value in report.best.items()},
            "elapsed_s": report.elapsed_s,
        }


def train_reader(
    examples: Sequence[TrainingExample],
    dev: Sequence[TrainingExample],
    out: Path,
    recipe: ReaderRecipe | None = None,
    *,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> ReaderRun:
    """Return the finished run; the directory `out` then holds the reader with the best development score.

    Args:
        examples: those without an answer span (the passage as a whole answers) are left out and counted.
        dev: read after every epoch; without any, the last weights are kept.
        out: the reader's directory to make; log, checkpoints, report and curves are in `out.run` beside it.
        recipe: model, data and loop.
        resume: go on from the last checkpoint.
        processes: those this one belongs to.
        progress: where to report.
        stop: asked after every step; see `kbengine.training.loop.train`.

    Raises:
        TrainingError: the run's directory has another run, or one that is not to be resumed.
        TrainingDataError: no example can be used.
        EncoderError: the initial model is not there or does not fit.
    """
    recipe = recipe or ReaderRecipe()
    refuse_existing(out)
    initial = initial_reader(recipe.model, seed=recipe.loop.seed)
    task = ReaderTask(initial.model, initial.tokenizer_json, examples, dev, options=recipe.data)
    processes = processes or join_processes(recipe.loop.device)
    report = train(
        task, recipe.loop, run_directory(out), resume=resume, processes=processes, progress=progress, stop=stop
    )
    if processes.is_main:
        reader = Reader.from_model(task.model, initial.tokenizer_json, device="cpu", dtype="float32")
        reader.save(out, dtype=recipe.weights)
    processes.wait()
    return ReaderRun(out, report, task.n_left_out)
