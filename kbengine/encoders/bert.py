"""The BERT encoder as plain modules, parameters named as in Hugging Face's `BertModel`: its weights load by name."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from kbengine.encoders.attention import attend
from kbengine.encoders.config import BackboneConfig


def _embedding(n: int, d: int) -> nn.Embedding:
    # Without values: torch's own normal_() on the meta device imports its compiler, which takes over a second.
    return nn.Embedding(n, d, _weight=torch.empty(n, d))


class BertEmbeddings(nn.Module):
    """Word, position and token-type embeddings, summed and normalised."""

    def __init__(self, config: BackboneConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.word_embeddings = _embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = _embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = _embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, input_ids: Tensor, token_type: int | Tensor = 0) -> Tensor:
        """Return the embedded tokens, (B, T) int64 → (B, T, H); one type for all tokens, or int64 (B, T) of them."""
        T = input_ids.shape[1]
        embedded = self.word_embeddings(input_ids) + self.position_embeddings.weight[:T]  # (B, T, H)
        normalised: Tensor = self.LayerNorm(embedded + self.token_type_embeddings.weight[token_type])
        return self.dropout(normalised)  # type: ignore[no-any-return]  # torch modules return Any


class BertSelfAttention(nn.Module):
    """Multi-head self-attention, without its output projection."""

    def __init__(self, config: BackboneConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.n_heads = config.num_attention_heads
        self.dropout_p = dropout
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attended values, (B, T, H) → (B, T, H)."""
        B, T, H = hidden.shape
        query, key, value = (
            projection(hidden).view(B, T, self.n_heads, -1).transpose(1, 2)  # (B, heads, T, H / heads)
            for projection in (self.query, self.key, self.value)
        )
        attended = attend(query, key, value, mask, dropout=self.dropout_p if self.training else 0.0)
        return attended.transpose(1, 2).reshape(B, T, H)


class BertOutput(nn.Module):
    """A projection back to the hidden size, added to the residual and normalised."""

    def __init__(self, config: BackboneConfig, n_inputs: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dense = nn.Linear(n_inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, residual: Tensor) -> Tensor:
        """Return `LayerNorm(residual + dense(inputs))`, (B, T, H)."""
        return self.LayerNorm(residual + self.dropout(self.dense(inputs)))  # type: ignore[no-any-return]  # torch


class BertAttention(nn.Module):
    """Self-attention with its output projection."""

    def __init__(self, config: BackboneConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.self = BertSelfAttention(config, dropout=dropout)
        self.output = BertOutput(config, config.hidden_size, dropout=dropout)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the layer's states after attention, (B, T, H)."""
        return self.output(self.self(hidden, mask), hidden)  # type: ignore[no-any-return]  # torch


class BertIntermediate(nn.Module):
    """The widening half of the feed-forward network."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the widened states, (B, T, H) → (B, T, I)."""
        return gelu(self.dense(hidden))


class BertLayer(nn.Module):
    """One transformer layer, normalised after each half."""

    def __init__(self, config: BackboneConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = BertAttention(config, dropout=dropout)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config, config.intermediate_size, dropout=dropout)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the layer's states, (B, T, H) → (B, T, H)."""
        attended = self.attention(hidden, mask)
        return self.output(self.intermediate(attended), attended)  # type: ignore[no-any-return]  # torch


class BertStack(nn.Module):
    """The layers one after the other: what Hugging Face calls `encoder`."""

    def __init__(self, config: BackboneConfig, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = nn.ModuleList(BertLayer(config, dropout=dropout) for _ in range(config.num_hidden_layers))

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Return the last hidden states, (B, T, H) → (B, T, H); `mask` as from `attention_mask`."""
        for layer in self.layer:
            hidden = layer(hidden, mask)
        return hidden


def attention_mask(is_token: Tensor | None) -> Tensor | None:
    """Return the mask for attention, (B, T) bool → (B, 1, 1, T) bool, true where a key may be attended to."""
    return None if is_token is None else is_token[:, None, None, :]


def masked_mean(states: Tensor, is_token: Tensor | None) -> Tensor:
    """Return the mean over the real tokens, (B, T, H) → (B, H)."""
    if is_token is None:
        return states.mean(dim=1)
    weights = is_token.to(states.dtype).unsqueeze(-1)  # (B, T, 1)
    return torch.sum(states * weights, dim=1) / weights.sum(dim=1)
