"""The loss of sparse encoders: the answer's tokens against all others, by dense + sparse scores and by dense alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kbengine.learning.phrases.losses import contrastive_loss


class SideLogits(NamedTuple):
    """Scores of tokens as starts and as ends, both (B, N)."""

    start: Tensor
    end: Tensor


class SparseLoss(NamedTuple):
    """The weighted sum and its two parts, scalars."""

    total: Tensor
    combined: Tensor
    dense: Tensor


def sparse_loss(
    dense: SideLogits,
    sparse: SideLogits,
    gold: tuple[Tensor, Tensor],
    excluded: tuple[Tensor, Tensor],
    *,
    no_answer: Tensor,
    bonus: Tensor | None = None,
    dense_scale: float = 1.0,
    dense_weight: float = 1.0,
) -> SparseLoss:
    """Return L(`dense_scale` · dense + sparse) + `dense_weight` · L(dense), as SPARC is trained (its scale is 1).

    L is the mean of two cross-entropies, of first and of last tokens, over all tokens of the row and a learned logit
    for "no answer". (SPARC's loss has a third one over spans, for a span score that this encoder has not; without that
    score it is the sum of the two.)

    Args:
        dense: Inner products of dense vectors.
        sparse: Inner products of sparse vectors.
        gold: Two int64 (B,), the columns of the answer's first and last token; −1: the row has no answer; −2: it has
            one that is not among the columns, and costs nothing.
        excluded: Two bool (B, N), columns outside the softmax for first and for last tokens.
        no_answer: (2,), the learned logits of "no answer", start and end.
        bonus: (B, N), added to the combined logits: lexical similarity of negatives, which makes them harder.
        dense_scale: Of dense scores beside sparse ones.
        dense_weight: Of the auxiliary loss on dense scores alone.
    """
    combined = SideLogits(dense_scale * dense.start + sparse.start, dense_scale * dense.end + sparse.end)
    if bonus is not None:
        combined = SideLogits(combined.start + bonus, combined.end + bonus)
    of_both = _answer_loss(combined, gold, excluded, no_answer)
    of_dense = _answer_loss(dense, gold, excluded, no_answer)
    return SparseLoss(of_both + dense_weight * of_dense, of_both, of_dense)


def in_batch_loss(
    scores: SideLogits, gold: tuple[Tensor, Tensor], excluded: tuple[Tensor, Tensor], outside: Tensor, never: Tensor
) -> Tensor:
    """Return the answers' first and last tokens against all tokens of all passages of the batch, a scalar.

    Args:
        scores: Two of (B, T, B): passage, token, query; query b's own passage is the b-th.
        gold: Two int64 (B,), as in `sparse_loss`; rows without a gold token cost nothing.
        excluded: Two bool (B, T), tokens of each passage outside the softmax of its own query: no text, other answers.
        outside: bool (B, T), tokens that are no text.
        never: bool (B, B), passage and query: passages whose tokens are no negatives of the query.
    """
    B, T, _ = scores.start.shape
    own = torch.arange(B, device=never.device)
    losses = []
    for side, column, out in zip(scores, gold, excluded, strict=True):
        left_out = never[:, None, :] | outside[:, :, None]  # (B, T, B)
        left_out[own, :, own] = out
        columns = torch.where(column < 0, -1, own * T + column)
        logits, left_out = (each.permute(2, 0, 1).reshape(B, B * T) for each in (side, left_out))
        losses.append(contrastive_loss(logits, columns, left_out))
    return (losses[0] + losses[1]) / 2


def _answer_loss(
    logits: SideLogits, gold: tuple[Tensor, Tensor], excluded: tuple[Tensor, Tensor], no_answer: Tensor
) -> Tensor:
    losses = []
    for side, (scores, column, out) in enumerate(zip(logits, gold, excluded, strict=True)):
        default = no_answer[side].float().expand(scores.shape[0], 1)
        widened = torch.cat([default, scores.float()], dim=1)  # (B, 1 + N)
        never = torch.cat([out.new_zeros(out.shape[0], 1), out], dim=1)
        losses.append(contrastive_loss(widened, column + 1, never))
    return (losses[0] + losses[1]) / 2
