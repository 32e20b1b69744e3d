"""What a reader's training minimises: right ends, right spans of one text and of all of a query's, relevance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kbengine.reading.spans import RELEVANCE_WEIGHT


def marginal_loss(logits: Tensor, is_candidate: Tensor, is_right: Tensor) -> Tensor:
    """Return minus the log of the probability that all right positions have together, the mean over the batch.

    Args:
        logits: float (B, T).
        is_candidate: bool (B, T), the positions that the probability is shared among.
        is_right: bool (B, T), some of them, at least one a row.
    """
    logits = logits.float()
    total = logits.masked_fill(~is_candidate, -torch.inf).logsumexp(dim=1)
    right = logits.masked_fill(~is_right, -torch.inf).logsumexp(dim=1)
    return (total - right).mean()


@dataclass(frozen=True)
class SpanScores:
    """How the model scores the spans of B texts, S pairs of first and last token each.

    Attributes:
        scores: float (B, S), -inf where the pair is no span that counts.
        is_right: bool (B, S), the spans that answer.
        no_answer: float (B,), the score that the text answers nothing.
    """

    scores: Tensor
    is_right: Tensor
    no_answer: Tensor

    def right(self) -> Tensor:
        """Return the log of the summed exponentials of the right spans, float (B,); of no answer where none is."""
        has_answer = self.is_right.any(dim=1)
        right = self.no_answer.clone()
        if bool(has_answer.any()):
            right[has_answer] = (
                self.scores[has_answer].masked_fill(~self.is_right[has_answer], -torch.inf).logsumexp(dim=1)
            )
        return right


def span_scores(logits: Tensor, is_candidate: Tensor, answers: Tensor, *, max_tokens: int) -> SpanScores:
    """Return the scores of all spans of each text.

    Args:
        logits: float (B, T, 2 + 2 pair_size), those of `ReaderOutput`.
        is_candidate: bool (B, T), [CLS], which stands for no answer, and the passage.
        answers: int64 (N, 3), row, first and last token of the right spans; a row without one has none.
        max_tokens: the longest span that counts, right ones aside.
    """
    logits = logits.float()
    start, end, pairs = logits[..., 0], logits[..., 1], logits[..., 2:]
    first, last = pairs.chunk(2, dim=2)  # (B, T, P) each
    scores = start[:, :, None] + end[:, None, :] + first @ last.transpose(1, 2)  # (B, T, T)
    in_passage = is_candidate.clone()
    in_passage[:, 0] = False
    is_short = torch.ones_like(scores[0], dtype=torch.bool).triu().tril(max_tokens - 1)  # (T, T)
    is_right = torch.zeros_like(scores, dtype=torch.bool)
    is_right[answers[:, 0], answers[:, 1], answers[:, 2]] = True
    is_span = (in_passage[:, :, None] & in_passage[:, None, :] & is_short) | is_right
    spans = scores.masked_fill(~is_span, -torch.inf)
    return SpanScores(spans.flatten(1), is_right.flatten(1), start[:, 0] + end[:, 0])


def span_loss(spans: SpanScores) -> Tensor:
    """Return minus the log of the probability of the right spans among all of a text and no answer, float (B,)."""
    total = torch.cat([spans.scores, spans.no_answer[:, None]], dim=1).logsumexp(dim=1)
    return total - spans.right()


def shared_span_loss(spans: SpanScores, relevance: Tensor, group: Tensor, is_gold: Tensor) -> Tensor:
    """Return minus the log of the right spans' share among those of all texts of their group, the mean over groups.

    A span counts as much as it does where passages are read before answering: its lead over "no answer" and
    the relevance of its text. With texts by themselves nothing makes spans of several comparable (Clark and Gardner,
    "Simple and Effective Multi-Paragraph Reading Comprehension", 2018, Section 3.3, shared normalisation).

    Args:
        spans: of B texts.
        relevance: float (B,).
        group: int64 (B,), the group of each text.
        is_gold: bool (B,), the text that answers, at most one a group; groups of one text or without it are left out.
    """
    beside = RELEVANCE_WEIGHT * relevance.float() - spans.no_answer  # (B,)
    total = spans.scores.logsumexp(dim=1) + beside
    return _share_loss(total, spans.right() + beside, group, is_gold)


def relevance_loss(relevance: Tensor, group: Tensor, is_gold: Tensor) -> Tensor:
    """Return minus the log of the gold texts' share among those of their group, the mean over groups with others.

    Args:
        relevance: float (B,).
        group: int64 (B,), the group of each text.
        is_gold: bool (B,), at most one text a group; groups without one are left out.
    """
    relevance = relevance.float()
    return _share_loss(relevance, relevance, group, is_gold)


def _share_loss(total: Tensor, right: Tensor, group: Tensor, is_gold: Tensor) -> Tensor:
    """Return the mean of what the log sum of a group's totals is above what is right in its gold text."""
    same = group[is_gold, None] == group  # (G, B)
    counts = same.sum(dim=1) > 1
    if not bool(counts.any()):
        return total.sum() * 0.0
    together = total.expand(len(same), -1).masked_fill(~same, -torch.inf).logsumexp(dim=1)
    return (together - right[is_gold])[counts].mean()
