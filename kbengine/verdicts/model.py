"""The verdict model: the reader's layers with one more head, which says how much a passage speaks for a claim."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from kbengine.encoders.bert import BertEmbeddings, BertStack, attention_mask
from kbengine.encoders.fused import FusedStack
from kbengine.reading.config import ReaderConfig

# Usual number of tokens that go through the stack at once; only the layout of prepacked weights depends on it.
_USUAL_ROWS = 2048


class VerdictOutput(NamedTuple):
    """What the model says about a batch of inputs.

    Attributes:
        log_odds: float32 (B,), of SUPPORTS against REFUTES, by this input alone.
        relevance: float32 (B,), how much it has to do with the claim, comparable between the claim's inputs.
    """

    log_odds: Tensor
    relevance: Tensor


class VerdictNetwork(nn.Module):
    """BERT with two scores from [CLS]; names as those of the reader that it begins with."""

    def __init__(self, config: ReaderConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config.backbone, dropout=dropout)
        self.encoder: BertStack | FusedStack = BertStack(config.backbone, dropout=dropout)
        self.relevance_output = nn.Linear(config.backbone.hidden_size, 1)
        self.verdict_output = nn.Linear(config.backbone.hidden_size, 1)

    def forward(self, input_ids: Tensor, token_types: Tensor, is_token: Tensor | None) -> VerdictOutput:
        """Return the log-odds and the relevance of each input.

        Args:
            input_ids: int64 (B, T), padded with any id.
            token_types: int64 (B, T), 0 for the claim and 1 for title and passage.
            is_token: bool (B, T), false at padding; `None` when there is none.
        """
        embedded = self.embeddings(input_ids, token_types)  # (B, T, H)
        states = self.encoder(embedded, attention_mask(is_token))  # (B, T, H)
        whole = states[:, 0].to(self.verdict_output.weight.dtype)  # (B, H)
        log_odds, relevance = self.verdict_output(whole).squeeze(1), self.relevance_output(whole).squeeze(1)  # (B,)
        return VerdictOutput(log_odds.float(), relevance.float())

    def prepare_inference(self, device: torch.device, dtype: torch.dtype) -> VerdictNetwork:
        """Return this very model, for inference only from now on: in evaluation mode, on the device, layers fused."""
        if isinstance(self.encoder, BertStack):
            self.encoder = FusedStack(self.encoder, device=device, dtype=dtype, usual_rows=_USUAL_ROWS)
        return self.eval().requires_grad_(False).to(device)


def empty_network(config: ReaderConfig, *, dropout: float = 0.0) -> VerdictNetwork:
    """Return a model without memory for its weights (on the meta device), to assign them to."""
    with torch.device("meta"):
        return VerdictNetwork(config, dropout=dropout)
