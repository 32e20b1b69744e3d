"""The loss of sparse encoders: the answer's tokens against all others, by dense + sparse scores and by dense alone."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from kbengine.training.losses import contrastive_loss


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
    dense_weight: float = 1.0,
) -> SparseLoss:
    """Return L(dense + sparse) + `dense_weight` · L(dense), as SPARC is trained.

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
        dense_weight: Of the auxiliary loss on dense scores alone.
    """
    combined = SideLogits(dense.start + sparse.start, dense.end + sparse.end)
    if bonus is not None:
        combined = SideLogits(combined.start + bonus, combined.end + bonus)
    of_both = _answer_loss(combined, gold, excluded, no_answer)
    of_dense = _answer_loss(dense, gold, excluded, no_answer)
    return SparseLoss(of_both + dense_weight * of_dense, of_both, of_dense)


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
