"""The sparse encoders: rectified self-attention whose weights are those of n-grams (SPARC, ACL 2020, Eq. 1 and 2)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from kbengine.sparse.config import SIDES, Side, SparseConfig
from kbengine.sparse.grams import NO_GRAM


class SparseHead(nn.Module):
    """One attention: `ReLU(Q Kᵀ / √H)` with Q and K linear over the whole state (Eq. 1, before F)."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        for projection in (self.query, self.key):
            # BERT's 0.02 would make scores, products of two attentions, so small that training hardly begins.
            nn.init.normal_(projection.weight, std=1 / math.sqrt(hidden_size))
            nn.init.zeros_(projection.bias)

    def weights(self, states: Tensor, rows: slice | None = None) -> Tensor:
        """Return the weight of each position for each token, (B, T, H) → (B, R, T), no token weighing itself.

        Args:
            states: (B, T, H).
            rows: The R tokens whose weights are wanted; all by default.
        """
        T = states.shape[1]
        rows = rows if rows is not None else slice(0, T)
        query = self.query(states[:, rows])  # (B, R, H)
        scores = query @ self.key(states).transpose(1, 2) / math.sqrt(states.shape[2])  # (B, R, T)
        own = torch.eye(T, dtype=torch.bool, device=states.device)[rows]  # (R, T)
        return torch.relu(scores).masked_fill(own, 0.0)

    def query_weights(self, states: Tensor) -> Tensor:
        """Return the weight of each position for [CLS], (B, T, H) → (B, T)."""
        cls = self.query(states[:, :1])  # (B, 1, H)
        scores = cls @ self.key(states).transpose(1, 2) / math.sqrt(states.shape[2])  # (B, 1, T)
        weights = torch.relu(scores.squeeze(1))
        # Not in place: the graph of relu needs its output.
        return torch.cat([torch.zeros_like(weights[:, :1]), weights[:, 1:]], dim=1)


class SparseHeads(nn.Module):
    """All heads of a sparse encoder: a start and an end head for each n-gram length, of passages and of queries."""

    def __init__(self, config: SparseConfig) -> None:
        super().__init__()
        self.config = config
        names = [_name(side, order) for side in SIDES for order in config.orders]
        self.passage_heads = nn.ModuleDict({name: SparseHead(config.hidden_size) for name in names})
        if not config.shared_heads:
            self.query_heads = nn.ModuleDict({name: SparseHead(config.hidden_size) for name in names})

    def passage_head(self, side: Side, order: int) -> SparseHead:
        """Return the head that weighs the n-grams of passages."""
        head = self.passage_heads[_name(side, order)]
        assert isinstance(head, SparseHead)
        return head

    def query_head(self, side: Side, order: int) -> SparseHead:
        """Return the head that weighs the n-grams of queries."""
        heads = self.passage_heads if self.config.shared_heads else self.query_heads
        head = heads[_name(side, order)]
        assert isinstance(head, SparseHead)
        return head

    def scores(
        self, states: Tensor, grams: Tensor, query_states: tuple[Tensor, Tensor], query_grams: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the sparse inner products of every token with its query, start and end side, both (B, T).

        `s_i · s_q = (S F)(s' F')ᵀ` with one-hot rows F, F' is `S (F F'ᵀ) s'`, and `F F'ᵀ` is 1 exactly where two
        positions have the same n-gram (Eq. 2): no vector over the vocabulary is ever made.

        Args:
            states: (B, T, H), token states of passages.
            grams: int64 (B, K, T), from `gram_numbers`, for each of the K orders.
            query_states: Two of (B, U, H), token states of the queries for the start and the end side.
            query_grams: int64 (B, K, U).
        """
        sides: list[Tensor] = []
        for side, of_query in zip(SIDES, query_states, strict=True):
            total = states.new_zeros(states.shape[:2], dtype=torch.float32)
            for k, order in enumerate(self.config.orders):
                weights = self.query_head(side, order).query_weights(of_query).float()  # (B, U)
                match = gram_match(grams[:, k], query_grams[:, k]).to(weights.dtype)  # (B, T, U)
                matched = match @ weights[:, :, None]  # (B, T, 1)
                attention = self.passage_head(side, order).weights(states).float()  # (B, T, T)
                total = total + (attention @ matched).squeeze(2)
            sides.append(total)
        return sides[0], sides[1]


def gram_match(grams: Tensor, query_grams: Tensor) -> Tensor:
    """Return which positions have the same n-gram, int64 (B, T) and (B, U) → bool (B, T, U)."""
    return (grams[:, :, None] == query_grams[:, None, :]) & (grams != NO_GRAM)[:, :, None]


def _name(side: Side, order: int) -> str:
    return f"{side}_{order}"
