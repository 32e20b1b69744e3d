"""The two architectures: a phrase encoder, query encoders and a filter head over BERT stacks.

`shared-query`: both encoders share the embeddings; the query's [CLS] goes through a start and an end head.
`three-tower` (DensePhrases): three whole encoders; q_start and q_end are the [CLS] states of the last two.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from kbengine.encoders.bert import BertEmbeddings, BertStack, attention_mask, masked_mean
from kbengine.encoders.config import EncoderConfig
from kbengine.encoders.fused import FusedStack

# Usual numbers of tokens that go through a stack at once; only the layout of prepacked weights depends on them.
_USUAL_PASSAGE_ROWS = 2048
_USUAL_QUERY_ROWS = 12
_INITIAL_STD = 0.02

QUERY_PREFIX = "query_"
"""How the names of the query side's tensors begin, in both architectures."""


class QueryOutput(NamedTuple):
    """A batch of query vectors: start and end (n, d); passage (n, d), rows L2-normalised (or zeros)."""

    start: Tensor
    end: Tensor
    passage: Tensor


class Tower(nn.Module):
    """One encoder: its layers, and its own embeddings unless the model shares them."""

    def __init__(self, config: EncoderConfig, *, own_embeddings: bool, dropout: float) -> None:
        super().__init__()
        if own_embeddings:
            self.embeddings = BertEmbeddings(config.backbone, dropout=dropout)
        self.encoder: BertStack | FusedStack = BertStack(config.backbone, dropout=dropout)

    def fuse(self, device: torch.device, dtype: torch.dtype, usual_rows: int, *, prepack: bool) -> None:
        """Replace the layers by fused copies for inference."""
        if isinstance(self.encoder, BertStack):
            self.encoder = FusedStack(self.encoder, device=device, dtype=dtype, usual_rows=usual_rows, prepack=prepack)


