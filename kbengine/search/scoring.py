"""The best phrases inside candidate windows, from the stored codes, one query at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from storage.compiled import compiled

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class PhraseScores:
    """Phrases of candidate rows: the best that begins at each of them, or that ends there.

    Attributes:
        first_rows: int64 (r,), global rows of the first tokens.
        last_rows: int64 (r,), global rows of the last tokens (inclusive).
        passages: int64 (r,), snapshot passage indices.
        start: float32 (r,), start·q_start of the first tokens.
        end: float32 (r,), end·q_end of the last tokens.
    """

    first_rows: Int64
    last_rows: Int64
    passages: Int64
    start: Float32
    end: Float32

    def take(self, at: Int64 | Sequence[int]) -> Self:
        """Return the phrases at the given positions, in that order."""
        return type(self)(*(getattr(self, name)[at] for name in self.__dataclass_fields__))

    def firsts(self, n: int | None) -> Self:
        """Return the first n phrases; all of them for None."""
        if n is None or n >= len(self):
            return self
        return type(self)(*(getattr(self, name)[:n] for name in self.__dataclass_fields__))

    def followed_by(self, others: Self) -> Self:
        """Return these phrases and the others after them."""
        return type(self)(
            *(np.concatenate([getattr(self, name), getattr(others, name)]) for name in self.__dataclass_fields__)
        )

    def __len__(self) -> int:
        return len(self.first_rows)


def expand_ranges(first: Int64, stop: Int64) -> tuple[Int64, Int64]:
    """Return all rows of the half-open ranges, concatenated, and each row's range number; both int64 (r,)."""
    lengths = stop - first
    total = int(lengths.sum())
    range_numbers = np.repeat(np.arange(len(first), dtype=np.int64), lengths)
    range_offsets = np.cumsum(lengths) - lengths
    rows = np.arange(total, dtype=np.int64) - np.repeat(range_offsets, lengths) + np.repeat(first, lengths)
    return rows, range_numbers


def merge_ranges(first: Int64, stop: Int64, passages: Int64) -> tuple[Int64, Int64, Int64]:
    """Return the ranges with overlapping ones joined, in row order; ranges of different passages never overlap."""
    if len(first) == 0:
        return first, stop, passages
    order = np.lexsort((stop, first))
    first, stop, passages = first[order], stop[order], passages[order]
    reach = np.maximum.accumulate(stop)
    opens = np.ones(len(first), dtype=np.bool_)
    opens[1:] = first[1:] >= reach[:-1]
    begins = np.flatnonzero(opens)
    ends = np.append(begins[1:], len(first)) - 1
    return first[begins], reach[ends], passages[begins]


def best_phrases(
    start_scores: Float32,
    end_scores: Float32,
    *,
    rows: Int64,
    range_stops: Int64,
    token_ordinals: Int64,
    passages: Int64,
    max_phrase_tokens: int,
) -> PhraseScores:
    """Return for each row the best phrase that begins there: `max over j of start[i] + end[j]` (DensePhrases, Eq. 4).

    The last token j is at or after i, inside the same range, and fewer than `max_phrase_tokens` tokens of the passage
    away (counted over all its tokens, stored or not). Of equal ends the nearest wins, so ties are deterministic.

    Args:
        start_scores: float32 (r,), start·q_start of each row.
        end_scores: float32 (r,), end·q_end of each row.
        rows: int64 (r,), the global rows, ranges concatenated.
        range_stops: int64 (r,), for each row the position in these arrays where its range stops.
        token_ordinals: int64 (r,), the token's position in its passage.
        passages: int64 (r,), snapshot passage index of each row.
        max_phrase_tokens: the longest phrase, in tokens.
    """
    best_end, best_at = np.empty(len(rows), dtype=np.float32), np.empty(len(rows), dtype=np.int64)
    _find_best_ends(
        np.ascontiguousarray(end_scores),
        np.ascontiguousarray(range_stops),
        np.ascontiguousarray(token_ordinals),
        max_phrase_tokens,
        best_end,
        best_at,
    )
    return PhraseScores(first_rows=rows, last_rows=rows[best_at], passages=passages, start=start_scores, end=best_end)


@compiled()
def _find_best_ends(
    end_scores: Float32,
    range_stops: Int64,
    token_ordinals: Int64,
    max_phrase_tokens: int,
    best_end: Float32,
    best_at: Int64,
) -> None:
    """Write the best end in reach of each row, and its position, the nearest of equal ones.

    Ranges follow one another, and ordinals rise within each. From the last row to the first only ends are remembered
    that are better than all before them in reach: each comes and goes once, however long a phrase may be.
    """
    n = len(end_scores)
    kept = np.empty(n, dtype=np.int64)  # positions from `low` on to before `top`, falling, and so do their ends
    low = top = 0
    for i in range(n - 1, -1, -1):
        stop, beyond = range_stops[i], token_ordinals[i] + max_phrase_tokens
        while low < top and (kept[low] >= stop or token_ordinals[kept[low]] >= beyond):
            low += 1
        while low < top and end_scores[kept[top - 1]] <= end_scores[i]:
            top -= 1
        kept[top] = i
        top += 1
        best_end[i], best_at[i] = end_scores[kept[low]], kept[low]


def best_phrases_of_ends(
    start_scores: Float32,
    end_scores: Float32,
    *,
    rows: Int64,
    range_firsts: Int64,
    token_ordinals: Int64,
    passages: Int64,
    max_phrase_tokens: int,
) -> PhraseScores:
    """Return for each row the best phrase that ends there: `max over i of start[i] + end[j]`.

    It is `best_phrases` from behind. Of equal starts the nearest wins.

    Args:
        start_scores: float32 (r,), start·q_start of each row.
        end_scores: float32 (r,), end·q_end of each row.
        rows: int64 (r,), the global rows, ranges concatenated.
        range_firsts: int64 (r,), for each row the position in these arrays where its range begins.
        token_ordinals: int64 (r,), the token's position in its passage.
        passages: int64 (r,), snapshot passage index of each row.
        max_phrase_tokens: the longest phrase, in tokens.
    """
    mirrored = best_phrases(
        end_scores[::-1],
        start_scores[::-1],
        rows=rows[::-1],
        range_stops=len(rows) - range_firsts[::-1],
        token_ordinals=-token_ordinals[::-1],
        passages=passages[::-1],
        max_phrase_tokens=max_phrase_tokens,
    )
    return PhraseScores(
        first_rows=mirrored.last_rows[::-1],
        last_rows=mirrored.first_rows[::-1],
        passages=mirrored.passages[::-1],
        start=mirrored.end[::-1],
        end=mirrored.start[::-1],
    )
