"""One training run from a recipe to a model directory: read, prepare, train, write; resumable, whatever is trained."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from kbengine.errors import EncoderError
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.loop import train
from kbengine.learning.loop.options import LoopOptions
from kbengine.learning.loop.processes import Processes, join_processes
from kbengine.learning.loop.report import TrainingReport
from kbengine.learning.loop.task import TrainingTask
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import Examples, read_examples
from kbengine.progress import NoProgress, ProgressSink
from storage.durable import write_durably

DATA_FILE = "data.json"


@dataclass(frozen=True)
class Prepared:
    """What a recipe makes of its examples.

    Attributes:
        task: What is trained.
        save: Writes the trained model to a directory; called in the main process alone.
        notes: What was cut or left out of the examples, counted.
        facts: What else people want to know at the end.
    """

    task: TrainingTask[Any]
    save: Callable[[Path], object]
    notes: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe(ABC):
    """Everything that a training needs to know.

    Attributes:
        data: Files.
        loop: How it is trained.
    """

    measure_prefix: ClassVar[str] = ""
    """What development measures are called in front of their names where people are told."""

    data: DataSection = field(default_factory=DataSection)
    loop: LoopOptions = field(default_factory=LoopOptions)

    def examples(self, progress: ProgressSink) -> Examples:
        """Return what the recipe's files hold.

        Raises:
            TrainingDataError: nothing can be trained on.
            CorpusError: a file cannot be read.
        """
        return read_examples(self.data, seed=self.loop.seed, progress=progress)

    @abstractmethod
    def prepare(self, examples: Examples, run: Path, processes: Processes, progress: ProgressSink) -> Prepared:
        """Return the model with its batches; `run` is a folder for what should outlive an interruption."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plain


@dataclass(frozen=True)
class TrainedModel:
    """What a training gave: the model's directory, how the run went, what came of the rows, notes and further facts."""

    directory: Path
    report: TrainingReport
    data: DataReport
    notes: Mapping[str, int]
    further: Mapping[str, Any]

    def facts(self) -> dict[str, Any]:
        """Return what people want to know at the end."""
        report = self.report
        return {
            "out": str(self.directory),
            "examples": report.n_examples,
            "unusable_rows": sum(self.data.unusable.values()),
            "steps": report.n_steps,
            "first_loss": report.first_loss,
            "last_loss": report.last_loss,
            "score_before": report.first_score,
            "best_score": report.best_score,
            "best_step": report.best_step,
            **self.further,
            "elapsed_s": report.elapsed_s,
        }


def train_model(
    recipe: Recipe,
    out: Path,
    *,
    examples: Examples | None = None,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainedModel:
    """Return the trained model, written to `out`; the run's log, checkpoints and report are in `out.run`.

    Args:
        recipe: everything about it.
        out: the model directory to make.
        examples: what to learn from instead of the recipe's files.
        resume: go on with an interrupted run of the same recipe.
        processes: those this one belongs to.
        progress: where to report.
        stop: asked after every step.

    Raises:
        EncoderError: `out` exists, or the initial model is not there or cannot be used.
        TrainingDataError: nothing can be trained on.
        TrainingError: the run's directory holds another run, or a gradient is not finite.
        KeyboardInterrupt: as asked for by `stop`; a checkpoint was written before.
    """
    if out.exists():  # better now than after hours of training
        raise EncoderError(f"{out} already exists; choose another directory or remove it first")
    progress = progress or NoProgress()
    examples = examples or recipe.examples(progress)
    processes = processes or join_processes(recipe.loop.device)
    run = run_directory(out)
    prepared = recipe.prepare(examples, run, processes, progress)
    report = train(prepared.task, recipe.loop, run, resume=resume, processes=processes, progress=progress, stop=stop)
    if processes.is_main:
        facts = {"recipe": recipe.to_json(), "data": examples.report.to_json(), "notes": dict(prepared.notes)}
        write_durably(run / DATA_FILE, [(json.dumps(facts, indent=2) + "\n").encode()], replace=True)
        prepared.save(out)
    processes.wait()
    best = {f"{recipe.measure_prefix}{name}": round(value, 2) for name, value in report.best.items()}
    return TrainedModel(out, report, examples.report, prepared.notes, {**prepared.facts, **best})


def run_directory(out: Path) -> Path:
    """Return where the log, the checkpoints and the report of a model's training are."""
    return out.with_name(f"{out.name}.run")
