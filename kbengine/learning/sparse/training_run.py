"""A whole training of sparse heads as options, from files to a model directory: what `kbengine train sparse` does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kbengine.encoders.encoder import DEFAULT_ENCODER
from kbengine.encoders.sparse.config import SparseConfig
from kbengine.learning.data.report import DataReport
from kbengine.learning.loop.interruption import Stop, never
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions, TrainingDType
from kbengine.learning.loop.processes import Processes
from kbengine.learning.loop.report import TrainingReport
from kbengine.learning.phrases.encoder_training import read_examples, refuse_existing
from kbengine.learning.phrases.recipe import DataSection
from kbengine.learning.sparse.options import SparseOptions
from kbengine.learning.sparse.training import train_sparse
from kbengine.progress import NoProgress, ProgressSink


@dataclass(frozen=True)
class HeadsOptimizer(OptimizerOptions):
    """AdamW as heads want it, which begin from nothing: a high rate; an encoder trained with them has its usual one."""

    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    warmup_fraction: float = 0.04
    rate_factors: tuple[tuple[str, float], ...] = (("encoder.", 0.03),)


@dataclass(frozen=True)
class HeadsLoop(LoopOptions):
    """The loop as heads want it: they have learned what they can from a part of the rows."""

    epochs: int = 1
    batch_size: int = 24
    dtype: TrainingDType = "float32"
    optimizer: HeadsOptimizer = field(default_factory=HeadsOptimizer)


@dataclass(frozen=True)
class SparseModelOptions:
    """What is trained.

    Attributes:
        init: Name or directory of the phrase encoder that the heads are trained on.
        orders: Lengths of n-grams: 1, 2 or both.
        shared_heads: Whether queries go through the passages' own heads.
        head_size: Dimensions that the heads project states to.
        top: N-grams kept of each stored token and side.
    """

    init: str = DEFAULT_ENCODER
    orders: tuple[int, ...] = (1, 2)
    shared_heads: bool = False
    head_size: int = 64
    top: int = 24

    def __post_init__(self) -> None:
        self.config(1)  # refuses what may not be

    def config(self, hidden_size: int) -> SparseConfig:
        """Return the configuration of heads for states of this size."""
        return SparseConfig(hidden_size, self.orders, self.shared_heads, self.head_size, self.top)


@dataclass(frozen=True)
class SparseRecipe:
    """Everything that `kbengine train sparse` needs to know: files, heads, losses, loop."""

    data: DataSection = field(default_factory=DataSection)
    model: SparseModelOptions = field(default_factory=SparseModelOptions)
    losses: SparseOptions = field(default_factory=SparseOptions)
    loop: HeadsLoop = field(default_factory=HeadsLoop)


@dataclass(frozen=True)
class TrainedSparse:
    """What a training gave: the model directory, how the run went, what came of the rows of the files."""

    directory: Path
    report: TrainingReport
    data: DataReport

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
            "best_score": report.best_score,
            "best_step": report.best_step,
            **{name: round(value, 2) for name, value in report.best.items()},
            "elapsed_s": report.elapsed_s,
        }


def run_sparse_training(
    recipe: SparseRecipe,
    out: Path,
    *,
    resume: bool = False,
    processes: Processes | None = None,
    progress: ProgressSink | None = None,
    stop: Stop = never,
) -> TrainedSparse:
    """Return the trained heads with their encoder, written to `out`; arguments and errors as of `train_sparse`.

    Raises:
        TrainingDataError: no file, or nothing in them can be trained on.
    """
    progress = progress or NoProgress()
    refuse_existing(out)
    examples = read_examples(recipe.data, seed=recipe.loop.seed, progress=progress)
    report = train_sparse(
        recipe.model.init,
        examples.train,
        out,
        loop=recipe.loop,
        options=recipe.losses,
        config=recipe.model.config(1),
        development=examples.dev,
        resume=resume,
        processes=processes,
        progress=progress,
        stop=stop,
    )
    return TrainedSparse(out, report, examples.report)
