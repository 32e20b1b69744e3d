"""The cross-encoder: query and passage in one BERT input, logits for every token and one score for the passage."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from kbengine.encoders.bert import BertEmbeddings, BertStack, attention_mask
from kbengine.encoders.fused import FusedStack
from kbengine.reading.config import ReaderConfig

# Usual number of tokens that go through the stack at once; only the layout of prepacked weights depends on it.
_USUAL_ROWS = 2048
_INITIAL_STD = 0.02


class ReaderOutput(NamedTuple):
    """What the cross-encoder says about a batch of inputs.

    Attributes:
        logits: float32 (B, T, 2 + 2 pair_size), start and end logit of every token, those of [CLS] standing for "no
            answer"; then its vector as a first token, and its vector as a last one.
        relevance: float32 (B,), how well the passage as a whole fits the query, comparable between its passages.
    """

    logits: Tensor
    relevance: Tensor


class CrossEncoder(nn.Module):
    """BERT with the two-logit head of the SQuAD models and one score from [CLS]; names as in Hugging Face, no `bert.`.

    The logits of [CLS] stand for "no answer", as in BERT's SQuAD 2.0 setting. A span scores start + end logit and, with
    `pair_size`, the product of its first token's vector and its last one's: of two places that answer, one's start and
    the other's end are no answer together.
    """

    def __init__(self, config: ReaderConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config.backbone, dropout=dropout)
        self.encoder: BertStack | FusedStack = BertStack(config.backbone, dropout=dropout)
        self.qa_outputs = nn.Linear(config.backbone.hidden_size, 2)
        self.pair_outputs: nn.Linear | None = None
        if config.pair_size:
            self.pair_outputs = nn.Linear(config.backbone.hidden_size, 2 * config.pair_size)
        self.relevance_output = nn.Linear(config.backbone.hidden_size, 1)

    def forward(self, input_ids: Tensor, token_types: Tensor, is_token: Tensor | None) -> ReaderOutput:
        """Return the logits of every token and the relevance of each passage.

        Args:
            input_ids: int64 (B, T), padded with any id.
            token_types: int64 (B, T), 0 for the query and 1 for title and passage (0 where there is only one type).
            is_token: bool (B, T), false at padding; `None` when there is none.
        """
        embedded = self.embeddings(input_ids, token_types)  # (B, T, H)
        states = self.encoder(embedded, attention_mask(is_token))  # (B, T, H)
        states = states.to(self.qa_outputs.weight.dtype)
        relevance = self.relevance_output(states[:, 0]).squeeze(1)  # (B,)
        logits = self.qa_outputs(states)  # (B, T, 2)
        if self.pair_outputs is not None:
            logits = torch.cat([logits, self.pair_outputs(states)], dim=2)
        return ReaderOutput(logits.float(), relevance.float())

    def prepare_inference(self, device: torch.device, dtype: torch.dtype) -> CrossEncoder:
        """Return this very model, for inference only from now on: in evaluation mode, on the device, layers fused."""
        if isinstance(self.encoder, BertStack):
            self.encoder = FusedStack(self.encoder, device=device, dtype=dtype, usual_rows=_USUAL_ROWS)
        return self.eval().requires_grad_(False).to(device)


def build_cross_encoder(config: ReaderConfig, *, dropout: float = 0.0) -> CrossEncoder:
    """Return a cross-encoder with BERT's initial random weights (seed torch before)."""
    model = CrossEncoder(config, dropout=dropout)
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=_INITIAL_STD)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
    if model.pair_outputs is not None:  # lasts begin at zero: pairs say nothing at first, and both sides learn
        nn.init.zeros_(model.pair_outputs.weight[config.pair_size :])
    return model


def empty_cross_encoder(config: ReaderConfig, *, dropout: float = 0.0) -> CrossEncoder:
    """Return a cross-encoder without memory for its weights (on the meta device), to assign them to."""
    with torch.device("meta"):
        return CrossEncoder(config, dropout=dropout)
