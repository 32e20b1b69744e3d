"""The model a training begins with: an existing encoder, or one made of any BERT's weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.config import ARCHITECTURES, Architecture, EncoderConfig, QueryLimits
from kbengine.encoders.location import find_encoder
from kbengine.encoders.model import PhraseModel, build_model, empty_model
from kbengine.encoders.pretrained import PretrainedBert, read_pretrained
from kbengine.encoders.truecasing import Truecaser
from kbengine.errors import EncoderError, InvalidOptionError
from kbengine.learning.loop.options import require, require_count

Frozen = Literal["none", "words", "embeddings"]
FROZEN: tuple[Frozen, ...] = get_args(Frozen)
_PASSAGE_TOKENS = 176
_FROZEN_NAMES = {"none": (), "words": ("embeddings.word_embeddings.",), "embeddings": ("embeddings.",)}


@dataclass(frozen=True)
class ModelOptions:
    """What the trained model is made of.

    Attributes:
        init: A bundled encoder's name or a model directory of kbengine; a folder, wheel or hub name of a BERT model.
        architecture: "shared-query" or "three-tower"; None keeps that of an encoder, and is "shared-query" for a BERT.
        dropout: In training only.
        frozen: Embeddings that are not trained: "words" (the papers), "embeddings" (all, with their norm), "none".
        passage_vector: "mean" or "none"; None keeps the encoder's, and is "mean" for a BERT.
        max_passage_tokens: Longest passage input; None keeps the encoder's, and is 176 for a BERT.
        max_title_tokens: Longest title in it; None keeps the encoder's, and is 20 for a BERT.
        max_phrase_tokens: Longest phrase; None keeps the encoder's, and is 20 for a BERT.
        max_query_tokens: Longest queries by kind; None keeps the encoder's, and is `QueryLimits()` for a BERT.
        truecase: Restore the case of all-lower-case queries, by statistics of the training passages; for cased models.
    """

    init: str = "minilm-phrase"
    architecture: Architecture | None = None
    dropout: float = 0.1
    frozen: Frozen = "embeddings"
    passage_vector: str | None = None
    max_passage_tokens: int | None = None
    max_title_tokens: int | None = None
    max_phrase_tokens: int | None = None
    max_query_tokens: QueryLimits | None = None
    truecase: bool = False

    def __post_init__(self) -> None:
        if self.architecture is not None:
            require(self.architecture in ARCHITECTURES, "architecture", self.architecture, " or ".join(ARCHITECTURES))
        require(0 <= self.dropout < 1, "dropout", self.dropout, "at least 0 and less than 1")
        require(self.frozen in FROZEN, "frozen", self.frozen, f"one of {', '.join(FROZEN)}")
        for name in ("max_passage_tokens", "max_phrase_tokens"):
            if getattr(self, name) is not None:
                require_count(name, getattr(self, name))


@dataclass(frozen=True)
class InitialModel:
    """A model ready to be trained, and the text of its tokenizer."""

    model: PhraseModel
    tokenizer_json: str
    truecaser: Truecaser | None = None


def initial_model(options: ModelOptions, *, seed: int = 0) -> InitialModel:
    """Return the model to begin with, with dropout set and frozen parameters marked; the seed is for new parts only.

    Raises:
        EncoderError: there is no such model, it is no BERT, or it cannot have the architecture asked for.
    """
    directory = find_encoder(options.init)
    truecaser = None
    if directory is not None:
        checkpoint = read_checkpoint(directory)
        config = _configured(checkpoint.config, options)
        if config.architecture != checkpoint.config.architecture:
            raise EncoderError(
                f"{options.init} is a {checkpoint.config.architecture} encoder, {config.architecture} was asked for; "
                "start from a BERT model for that"
            )
        weights, tokenizer_json, truecaser = checkpoint.weights, checkpoint.tokenizer_json, checkpoint.truecaser
    else:
        bert = read_pretrained(options.init)
        fresh = EncoderConfig(
            options.architecture or "shared-query",
            bert.backbone,
            uncased=bert.uncased,
            max_passage_tokens=min(_PASSAGE_TOKENS, bert.backbone.max_position_embeddings),
        )
        config = _configured(fresh, options)
        weights, tokenizer_json = _from_bert(bert, config, seed), bert.tokenizer_json
    model = empty_model(config, dropout=options.dropout)
    model.load_state_dict({name: tensor.clone() for name, tensor in weights.items()}, strict=True, assign=True)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not any(part in name for part in _FROZEN_NAMES[options.frozen]))
    if options.truecase and config.uncased:
        raise InvalidOptionError(f"truecase is on, but {options.init} is uncased: case makes no difference to it")
    return InitialModel(model, tokenizer_json, truecaser)


def _configured(config: EncoderConfig, options: ModelOptions) -> EncoderConfig:
    names = (
        "architecture",
        "passage_vector",
        "max_passage_tokens",
        "max_title_tokens",
        "max_phrase_tokens",
        "max_query_tokens",
    )
    return replace(config, **{n: getattr(options, n) for n in names if getattr(options, n) is not None})


def _from_bert(bert: PretrainedBert, config: EncoderConfig, seed: int) -> Mapping[str, Tensor]:
    """Return the tensors of our architecture: every tower is the BERT, heads begin as the identity.

    With identity heads q_start and q_end begin as the query's [CLS] state, as they are in DensePhrases.
    """
    with torch.random.fork_rng(devices=[]):  # the caller's generator is not moved
        torch.manual_seed(seed)
        weights = dict(build_model(config).state_dict())
    towers = ["phrase_encoder"]
    if config.architecture == "shared-query":
        towers.append("query_encoder")
        weights |= {name: tensor for name, tensor in bert.weights.items() if name.startswith("embeddings.")}
        for head in ("query_start_head", "query_end_head"):
            weights[f"{head}.weight"] = torch.eye(config.backbone.hidden_size)
            weights[f"{head}.bias"] = torch.zeros(config.backbone.hidden_size)
        parts = {name: tensor for name, tensor in bert.weights.items() if name.startswith("encoder.")}
    else:
        towers += ["query_start_encoder", "query_end_encoder"]
        parts = dict(bert.weights)
    for tower in towers:
        weights |= {f"{tower}.{name}": tensor for name, tensor in parts.items()}
    return weights
