"""The sparse encoders: rectified self-attention whose weights are those of n-grams (SPARC, ACL 2020, Eq. 1 and 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kbengine.encoders.sparse.config import SIDES, Side, SparseConfig
from kbengine.encoders.sparse.grams import NO_GRAM


@dataclass(frozen=True)
class Beginning:
    """How an attention's weights begin.

    Attributes:
        gain: Of the random projections; 1 keeps the size of the states.
        level: What every position weighs where the states say nothing: from the biases.
        alike: Whether Q and K begin as the same projection, so that like states weigh each other.
    """

    gain: float
    level: float
    alike: bool


# Measured: scores begin small beside dense ones, and every shared n-gram counts a little. Random square projections
# begin with scores as large as the dense ones, and training spends its steps on undoing them.
PASSAGE_BEGINNING = Beginning(gain=0.7, level=0.1, alike=True)
QUERY_BEGINNING = Beginning(gain=0.5, level=0.5, alike=False)


class SparseHead(nn.Module):
    """One attention: `ReLU(Q Kᵀ / √d)` with Q and K linear over the whole state, H → d (Eq. 1, before F)."""

    def __init__(self, hidden_size: int, head_size: int, beginning: Beginning = PASSAGE_BEGINNING) -> None:
        super().__init__()
        self.query = nn.Linear(hidden_size, head_size)
        self.key = nn.Linear(hidden_size, head_size)
        for projection in (self.query, self.key):
            nn.init.normal_(projection.weight, std=beginning.gain / math.sqrt(hidden_size))
            # The product of the two biases, over √d, is the level.
            nn.init.constant_(projection.bias, math.sqrt(beginning.level / math.sqrt(head_size)))
        if beginning.alike:
            with torch.no_grad():
                self.key.weight.copy_(self.query.weight)

    def weights(self, states: Tensor) -> Tensor:
        """Return the weight of each position for each token, (B, T, H) → (B, T, T), no token weighing itself."""
        query = self.query(states)  # (B, T, H)
        scores = query @ self.key(states).transpose(1, 2) / math.sqrt(query.shape[2])  # (B, T, T)
        own = torch.eye(states.shape[1], dtype=torch.bool, device=states.device)
        return torch.relu(scores).masked_fill(own, 0.0)

    def query_weights(self, states: Tensor) -> Tensor:
        """Return the weight of each position for [CLS], (B, T, H) → (B, T)."""
        cls = self.query(states[:, :1])  # (B, 1, H)
        scores = cls @ self.key(states).transpose(1, 2) / math.sqrt(cls.shape[2])  # (B, 1, T)
        weights = torch.relu(scores.squeeze(1))
        # Not in place: the graph of relu needs its output.
        return torch.cat([torch.zeros_like(weights[:, :1]), weights[:, 1:]], dim=1)


class SparseHeads(nn.Module):
    """All heads of a sparse encoder: a start and an end head for each n-gram length, of passages and of queries."""

    def __init__(self, config: SparseConfig) -> None:
        super().__init__()
        self.config = config
        names = [_name(side, order) for side in SIDES for order in config.orders]
        sizes = (config.hidden_size, config.head_size)
        self.passage_heads = nn.ModuleDict({name: SparseHead(*sizes, PASSAGE_BEGINNING) for name in names})
        if not config.shared_heads:
            self.query_heads = nn.ModuleDict({name: SparseHead(*sizes, QUERY_BEGINNING) for name in names})

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
        self,
        states: Tensor,
        grams: Tensor,
        query_states: tuple[Tensor, Tensor],
        query_grams: Tensor,
        *,
        as_stored: bool = False,
        every_query: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Return the sparse inner products of every token with its query, start and end side, both (B, T).

        `s_i · s_q = (S F)(s' F')ᵀ` with one-hot rows F, F' is `S (F F'ᵀ) s'`, and `F F'ᵀ` is 1 exactly where two
        positions have the same n-gram (Eq. 2): no vector over the vocabulary is ever made.

        Args:
            states: (B, T, H), token states of passages.
            grams: int64 (B, K, T), from `gram_numbers`, for each of the K orders.
            query_states: Two of (B, U, H), token states of the queries for the start and the end side.
            query_grams: int64 (B, K, U).
            as_stored: Whether only the heaviest `config.top` positions of each token count, about as in stored rows.
            every_query: Score every token with every one of Q queries instead, both (B, T, Q). A passage's attention
                is computed once for all: `A (F s'₁ … F s'_Q)`, where a row of the right factor holds what each query
                gives to the n-gram of one position.
        """
        given = _given_by_every if every_query else _given_by_own
        sides: list[Tensor] = []
        for side, of_query in zip(SIDES, query_states, strict=True):
            attention = self._attention(side, states, grams, as_stored=as_stored)  # (B, K, T, T)
            total = states.new_zeros((), dtype=torch.float32)
            for k, order in enumerate(self.config.orders):
                weights = self.query_head(side, order).query_weights(of_query).float()  # (B or Q, U)
                total = total + attention[:, k] @ given(grams[:, k], query_grams[:, k], weights)  # (B, T, 1 or Q)
            sides.append(total if every_query else total.squeeze(2))
        return sides[0], sides[1]

    def _attention(self, side: Side, states: Tensor, grams: Tensor, *, as_stored: bool) -> Tensor:
        """Return the weight of each position's n-gram for each token, float32 (B, K, T, T)."""
        orders = self.config.orders
        weights = torch.stack([self.passage_head(side, order).weights(states).float() for order in orders], dim=1)
        B, K, T, _ = weights.shape
        if not as_stored or self.config.top >= K * T:
            return weights
        weights = weights * (grams != NO_GRAM)[:, :, None, :]
        rows = weights.detach().transpose(1, 2).reshape(B, T, K * T)
        least = torch.topk(rows, self.config.top, dim=2).values[:, :, -1]  # (B, T)
        return weights * (weights >= least[:, None, :, None])


