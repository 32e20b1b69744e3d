"""From the logits of one passage to its best answer: the best span, and how probable it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Float32 = NDArray[np.float32]

RELEVANCE_WEIGHT = 0.5
"""Of a passage's relevance beside a span's lead over "no answer here": both are log odds."""


class TokenSpan(NamedTuple):
    """A span of a passage: its first and last token, inclusive, and its score."""

    first: int
    last: int
    score: float


@dataclass(frozen=True, slots=True)
class PassageLogits:
    """What a reader says about one passage of T tokens (its own wordpieces; title and query left out).

    Attributes:
        start: float32 (T,), logit of each token as an answer's first.
        end: float32 (T,), logit of each token as an answer's last.
        no_answer: Logit, start + end of [CLS], that the passage answers nothing; of several windows the smallest.
        relevance: How well the passage fits the query; of several windows the largest.
        starts: int32 (T,), first character of each token in the passage.
        ends: int32 (T,), the character after its last.
        pairs: float32 (2, T, P), vectors of each token as first and as last: their product is how well the two go
            together; P is 0 where the reader judges each by itself.
    """

    start: Float32
    end: Float32
    no_answer: float
    relevance: float
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    pairs: Float32 = field(default_factory=lambda: np.zeros((2, 0, 0), dtype=np.float32))

    def best(self, *, max_tokens: int, n: int) -> list[TokenSpan]:
        """Return the `n` best spans of at most `max_tokens` tokens, best first, overlapping ones left out."""
        return _best_of(self._scores(max_tokens), n) if len(self.start) else []

    def score(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> Float32:
        """Return the scores of spans, float32 (c,), by their first and last tokens, int64 (c,) each."""
        scores = self.start[first] + self.end[last]
        if self.pairs.size:
            scores = scores + (self.pairs[0, first] * self.pairs[1, last]).sum(axis=1)
        return scores

    def probability(self, score: float, *, max_tokens: int) -> float:
        """Return the share of a span's exponential in that of all spans of at most `max_tokens` and of no answer."""
        scores = self._scores(max_tokens).astype(np.float64)
        return float(np.exp(score - np.logaddexp(self.no_answer, np.logaddexp.reduce(scores, axis=None))))

    def _scores(self, max_tokens: int) -> Float32:
        """Return the scores of all spans by first token and number of further ones, float32 (T, L)."""
        scores = _span_scores(self.start, self.end, max_tokens, None)
        if self.pairs.size:
            n, length = scores.shape
            last = np.concatenate([self.pairs[1], np.zeros((length - 1, self.pairs.shape[2]), dtype=np.float32)])
            scores += np.einsum("tp,tpl->tl", self.pairs[0], sliding_window_view(last, length, axis=0)[:n])
        return scores


def best_spans(
    start: Float32, end: Float32, *, max_tokens: int, n: int, ordinals: NDArray[np.int64] | None = None
) -> list[TokenSpan]:
    """Return the spans i … j with the largest `start[i] + end[j]`, i ≤ j < i + max_tokens (DensePhrases, Eq. 4).

    Best first, those that overlap a better one left out; of equal spans the first and shortest wins.

    Args:
        start: float32 (T,).
        end: float32 (T,).
        max_tokens: the longest span, in tokens.
        n: how many, at most.
        ordinals: int64 (T,), rising: each token's place in its passage where some are left out; by default 0, 1, ….

    >>> best_spans(np.float32([0, 5, 1]), np.float32([0, 1, 4]), max_tokens=2, n=2)
    [TokenSpan(first=1, last=2, score=9.0), TokenSpan(first=0, last=0, score=0.0)]
    """
    if not len(start):
        return []
    return _best_of(_span_scores(start, end, max_tokens, ordinals), n)


def _best_of(scores: Float32, n: int) -> list[TokenSpan]:
    """Return the `n` best spans; the scores are those of `_span_scores` and are spoilt."""
    found: list[TokenSpan] = []
    while len(found) < n:
        first, length = divmod(int(np.argmax(scores)), scores.shape[1])
        best = float(scores[first, length])
        if best == -np.inf:
            break
        last = first + length
        found.append(TokenSpan(first, last, best))
        scores[first : last + 1] = -np.inf  # spans that begin in it, and those that reach into it from before
        for begin in range(max(0, first - scores.shape[1] + 1), first):
            scores[begin, first - begin :] = -np.inf
    return found


def _span_scores(start: Float32, end: Float32, max_tokens: int, ordinals: NDArray[np.int64] | None) -> Float32:
    """Return start + end of the spans by first token and number of further ones, float32 (T, L); -inf: no such span."""
    n = len(start)
    places = np.arange(n, dtype=np.int64) if ordinals is None else ordinals
    scores = np.full((n, min(max_tokens, n)), -np.inf, dtype=np.float32)
    for step in range(scores.shape[1]):
        fits = places[step:] - places[: n - step] < max_tokens
        scores[: n - step, step] = np.where(fits, start[: n - step] + end[step:], -np.inf)
    return scores
