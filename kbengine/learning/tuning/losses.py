"""The losses of query-side fine-tuning, as functions of scores: B queries, C candidates of each.

All are marginal likelihoods over the retrieved candidates: −log of the probability of all right ones together. They
differ in what counts as right. Queries without a right candidate cost nothing; every loss is the mean over the others.
Two more ask nothing of what is right: staying close to the start, and following a reader.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import log_softmax

from kbengine.learning.phrases.losses import counted_mean, distillation_loss

Right = Literal["phrase", "doc", "passage", "joint"]
"""What makes a candidate right: an answer, a gold document, a gold passage, an answer in a gold document."""
Loss = Literal[Right, "task"]
"""The same for all rows, or "task": what each row's own task is judged by."""
LOSSES: tuple[Loss, ...] = get_args(Loss)


def marginal_loss(scores: Tensor, is_right: Tensor, is_candidate: Tensor) -> Tensor:
    """Return the mean of −log Σ_right softmax(scores), a float32 scalar (0 when no query has a right candidate).

    With `is_right` telling phrases that are an answer this is DensePhrases' Eq. 11, with phrases of a gold document
    Eq. 5 of "Phrase Retrieval Learns Passage Retrieval, Too".

    Args:
        scores: (B, C).
        is_right: bool (B, C).
        is_candidate: bool (B, C), false at padding.
    """
    right = is_right & is_candidate
    counts = right.any(dim=1)
    # A query without candidates or right ones would be all −inf, whose gradient is not a number.
    candidates = is_candidate | ~counts[:, None]
    right = right | ~counts[:, None]
    log_probabilities = log_softmax(scores.float().masked_fill(~candidates, -torch.inf), dim=1)
    losses = -torch.logsumexp(log_probabilities.masked_fill(~right, -torch.inf), dim=1)  # (B,)
    return counted_mean(losses, counts)


def phrase_loss(
    start: Tensor, end: Tensor, is_right: Tensor, is_candidate: Tensor, *, separate_ends: bool = False
) -> Tensor:
    """Return the marginal loss of phrases scored `start + end`.

    Args:
        start: (B, C), first tokens against q_start.
        end: (B, C), last tokens against q_end.
        is_right: bool (B, C).
        is_candidate: bool (B, C).
        separate_ends: add the same loss of the start scores alone and of the end scores alone, as DensePhrases is
            coded; its Eq. 11 is the first term only.
    """
    loss = marginal_loss(start + end, is_right, is_candidate)
    if separate_ends:
        loss = loss + marginal_loss(start, is_right, is_candidate) + marginal_loss(end, is_right, is_candidate)
    return loss


def closeness_loss(scores: Tensor, start_scores: Tensor, is_candidate: Tensor) -> Tensor:
    """Return KL(start ‖ now) between the distributions over candidates, the mean over queries: a float32 scalar.

    It asks nothing of which candidates are right, so that queries without a right one hold the encoder too.

    Args:
        scores: (B, C), of the encoder as it is.
        start_scores: (B, C), of the encoder that tuning began with; no gradient flows there.
        is_candidate: bool (B, C).
    """
    return distillation_loss(scores, start_scores.detach(), is_candidate, is_candidate.any(dim=1))


def reader_loss(scores: Tensor, reader_scores: Tensor, is_read: Tensor) -> Tensor:
    """Return KL(reader ‖ now) between the distributions over the candidates that a reader read, a float32 scalar.

    It is the mean over the queries for which it read any; the others cost nothing.

    Args:
        scores: (B, C), of the encoder as it is.
        reader_scores: (B, C), start + end logit of each phrase, comparable between the passages of a query.
        is_read: bool (B, C), false at padding and for phrases of passages that were not read.
    """
    return distillation_loss(scores, reader_scores.detach(), is_read, is_read.any(dim=1))
