"""The run that trains a cross-encoder: `kbengine train reader`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from kbengine.encoders.packing import WEIGHTS_DTYPES, WeightsDType
from kbengine.errors import InvalidOptionError
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions, require
from kbengine.learning.loop.processes import Processes
from kbengine.learning.reading.initial import ReaderModelOptions, initial_reader
from kbengine.learning.reading.training import ReaderTask, ReaderTrainingOptions
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import Prepared, Recipe
from kbengine.progress import ProgressSink
from kbengine.reading.reader import Reader


@dataclass(frozen=True)
class ReaderOptimizer(OptimizerOptions):
    """AdamW as a reader of MiniLM's size wants it; larger ones want a lower rate (3e-5 for BERT-base)."""

    learning_rate: float = 1e-4


@dataclass(frozen=True)
class ReaderLoop(LoopOptions):
    """The loop as a reader of MiniLM's size wants it."""

    epochs: int = 3
    optimizer: OptimizerOptions = field(default_factory=ReaderOptimizer)


@dataclass(frozen=True)
class ReaderRecipe(Recipe):
    """Everything that `kbengine train reader` needs to know; mined negatives are passages that do not answer.

    Attributes:
        loop: How it is trained.
        model: What to begin with.
        reading: What the reader sees beside the gold passages.
        weights: What the trained weights are stored in.
        embeddings_of: The bundled encoder whose embeddings were kept as they are (`loop.optimizer.rate_factors`), so
            that they need not be stored again.
    """

    measure_prefix: ClassVar[str] = "dev_"

    loop: LoopOptions = field(default_factory=ReaderLoop)
    model: ReaderModelOptions = field(default_factory=ReaderModelOptions)
    reading: ReaderTrainingOptions = field(default_factory=ReaderTrainingOptions)
    weights: WeightsDType = "float16"
    embeddings_of: str | None = None

    def __post_init__(self) -> None:
        require(self.weights in WEIGHTS_DTYPES, "weights", self.weights, f"one of {', '.join(WEIGHTS_DTYPES)}")
        if self.data.reader is not None:
            raise InvalidOptionError(
                f"data.reader is {self.data.reader}, but a reader learns from no other; to train one further, give it "
                "as model.init"
            )

    def prepare(self, examples: Examples, run: Path, processes: Processes, progress: ProgressSink) -> Prepared:  # noqa: ARG002
        """Return the initial reader and the examples that have an answer span or say that there is none."""
        initial = initial_reader(self.model, seed=self.loop.seed)
        task = ReaderTask(initial.model, initial.tokenizer_json, examples.train, examples.dev, options=self.reading)

        def save(out: Path) -> None:
            reader = Reader.from_model(task.model, initial.tokenizer_json, device="cpu", dtype="float32")
            reader.save(out, dtype=self.weights, share_embeddings=self.embeddings_of)

        left_out = task.n_left_out
        return Prepared(task, save, {"no answer span, left out": left_out}, {"without_answer_span": left_out})
