"""Which rows are rescored for a query: windows around the nearest tokens, and passages that other signals name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.search.scoring import merge_ranges
from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

LONG_PASSAGE_ROWS = 512
"""Passages with more stored tokens than this are rescored around the hits only, not as a whole."""


@dataclass(frozen=True)
class CandidateRanges:
    """Half-open ranges of global rows, each inside one passage: int64 (n,) arrays, in row order, without overlap."""

    first: Int64
    stop: Int64
    passages: Int64


def candidate_ranges(snapshot: Snapshot, rows: Int64, passages: Int64, *, max_phrase_tokens: int) -> CandidateRanges:
    """Return the ranges to rescore for one query.

    A short passage is taken whole, so that every phrase of it competes, also those whose own tokens were not among the
    nearest. In a long one only the windows that can hold a phrase with a token that was found are taken; a long passage
    named by another signal is taken whole.

    Args:
        snapshot: what is searched.
        rows: int64, global rows of the nearest start and end tokens (no -1).
        passages: int64, snapshot passage indices found by passage vector or lexical search.
        max_phrase_tokens: the longest phrase, in tokens.
    """
    hit_passages = snapshot.passages_of_rows(rows)
    is_long = snapshot.token_counts[hit_passages] > LONG_PASSAGE_ROWS
    whole = np.unique(np.concatenate([hit_passages[~is_long], passages]))
    whole = whole[snapshot.token_counts[whole] > 0]
    first = snapshot.first_rows[whole]
    stop = first + snapshot.token_counts[whole]
    if is_long.any():
        long_rows, long_passages = rows[is_long], hit_passages[is_long]
        passage_first = snapshot.first_rows[long_passages]
        passage_stop = passage_first + snapshot.token_counts[long_passages]
        first = np.concatenate([first, np.maximum(long_rows - max_phrase_tokens + 1, passage_first)])
        stop = np.concatenate([stop, np.minimum(long_rows + max_phrase_tokens, passage_stop)])
        whole = np.concatenate([whole, long_passages])
    merged_first, merged_stop, merged_passages = merge_ranges(
        first.astype(np.int64), stop.astype(np.int64), whole.astype(np.int64)
    )
    return CandidateRanges(merged_first, merged_stop, merged_passages)