class PhraseModel(nn.Module, ABC):
    """What both architectures do; built by `build_model`. Vectors to keep need `eval()`, else dropout is in them."""

    phrase_encoder: Tower
    filter_head: nn.Linear

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config

    def passage_states(self, input_ids: Tensor, is_token: Tensor | None) -> Tensor:
        """Return the phrase encoder's last hidden states, (B, T) int64 → (B, T, H).

        Args:
            input_ids: int64 (B, T), padded with any id.
            is_token: bool (B, T), false at padding; `None` when there is none.
        """
        embedded = self._passage_embeddings()(input_ids, self.config.passage_token_type)
        return self.phrase_encoder.encoder(embedded, attention_mask(is_token))  # type: ignore[no-any-return]  # torch

    def filter_logits(self, states: Tensor) -> Tensor:
        """Return start and end logits, (..., H) float32 → (..., 2)."""
        return self.filter_head(states)  # type: ignore[no-any-return]  # torch modules return Any

    def passage_vectors(self, states: Tensor, is_token: Tensor | None) -> Tensor:
        """Return the pooled vectors of passages, not yet normalised, (B, T, H) → (B, H)."""
        if not self.config.has_passage_vector:
            return states.new_zeros(states.shape[0], states.shape[2])
        return masked_mean(states, is_token)

    def query_vectors(self, input_ids: Tensor, is_token: Tensor | None) -> QueryOutput:
        """Return the vectors of queries, (B, T) int64 → three of (B, H); arguments as of `passage_states`."""
        return self.query_output(self.query_states(input_ids, is_token), is_token)

    @abstractmethod
    def query_states(self, input_ids: Tensor, is_token: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the last hidden states of queries for the start and the end side, (B, T) int64 → two of (B, T, H)."""

    @abstractmethod
    def query_output(self, states: tuple[Tensor, Tensor], is_token: Tensor | None) -> QueryOutput:
        """Return the vectors of queries from what `query_states` gave."""

    @abstractmethod
    def query_towers(self) -> tuple[Tower, ...]:
        """Return the query encoders."""

    def prepare_inference(
        self, device: torch.device, passage_dtype: torch.dtype, *, prepack: bool = True, with_queries: bool = True
    ) -> PhraseModel:
        """Return this very model, for inference only from now on: in evaluation mode, on the device, layers fused.

        Queries are float32 whatever the passages are, so that their vectors do not depend on the batch. Without them
        their weights are let go: something else computes queries.
        """
        if with_queries:
            for tower in self.query_towers():
                tower.fuse(device, torch.float32, _USUAL_QUERY_ROWS, prepack=prepack)
        else:
            for name in [each for each in self._modules if each.startswith(QUERY_PREFIX)]:
                del self._modules[name]
        self.phrase_encoder.fuse(device, passage_dtype, _USUAL_PASSAGE_ROWS, prepack=prepack)
        return self.eval().requires_grad_(False).to(device)

    def with_query_weights(
        self, weights: Mapping[str, Tensor], device: torch.device, *, prepack: bool = True
    ) -> PhraseModel:
        """Return a model for inference that shares everything with this one but the query modules of these weights.

        Args:
            weights: float32 tensors under this model's names, whole modules (a head, a tower) of its query side.
            device: where this model is.
            prepack: whether to reorder weights for oneDNN on a CPU that has it.
        """
        source = empty_model(self.config)
        model = copy.copy(self)
        model._modules = dict(self._modules)
        for top in sorted({name.partition(".")[0] for name in weights}):
            module = getattr(source, top)
            own = {name.removeprefix(f"{top}."): each for name, each in weights.items() if name.startswith(f"{top}.")}
            module.load_state_dict(own, strict=True, assign=True)
            if isinstance(module, Tower):
                module.fuse(device, torch.float32, _USUAL_QUERY_ROWS, prepack=prepack)
            model._modules[top] = module.eval().requires_grad_(False).to(device)
        return model

    def _passage_embeddings(self) -> BertEmbeddings:
        return self.phrase_encoder.embeddings

    def _pooled_query(self, pooled: Tensor) -> Tensor:
        return normalize(pooled, dim=-1) if self.config.has_passage_vector else torch.zeros_like(pooled)


class SharedQueryModel(PhraseModel):
    """One query encoder with a start and an end head; embeddings shared with the phrase encoder."""

    def __init__(self, config: EncoderConfig, *, dropout: float = 0.0) -> None:
        super().__init__(config)
        H = config.backbone.hidden_size
        self.embeddings = BertEmbeddings(config.backbone, dropout=dropout)
        self.phrase_encoder = Tower(config, own_embeddings=False, dropout=dropout)
        self.query_encoder = Tower(config, own_embeddings=False, dropout=dropout)
        self.query_start_head = nn.Linear(H, H)
        self.query_end_head = nn.Linear(H, H)
        self.filter_head = nn.Linear(H, 2)

    def query_states(self, input_ids: Tensor, is_token: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the query encoder's states, twice the same."""
        states = self.query_encoder.encoder(self.embeddings(input_ids), attention_mask(is_token))  # (B, T, H)
        return states, states

    def query_output(self, states: tuple[Tensor, Tensor], is_token: Tensor | None) -> QueryOutput:
        """Return the vectors of queries: heads of [CLS], and the mean over all tokens."""
        cls = states[0][:, 0]
        pooled = self._pooled_query(masked_mean(states[0], is_token))
        return QueryOutput(self.query_start_head(cls), self.query_end_head(cls), pooled)

    def query_towers(self) -> tuple[Tower, ...]:
        """Return the one query encoder."""
        return (self.query_encoder,)

    def _passage_embeddings(self) -> BertEmbeddings:
        return self.embeddings


class ThreeTowerModel(PhraseModel):
    """Three whole encoders; q_start and q_end are [CLS] states."""

    def __init__(self, config: EncoderConfig, *, dropout: float = 0.0) -> None:
        super().__init__(config)
        self.phrase_encoder = Tower(config, own_embeddings=True, dropout=dropout)
        self.query_start_encoder = Tower(config, own_embeddings=True, dropout=dropout)
        self.query_end_encoder = Tower(config, own_embeddings=True, dropout=dropout)
        self.filter_head = nn.Linear(config.backbone.hidden_size, 2)

    def query_states(self, input_ids: Tensor, is_token: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the states of the start and of the end encoder."""
        mask = attention_mask(is_token)
        start, end = (tower.encoder(tower.embeddings(input_ids), mask) for tower in self.query_towers())  # (B, T, H)
        return start, end

    def query_output(self, states: tuple[Tensor, Tensor], is_token: Tensor | None) -> QueryOutput:
        """Return the vectors of queries: [CLS] of each encoder, and the mean over the tokens of both."""
        start, end = states
        pooled = self._pooled_query((masked_mean(start, is_token) + masked_mean(end, is_token)) / 2)
        return QueryOutput(start[:, 0], end[:, 0], pooled)

    def query_towers(self) -> tuple[Tower, ...]:
        """Return the start and the end encoder."""
        return (self.query_start_encoder, self.query_end_encoder)


def query_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return those of a model's tensors that only queries go through: what may change without touching an index."""
    return {name: tensor for name, tensor in weights.items() if name.startswith(QUERY_PREFIX)}


def build_model(config: EncoderConfig, *, dropout: float = 0.0) -> PhraseModel:
    """Return a model of the configured architecture with BERT's initial random weights (seed torch before)."""
    model = _model(config, dropout)
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=_INITIAL_STD)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
    return model


def empty_model(config: EncoderConfig, *, dropout: float = 0.0) -> PhraseModel:
    """Return a model without memory for its weights (on the meta device), to assign them to or to ask for shapes."""
    with torch.device("meta"):
        return _model(config, dropout)


def _model(config: EncoderConfig, dropout: float) -> PhraseModel:
    if config.architecture == "shared-query":
        return SharedQueryModel(config, dropout=dropout)
    return ThreeTowerModel(config, dropout=dropout)
