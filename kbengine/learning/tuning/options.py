"""How a query encoder is tuned: loss, candidates, closeness to the start, what is tuned, and the loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from kbengine.encoders.deltas import ParameterOptions
from kbengine.learning.loop.options import LoopOptions, require, require_count
from kbengine.learning.loop.recipe import read_recipe
from kbengine.learning.tuning.candidates import RETRIEVALS, Retrieval
from kbengine.learning.tuning.losses import LOSSES, Loss
from kbengine.learning.tuning.mixing import MIXINGS, Mixing
from kbengine.search.query import EFFORTS, Effort

Scores = Literal["phrase", "fused", "both"]
SCORES: tuple[Scores, ...] = get_args(Scores)
MAX_TOP_K = 1000


@dataclass(frozen=True)
class TuningLoop(LoopOptions):
    """The loop's options for tuning: batches of 12 and AdamW at 3e-5 as in the papers, five epochs for their ten."""

    epochs: int = 5
    batch_size: int = 12


def read_tuning_options(recipe: Path | None, overrides: Sequence[tuple[str, Any]] = ()) -> TuningOptions:
    """Return the options of a TOML file (None: the defaults) with single ones replaced, by their dotted names.

    Raises:
        InvalidOptionError: the file is no TOML, or an option is unknown or has a value it may not have.
    """
    return read_recipe(TuningOptions, recipe, overrides)


@dataclass(frozen=True)
class TuningOptions:
    """Everything about a tuning but its data.

    Attributes:
        loss: What is right: "phrase": phrases that are an answer (Eq. 11); "doc": any phrase of a gold document;
            "passage": any of a gold passage; "joint": an answer in a gold document; "task": what each row's task is
            judged by.
        separate_ends: Add the same loss of start and end scores alone.
        top_k: Candidates of each query and way of retrieval.
        retrieval: "dense", "fused" or "both"; see `CandidateSource`.
        effort: How hard candidates are searched for, as of a search: most of a step's time where the index is large.
        refresh_steps: Optimiser steps after which candidates are retrieved with the encoder as it is then.
        scores: What a candidate is scored by: "phrase": its vectors alone, as in the papers; "fused": all signals with
            each row's weights (sparse vectors left out), so that the vectors learn what the others miss; "both": the
            mean of the two losses.
        passage: Weight of the marginal loss of passage vectors over the candidates' passages.
        passage_temperature: Cosines are divided by it.
        reader: Name or directory of a reader that teaches too: its distribution over the candidates is followed, also
            for rows without gold; None: there is none.
        reader_weight: Weight of KL(reader ‖ now) over the candidates that the reader read.
        reader_passages: Passages that it reads of each query: those that the searches rank best.
        l2: Weight of the squared distance of the weights from the start.
        kl: Weight of KL(start ‖ now) over the candidates.
        dropout: While training.
        mixing: How files share an epoch: by size ("proportional"), its root, or alike ("equal").
        rows_per_epoch: Rows of an epoch; None: as many as there are.
        parameters: What is tuned.
        loop: Epochs, batches, learning rate, seed, device.
    """

    loss: Loss = "phrase"
    separate_ends: bool = False
    top_k: int = 100
    retrieval: Retrieval = "both"
    effort: Effort = "normal"
    refresh_steps: int = 1
    scores: Scores = "phrase"
    passage: float = 1.0
    passage_temperature: float = 0.05
    reader: str | None = None
    reader_weight: float = 1.0
    reader_passages: int = 10
    l2: float = 0.0
    kl: float = 0.0
    dropout: float = 0.0
    mixing: Mixing = "proportional"
    rows_per_epoch: int | None = None
    parameters: ParameterOptions = field(default_factory=ParameterOptions)
    loop: TuningLoop = field(default_factory=TuningLoop)

    def __post_init__(self) -> None:
        for name, wanted in (
            ("loss", LOSSES),
            ("retrieval", RETRIEVALS),
            ("mixing", MIXINGS),
            ("scores", SCORES),
            ("effort", EFFORTS),
        ):
            value = getattr(self, name)
            require(value in wanted, name, value, f"one of {', '.join(wanted)}")
        for name in ("passage", "reader_weight", "l2", "kl"):
            value = getattr(self, name)
            require(math.isfinite(value) and value >= 0, name, value, "0 (off) or more")
        require(self.passage_temperature > 0, "passage_temperature", self.passage_temperature, "more than 0")
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and less than 1")
        for name in ("refresh_steps", "reader_passages"):
            require_count(name, getattr(self, name))
        require(1 <= self.top_k <= MAX_TOP_K, "top_k", self.top_k, f"1 to {MAX_TOP_K}")
        if self.rows_per_epoch is not None:
            require_count("rows_per_epoch", self.rows_per_epoch)

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return asdict(self)
