"""The reader a training begins with: one of ours, or a new head on any BERT, also on an encoder of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.config import QueryLimits
from kbengine.encoders.location import find_encoder
from kbengine.encoders.pretrained import PretrainedBert, read_pretrained
from kbengine.learning.loop.options import require, require_count
from kbengine.reading.checkpoint import read_reader
from kbengine.reading.checkpoint_files import is_reader
from kbengine.reading.config import ReaderConfig
from kbengine.reading.model import CrossEncoder, build_cross_encoder

_HEADS = ("qa_outputs.", "pair_outputs.", "relevance_output.")
DEFAULT_QUERY_LIMITS = QueryLimits(question=64, slot_filling=64, entity_linking=128, dialogue=128)


@dataclass(frozen=True)
class ReaderModelOptions:
    """What a new reader is made of; one that is trained further keeps its own lengths and what it has of pairs.

    Attributes:
        init: A reader's directory, a bundled encoder's name or an encoder's directory, or a folder, wheel or hub name
            of a BERT model.
        dropout: In training only.
        max_tokens: Of one input; longer passages are read in windows.
        max_title_tokens: Of the title before the passage; 0 reads no titles.
        max_answer_tokens: The longest answer.
        max_query_tokens: Of each kind of query.
        pair_size: Of the vectors that tell how well a first and a last token go together; a reader without them is
            given some, which say nothing at first. 0: none.
    """

    init: str = "minilm-phrase"
    dropout: float = 0.1
    max_tokens: int = 384
    max_title_tokens: int = 20
    max_answer_tokens: int = 20
    max_query_tokens: QueryLimits = field(default_factory=lambda: DEFAULT_QUERY_LIMITS)
    pair_size: int = 64

    def __post_init__(self) -> None:
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and less than 1")
        require_count("pair_size", self.pair_size, least=0)


@dataclass(frozen=True)
class InitialReader:
    """A model ready to be trained, and the text of its tokenizer."""

    model: CrossEncoder
    tokenizer_json: str


def initial_reader(options: ReaderModelOptions, *, seed: int = 0) -> InitialReader:
    """Return the model to begin with, dropout set; the seed is for the head of a new one.

    Raises:
        EncoderError: there is no such model, it is no BERT, or inputs of that length do not fit it.
    """
    directory = Path(options.init).expanduser()
    if is_reader(directory):
        checkpoint = read_reader(directory)
        if options.pair_size and not checkpoint.config.pair_size:
            with_pairs = replace(checkpoint.config, pair_size=options.pair_size)
            return InitialReader(_with_head(with_pairs, checkpoint.weights, options, seed), checkpoint.tokenizer_json)
        return InitialReader(checkpoint.model(dropout=options.dropout).train(), checkpoint.tokenizer_json)
    encoder = find_encoder(options.init)
    if encoder is None:
        return _with_new_head(read_pretrained(options.init), options, seed)
    found = read_checkpoint(encoder)
    weights, config = _phrase_encoder(found.weights), found.config
    bert = PretrainedBert(options.init, config.backbone, config.uncased, found.tokenizer_json, weights)
    return _with_new_head(bert, options, seed)


def _phrase_encoder(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the phrase encoder's tensors under the names of a plain BERT; its embeddings may be the model's own."""
    shared = {name: tensor for name, tensor in weights.items() if name.startswith("embeddings.")}
    prefix = "phrase_encoder."
    return shared | {name.removeprefix(prefix): each for name, each in weights.items() if name.startswith(prefix)}


def _with_new_head(bert: PretrainedBert, options: ReaderModelOptions, seed: int) -> InitialReader:
    names = ("max_tokens", "max_title_tokens", "max_query_tokens", "max_answer_tokens", "pair_size")
    config = ReaderConfig(bert.backbone, uncased=bert.uncased, **{name: getattr(options, name) for name in names})
    return InitialReader(_with_head(config, bert.weights, options, seed), bert.tokenizer_json)


def _with_head(
    config: ReaderConfig, weights: Mapping[str, Tensor], options: ReaderModelOptions, seed: int
) -> CrossEncoder:
    """Return a model of these weights, what they lack of the head new."""
    with torch.random.fork_rng(devices=[]):  # the caller's generator is not moved
        torch.manual_seed(seed)
        model = build_cross_encoder(config, dropout=options.dropout)
    head = {name: tensor for name, tensor in model.state_dict().items() if name.startswith(_HEADS)}
    model.load_state_dict({**head, **{name: tensor.clone() for name, tensor in weights.items()}}, strict=True)
    return model.train()
