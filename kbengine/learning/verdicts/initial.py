"""The verdict model a training begins with: a reader's layers and relevance, and a new head."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kbengine.learning.loop.options import require, require_count
from kbengine.reading.checkpoint import read_reader
from kbengine.reading.location import DEFAULT_READER, find_reader
from kbengine.verdicts.model import VerdictNetwork

_INITIAL_STD = 0.02


@dataclass(frozen=True)
class VerdictModelOptions:
    """What a verdict model is made of; input lengths are the reader's.

    Attributes:
        init: The reader to begin with: a bundled one's name, or a directory.
        dropout: In training only.
        n_passages: How many of the best passages found for a claim the model reads when it is used.
    """

    init: str = DEFAULT_READER
    dropout: float = 0.1
    n_passages: int = 5

    def __post_init__(self) -> None:
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and less than 1")
        require_count("n_passages", self.n_passages)


@dataclass(frozen=True)
class InitialVerdictModel:
    """A model ready to be trained, the text of its tokenizer, and the fingerprint of the reader that it is made of."""

    model: VerdictNetwork
    tokenizer_json: str
    fingerprint: str


def initial_verdict_model(options: VerdictModelOptions, *, seed: int = 0) -> InitialVerdictModel:
    """Return the model to begin with, dropout set; the seed is for its new head.

    Raises:
        EncoderError: there is no such reader.
    """
    found = read_reader(find_reader(options.init))
    model = VerdictNetwork(found.config, dropout=options.dropout)
    head = torch.empty_like(model.verdict_output.weight)
    torch.nn.init.normal_(head, std=_INITIAL_STD, generator=torch.Generator().manual_seed(seed))
    own = {"verdict_output.weight": head, "verdict_output.bias": torch.zeros(1)}
    spans = ("qa_outputs.", "pair_outputs.")
    taken = {name: tensor.clone() for name, tensor in found.weights.items() if not name.startswith(spans)}
    model.load_state_dict(taken | own, strict=True)
    return InitialVerdictModel(model.train(), found.tokenizer_json, found.fingerprint)
