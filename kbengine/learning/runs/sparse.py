"""The run that trains sparse heads on a phrase encoder: `kbengine train sparse`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import torch

from kbengine.encoders.checkpoint import TOKENIZER_FILE, WEIGHTS_FILE, read_checkpoint, write_checkpoint
from kbengine.encoders.config import CONFIG_FILE
from kbengine.encoders.device import choose_dtype
from kbengine.encoders.encoder import encoder_tokenizer
from kbengine.encoders.location import DEFAULT_ENCODER, find_encoder
from kbengine.encoders.sparse.checkpoint import sparse_files, write_sparse
from kbengine.encoders.sparse.config import SparseConfig
from kbengine.encoders.sparse.grams import content_ids
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.encoders.truecasing import TRUECASE_FILE
from kbengine.errors import EncoderError
from kbengine.learning.loop.options import LoopOptions, OptimizerOptions, TrainingDType
from kbengine.learning.loop.processes import Processes
from kbengine.learning.runs.examples import Examples
from kbengine.learning.runs.run import Prepared, Recipe
from kbengine.learning.sparse.batches import Featurizer
from kbengine.learning.sparse.options import SparseOptions
from kbengine.learning.sparse.task import SparseTask
from kbengine.progress import ProgressSink
from storage.durable import write_directory


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
    optimizer: OptimizerOptions = field(default_factory=HeadsOptimizer)


@dataclass(frozen=True)
class SparseModelOptions:
    """What is trained.

    Attributes:
        init: Name or directory of the phrase encoder that the heads are trained on.
        orders: Lengths of n-grams: some of 1, 2 and 3.
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
class SparseRecipe(Recipe):
    """Everything that `kbengine train sparse` needs to know.

    Attributes:
        loop: How the heads are trained.
        model: What is trained.
        losses: What is minimised.
    """

    loop: LoopOptions = field(default_factory=HeadsLoop)
    model: SparseModelOptions = field(default_factory=SparseModelOptions)
    losses: SparseOptions = field(default_factory=SparseOptions)

    def prepare(self, examples: Examples, run: Path, processes: Processes, progress: ProgressSink) -> Prepared:  # noqa: ARG002
        """Return new heads on the encoder, which is trained with them or stays as it is.

        Raises:
            EncoderError: there is no such encoder.
            TrainingError: no example has a phrase that answers.
        """
        directory = find_encoder(self.model.init)
        if directory is None:
            raise EncoderError(
                f"there is no encoder {self.model.init!r}; name a bundled one or a directory of kbengine's own"
            )
        checkpoint = read_checkpoint(directory)
        H, V = checkpoint.config.backbone.hidden_size, checkpoint.config.backbone.vocab_size
        config = self.model.config(H)
        tokenizer = encoder_tokenizer(checkpoint.tokenizer_json, checkpoint.config, str(directory))
        is_content = content_ids(checkpoint.tokenizer_json, V, source=str(directory))
        torch.manual_seed(self.loop.seed)
        heads = SparseHeads(config)
        model = checkpoint.model(dropout=0.1 if self.losses.train_encoder else 0.0)
        if not self.losses.train_encoder:
            # Nothing in it gets a gradient: the layers may run as they do when a knowledge base is built, much faster.
            model = model.prepare_inference(processes.device, choose_dtype("auto", processes.device))
        featurizer = Featurizer(tokenizer, checkpoint.config, is_content, config.orders, truecaser=checkpoint.truecaser)
        task = SparseTask(
            model, heads, featurizer, examples.train, self.losses, development=examples.dev, seed=self.loop.seed
        )

        def save(out: Path) -> None:
            if self.losses.train_encoder:
                cases = checkpoint.truecaser
                documents = {} if cases is None else {TRUECASE_FILE: cases.to_json()}
                own, weights = checkpoint.config, model.state_dict()
                write_checkpoint(out, own, checkpoint.tokenizer_json, weights, dtype="float16", documents=documents)
                write_sparse(out, heads)
            else:
                # The encoder's own files as they are: its fingerprint stays, and knowledge bases built with it remain
                # valid.
                names = (CONFIG_FILE, TOKENIZER_FILE, WEIGHTS_FILE, TRUECASE_FILE)
                files = {name: (directory / name).read_bytes() for name in names if (directory / name).exists()}
                write_directory(out, files | sparse_files(heads))

        return Prepared(task, save)
