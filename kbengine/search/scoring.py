"""The best phrases inside candidate windows, from the stored codes, one query at a time, without a loop over tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

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
    n = len(rows)
    positions = np.arange(n, dtype=np.int64)
    reach = _reach(positions, range_stops, token_ordinals, max_phrase_tokens)
    best_end, nowhere = end_scores.copy(), np.float32(-np.inf)
    best_step = np.zeros(n, dtype=reach.dtype)
    for step in range(1, min(int(reach.max(initial=0)), n - 1) + 1):  # over phrase lengths: 20 passes at most
        # Whole vectors of the processor, without a branch: copying where a mask says so takes four times as long.
        ahead = np.where(reach[:-step] >= step, end_scores[step:], nowhere)
        better = np.multiply((ahead > best_end[:-step]).view(np.uint8), step, dtype=reach.dtype)
        np.maximum(best_end[:-step], ahead, out=best_end[:-step])
        np.maximum(best_step[:-step], better, out=best_step[:-step])  # steps rise: the last that was better is largest
    best_at = positions + best_step
    return PhraseScores(first_rows=rows, last_rows=rows[best_at], passages=passages, start=start_scores, end=best_end)


def _reach(
    positions: Int64, range_stops: Int64, token_ordinals: Int64, max_phrase_tokens: int
) -> NDArray[np.integer[Any]]:
    """Return for each row how many rows further a phrase that begins there may end, as few bytes as hold it, (r,)."""
    most = max(max_phrase_tokens - 1, 0)
    small = np.uint8 if most < 1 << 8 else np.uint32
    in_range = range_stops - 1 - positions
    is_next = np.diff(token_ordinals) == 1
    is_next |= in_range[:-1] == 0
    if is_next.all():  # every token is stored: rows are as far from each other as ordinals
        near: NDArray[np.integer[Any]] = np.minimum(in_range, most).astype(small)
        return near
    # One number for range and ordinal: both rise, and ranges are further apart than any phrase is long.
    low = int(token_ordinals.min())
    numbers = range_stops * (int(token_ordinals.max()) - low + 1 + most) + (token_ordinals - low)
    ends = np.searchsorted(numbers, numbers + most, side="right") - 1
    far: NDArray[np.integer[Any]] = np.minimum(ends - positions, in_range).astype(np.uint32)
    return far


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
