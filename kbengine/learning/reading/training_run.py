"""One run of training a reader: from files or examples to a directory with a reader in it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kbengine.errors import InvalidOptionError
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions, require
from kbengine.learning.loop.processes import Processes, join_processes
from kbengine.learning.loop.report import TrainingReport
from kbengine.learning.phrases.encoder_training import (
    DATA_FILE,
    Examples,
    read_examples,
    refuse_existing,
    run_directory,
)
from kbengine.learning.phrases.recipe import DataSection
from kbengine.learning.reading.checkpoint import READER_DTYPES, ReaderDType
from kbengine.learning.reading.initial import ReaderModelOptions, initial_reader
from kbengine.learning.reading.reader import Reader
from kbengine.learning.reading.training import ReaderTask, ReaderTrainingOptions
from kbengine.progress import NoProgress, ProgressSink
from storage.durable import write_durably

EPOCHS = 3
LEARNING_RATE = 1e-4
"""For a model of MiniLM's size; larger ones want less (3e-5 for BERT-base)."""


def default_loop() -> LoopOptions:
    """Return how a reader of MiniLM's size is trained."""
    return LoopOptions(epochs=EPOCHS, optimizer=OptimizerOptions(learning_rate=LEARNING_RATE))


@dataclass(frozen=True)
class ReaderRecipe:
    """Everything that `kbengine train reader` needs to know.

    Attributes:
        data: Files; mined hard negatives are read as passages that do not answer.
        model: What to begin with.
        reading: What the reader sees beside the gold passages.
        loop: How it is trained.
        weights: What the trained weights are stored in.
    """

    data: DataSection = field(default_factory=DataSection)
    model: ReaderModelOptions = field(default_factory=ReaderModelOptions)
    reading: ReaderTrainingOptions = field(default_factory=ReaderTrainingOptions)
    loop: LoopOptions = field(default_factory=default_loop)
    weights: ReaderDType = "float16"

    def __post_init__(self) -> None:
        require(self.weights in READER_DTYPES, "weights", self.weights, f"one of {', '.join(READER_DTYPES)}")
        if self.data.reader is not None:
            raise InvalidOptionError(
                f"data.reader is {self.data.reader}, but a reader learns from no other; to train one further, give it "
                "as model.init"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain


@dataclass(frozen=True)
class TrainedReader:
    """What a training gave: the reader's directory, how the run went, and what came of the rows.

    `n_left_out` counts examples without an answer span (their passage as a whole answers).
    """

    directory: Path
    report: TrainingReport
    data: DataReport
    n_left_out: int

    def facts(self) -> dict[str, Any]:
        """Return what people want to know at the end."""
        report = self.report
        return {
            "out": str(self.directory),
            "examples": report.n_examples,
            "unusable_rows": sum(self.data.unusable.values()),
            "without_answer_span": self.n_left_out,
            "steps": report.n_steps,
            "first_loss": report.first_loss,
            "last_loss": report.last_loss,
            "best_step": report.best_step,
            **{f"dev_{name}": round(value, 2) for name, value in report.best.items()},
            "elapsed_s": report.elapsed_s,
        }


def train_reader(
    recipe: ReaderRecipe,
    out: Path,
    *,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainedReader:
    """Return the trained reader, written to `out`; the run's log, checkpoints and report are in `out.run`.

    Args:
        recipe: everything about it.
        out: the reader's directory to make.
        resume: go on with an interrupted run of the same recipe.
        processes: those this one belongs to.
        progress: where to report.
        stop: asked after every step.

    Raises:
        EncoderError: `out` exists, or the initial model is not there or does not fit.
        TrainingDataError: nothing can be trained on.
        TrainingError: the run's directory holds another run, or a gradient is not finite.
        KeyboardInterrupt: as asked for by `stop`; a checkpoint was written before.
    """
    refuse_existing(out)
    examples = read_examples(recipe.data, seed=recipe.loop.seed, progress=progress)
    return train_reader_on(examples, recipe, out, resume=resume, processes=processes, progress=progress, stop=stop)


def train_reader_on(
    examples: Examples,
    recipe: ReaderRecipe,
    out: Path,
    *,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainedReader:
    """Return the reader trained on these examples instead of the recipe's files; the rest as of `train_reader`."""
    refuse_existing(out)
    processes = processes or join_processes(recipe.loop.device)
    initial = initial_reader(recipe.model, seed=recipe.loop.seed)
    task = ReaderTask(initial.model, initial.tokenizer_json, examples.train, examples.dev, options=recipe.reading)
    run = run_directory(out)
    report = train(
        task, recipe.loop, run, resume=resume, processes=processes, progress=progress or NoProgress(), stop=stop
    )
    if processes.is_main:
        facts = {"recipe": recipe.to_json(), "data": examples.report.to_json()}
        write_durably(run / DATA_FILE, [(json.dumps(facts, indent=2) + "\n").encode()], replace=True)
        reader = Reader.from_model(task.model, initial.tokenizer_json, device="cpu", dtype="float32")
        reader.save(out, dtype=recipe.weights)
    processes.wait()
    return TrainedReader(out, report, examples.report, task.n_left_out)
