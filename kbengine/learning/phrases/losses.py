"""The losses of phrase encoders, as functions of logits and vectors; equations are those of DensePhrases (ACL 2021).

B examples, T tokens of a passage input, N columns (phrases or passages compared with), H dimensions. Rows without a
gold answer (`gold` −1) cost nothing; every loss is the mean over the rows that have one, and 0 when none has.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, log_softmax, normalize

Direction = Literal["teacher-student", "student-teacher", "both"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


def contrastive_loss(logits: Tensor, gold: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Return the mean of −log softmax at the gold columns, a float32 scalar.

    Args:
        logits: (B, N).
        gold: int64 (B,), the gold column; −1 leaves the row out.
        excluded: bool (B, N), columns that are no negatives of the row (padding, other right answers); the gold column
            counts whatever it says here.
    """
    has_gold = gold >= 0
    columns = gold.clamp_min(0)[:, None]
    logits = logits.float()
    if excluded is not None:
        logits = logits.masked_fill(excluded.scatter(1, columns, False), -torch.inf)
    losses = -log_softmax(logits, dim=1).gather(1, columns).squeeze(1)  # (B,)
    return counted_mean(losses, has_gold)


def single_passage_loss(
    start_logits: Tensor, end_logits: Tensor, gold_start: Tensor, gold_end: Tensor, excluded: tuple[Tensor, Tensor]
) -> Tensor:
    """Return L_single: the answer's first and last token against all others of its passage (Eq. 5 and 6).

    The paper's softmax over spans with a mean over the other end equals, but for a constant, the mean of two
    cross-entropies: over first tokens and over last tokens.

    Args:
        start_logits: (B, T), h_i · q_start.
        end_logits: (B, T), h_j · q_end.
        gold_start: int64 (B,), −1 where there is no answer.
        gold_end: int64 (B,).
        excluded: two bool (B, T), positions outside the softmax for first and for last tokens.
    """
    return negative_loss(start_logits, end_logits, torch.stack([gold_start, gold_end]), excluded)


def negative_loss(
    start_logits: Tensor, end_logits: Tensor, gold: Tensor, excluded: tuple[Tensor, Tensor] | None = None
) -> Tensor:
    """Return L_neg: the gold phrase against phrases of other passages (Eq. 8).

    The columns are what the caller compares with: gold phrases of the batch, of earlier batches, mined passages or all
    tokens of the batch.

    Args:
        start_logits: (B, N), q_start against the first tokens of the columns.
        end_logits: (B, N), q_end against their last tokens.
        gold: int64 (B,) or two of them stacked (2, B) when first and last tokens stand in different columns.
        excluded: two bool (B, N), columns that are no negatives.
    """
    gold_start, gold_end = (gold, gold) if gold.ndim == 1 else (gold[0], gold[1])
    start = contrastive_loss(start_logits, gold_start, None if excluded is None else excluded[0])
    end = contrastive_loss(end_logits, gold_end, None if excluded is None else excluded[1])
    return (start + end) / 2


def distillation_loss(
    student: Tensor,
    teacher: Tensor,
    is_candidate: Tensor,
    has_teacher: Tensor,
    *,
    direction: Direction = "teacher-student",
    temperature: float = 1.0,
) -> Tensor:
    """Return L_distill: how far the student's distribution over a passage's tokens is from the teacher's (Eq. 7).

    Divergences are multiplied by the squared temperature, so that gradients keep their size.

    Args:
        student: (B, T) logits.
        teacher: (B, T) logits of a cross-encoder, without gradient; any value where `is_candidate` is false.
        is_candidate: bool (B, T), the tokens both judge.
        has_teacher: bool (B,), rows that count.
        direction: "teacher-student" is KL(teacher ‖ student), as DensePhrases is coded; "student-teacher" the other way
            round, as its Eq. 7 is printed; "both" their mean.
        temperature: both logits are divided by it.
    """
    # A row without candidates would be all −inf, whose gradient is not a number.
    usable = is_candidate | ~is_candidate.any(dim=1, keepdim=True)
    log_student = log_softmax((student.float() / temperature).masked_fill(~usable, -torch.inf), dim=1)
    log_teacher = log_softmax((teacher.float() / temperature).masked_fill(~usable, -torch.inf), dim=1)
    log_student, log_teacher = (each.masked_fill(~usable, 0.0) for each in (log_student, log_teacher))
    forward = _divergence(log_teacher, log_student, usable)
    backward = _divergence(log_student, log_teacher, usable)
    losses = {"teacher-student": forward, "student-teacher": backward, "both": (forward + backward) / 2}[direction]
    return temperature**2 * counted_mean(losses, has_teacher & is_candidate.any(dim=1))


def filter_loss(logits: Tensor, gold_start: Tensor, gold_end: Tensor, is_text: Tensor) -> Tensor:
    """Return the binary cross-entropy of the filter head, which learns what tokens begin or end an answer.

    The one positive weighs as much as all tokens of its passage; start and end count half each.

    Args:
        logits: (B, T, 2), start and end.
        gold_start: int64 (B,), −1 for rows without an answer, which cost nothing.
        gold_end: int64 (B,).
        is_text: bool (B, T), tokens that count.
    """
    n_tokens = is_text.sum(dim=1).clamp_min(1).float()  # (B,)
    losses = []
    for side, gold in enumerate((gold_start, gold_end)):
        targets = torch.zeros_like(logits[..., side], dtype=torch.float32)
        targets.scatter_(1, gold.clamp_min(0)[:, None], 1.0)
        each = binary_cross_entropy_with_logits(
            logits[..., side].float(), targets, pos_weight=n_tokens[:, None], reduction="none"
        )
        losses.append((each * is_text).sum(dim=1) / n_tokens)
    return counted_mean((losses[0] + losses[1]) / 2, gold_start >= 0)


def passage_loss(
    queries: Tensor, passages: Tensor, gold: Tensor, *, temperature: float, excluded: Tensor | None = None
) -> Tensor:
    """Return the contrastive loss of passage vectors: the gold passage against the others of the batch.

    Args:
        queries: (B, H), any norm.
        passages: (N, H), any norm; both are L2-normalised here.
        gold: int64 (B,), −1 for rows whose passage does not answer them.
        temperature: cosines are divided by it.
        excluded: bool (B, N), columns that are no negatives, such as the same passage again.
    """
    cosines = normalize(queries.float(), dim=1) @ normalize(passages.float(), dim=1).T  # (B, N)
    return contrastive_loss(cosines / temperature, gold, excluded)


def _divergence(log_p: Tensor, log_q: Tensor, is_candidate: Tensor) -> Tensor:
    """Return KL(p ‖ q) of each row, (B,)."""
    return (log_p.exp() * (log_p - log_q) * is_candidate).sum(dim=1)


def counted_mean(losses: Tensor, counts: Tensor) -> Tensor:
    """Return the mean over the rows that count, 0 (with a gradient of 0) when there are none."""
    kept = torch.where(counts, losses, torch.zeros_like(losses))
    return kept.sum() / counts.sum().clamp_min(1)