def _given_by_own(grams: Tensor, query_grams: Tensor, weights: Tensor) -> Tensor:
    """Return what each row's own query gives to the n-gram at each position, (B, T), (B, U), (B, U) → (B, T, 1)."""
    return gram_match(grams, query_grams).to(weights.dtype) @ weights[:, :, None]


def _given_by_every(grams: Tensor, query_grams: Tensor, weights: Tensor) -> Tensor:
    """Return what each query gives to the n-gram at each position, (B, T), (Q, U) and (Q, U) → (B, T, Q)."""
    grams, query_grams = grams.contiguous(), query_grams.contiguous()
    known = torch.unique(query_grams)
    known = known[known != NO_GRAM]
    n, Q = len(known), len(query_grams)
    # One row for each n-gram of any query, and a last one, all 0, for what no query has.
    rows = torch.where(query_grams == NO_GRAM, n, torch.searchsorted(known, query_grams))  # (Q, U)
    columns = torch.arange(Q, device=grams.device)[:, None].expand_as(rows)
    counted = weights * (query_grams != NO_GRAM)
    table = weights.new_zeros(n + 1, Q).index_put((rows, columns), counted, accumulate=True)  # (n + 1, Q)
    if not n:
        return table[torch.zeros_like(grams)]
    at = torch.searchsorted(known, grams).clamp_max(n - 1)  # (B, T)
    return table[torch.where(known[at] == grams, at, n)]


def gram_match(grams: Tensor, query_grams: Tensor) -> Tensor:
    """Return which positions have the same n-gram, int64 (B, T) and (B, U) → bool (B, T, U)."""
    return (grams[:, :, None] == query_grams[:, None, :]) & (grams != NO_GRAM)[:, :, None]


def _name(side: Side, order: int) -> str:
    return f"{side}_{order}"
