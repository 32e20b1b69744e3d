"""From the logits of one passage to its best answer: the best span, and how probable it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbengine.search.scoring import best_phrases

Float32 = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PassageLogits:
    """What a reader says about one passage of T tokens (its own wordpieces; title and query left out).

    Attributes:
        start: float32 (T,), logit of each token as an answer's first.
        end: float32 (T,), logit of each token as an answer's last.
        no_answer: Logit, start + end of [CLS], that the passage answers nothing; of several windows the smallest.
        starts: int32 (T,), first character of each token in the passage.
        ends: int32 (T,), the character after its last.
    """

    start: Float32
    end: Float32
    no_answer: float
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


class TokenSpan(NamedTuple):
    """The best span of a passage: its first and last token, inclusive, and start + end of them."""

    first: int
    last: int
    score: float


def best_span(
    start: Float32, end: Float32, *, max_tokens: int, ordinals: NDArray[np.int64] | None = None
) -> TokenSpan | None:
    """Return the span i … j with the largest `start[i] + end[j]`, i ≤ j < i + max_tokens (DensePhrases, Eq. 4).

    Of equal spans the first and shortest wins; None when there is no token.

    Args:
        start: float32 (T,).
        end: float32 (T,).
        max_tokens: the longest span, in tokens.
        ordinals: int64 (T,), rising: each token's place in its passage where some are left out; by default 0, 1, ….
    """
    n = len(start)
    if n == 0:
        return None
    rows = np.arange(n, dtype=np.int64)
    best = best_phrases(
        start,
        end,
        rows=rows,
        range_stops=np.full(n, n, dtype=np.int64),
        token_ordinals=rows if ordinals is None else ordinals,
        passages=np.zeros(n, dtype=np.int64),
        max_phrase_tokens=max_tokens,
    )
    scores = best.start + best.end
    i = int(np.argmax(scores))
    return TokenSpan(i, int(best.last_rows[i]), float(scores[i]))


def span_probability(logits: PassageLogits, score: float, *, max_tokens: int) -> float:
    """Return the share of a span's exponential in that of all spans of at most `max_tokens` tokens and of no answer."""
    start, end = logits.start.astype(np.float64), logits.end.astype(np.float64)
    total = float(logits.no_answer)
    for step in range(min(max_tokens, len(start))):
        sums = start[: len(start) - step] + end[step:]
        total = float(np.logaddexp(total, np.logaddexp.reduce(sums)))
    return float(np.exp(score - total))
