"""Rescoring: every phrase of the candidate windows, exactly from the stored codes.

A phrase's score does not depend on what else is scored with it: not on other candidates, nor on other shards.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kbengine.search.aggregation import ScoredPhrases, first_best_positions
from kbengine.search.candidates import candidate_ranges
from kbengine.search.query import Unit, Weights
from kbengine.search.query_vectors import QueryVectors
from kbengine.search.scoring import best_phrases, best_phrases_of_ends, expand_ranges
from storage.compiled import compiled
from storage.exact import score_rows
from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

GATHER_ROWS = 1 << 16
"""Rows whose codes are read at once: 25 MB at d = 384."""


def score_windows(
    snapshot: Snapshot,
    vectors: QueryVectors,
    weights: Weights,
    unit: Unit,
    max_phrase_tokens: int,
    token_rows: Int64,
    passages: Int64,
    *,
    of_ends_too: bool = False,
) -> ScoredPhrases:
    """Return the phrases of all candidate windows, scored, in the order of their rows.

    Args:
        snapshot: what is searched.
        vectors: of the query.
        weights: of its signals.
        unit: for passages and documents one phrase stands for each passage.
        max_phrase_tokens: the longest phrase that counts.
        token_rows: int64, rows of candidate tokens.
        passages: int64, indices of candidate passages.
        of_ends_too: take besides the best phrase that begins at each token the best one that ends there, as tuning
            wants; a search shows one of overlapping phrases, so there the first alone decides. For phrases only.
    """
    ranges = candidate_ranges(snapshot, token_rows, passages, max_phrase_tokens=max_phrase_tokens)
    rows, range_numbers = expand_ranges(ranges.first, ranges.stop)
    start, end = inner_products(snapshot, rows, vectors)
    sparse = sparse_products(snapshot, rows, vectors, weights)
    stops = np.cumsum(ranges.stop - ranges.first)
    passages_of_rows = ranges.passages[range_numbers] if len(rows) else rows
    ordinals = snapshot.token_ordinals(rows, passages_of_rows)
    best = best_phrases(
        start,
        end if sparse is None else end + sparse[1],
        rows=rows,
        range_stops=stops[range_numbers] if len(rows) else rows,
        token_ordinals=ordinals,
        passages=passages_of_rows,
        max_phrase_tokens=max_phrase_tokens,
    )
    if of_ends_too and len(rows):
        of_ends = best_phrases_of_ends(
            start if sparse is None else start + sparse[0],
            end,
            rows=rows,
            range_firsts=(stops - (ranges.stop - ranges.first))[range_numbers],
            token_ordinals=ordinals,
            passages=passages_of_rows,
            max_phrase_tokens=max_phrase_tokens,
        )
        # The best phrase of an end may be the best of its start: it is there already.
        others = np.flatnonzero(best.last_rows[np.searchsorted(rows, of_ends.first_rows)] != rows)
        best = best.followed_by(of_ends.take(others))
        range_numbers = np.concatenate([range_numbers, range_numbers[others]])
    of_sparse = np.zeros(len(best), dtype=np.float32)
    best_start, best_end = best.start, best.end
    if sparse is not None:
        # Ranges are in row order and do not overlap: rows rise.
        first, last = np.searchsorted(rows, best.first_rows), np.searchsorted(rows, best.last_rows)
        best_start, best_end, of_sparse = start[first], end[last], sparse[0][first] + sparse[1][last]
    # Passage, lexical and name scores are the same for all phrases of a range: computed once per range.
    nothing = np.zeros(len(ranges.passages), dtype=np.float32)
    of_passages = of_words = of_names = nothing
    if len(ranges.passages):  # without a segment there is not even a dimension
        of_passages = score_rows(snapshot.passage_vectors(ranges.passages), vectors.passage)
        of_passages *= np.float32(weights.passage)
    if vectors.lexical is not None:
        of_words = vectors.lexical.of(ranges.passages) * np.float32(weights.lexical)
    if vectors.name is not None:
        of_names = vectors.name.of(ranges.passages) * np.float32(weights.name)
    parts = np.empty((7, len(best)), dtype=np.float32)
    of_ranges = np.stack([of_passages, of_words, of_names]).astype(np.float32, copy=False)
    _add_up(
        np.ascontiguousarray(best_start),
        np.ascontiguousarray(best_end),
        of_sparse,
        np.float32(weights.phrase),
        range_numbers,
        of_ranges,
        parts,
    )
    start, end, passage, lexical, of_sparse, name, score = parts
    scored = ScoredPhrases(
        first_rows=best.first_rows,
        last_rows=best.last_rows,
        passages=best.passages,
        start=start,
        end=end,
        passage=passage,
        lexical=lexical,
        sparse=of_sparse,
        name=name,
        score=score,
    )
    if unit in ("passage", "document"):
        # One phrase stands for a passage: cutting the list of phrases could leave too few passages in it.
        scored = scored.take(first_best_positions(scored.score, range_numbers))
    return scored


@compiled()
def _add_up(
    starts: Float32,
    ends: Float32,
    sparse: Float32,
    factor: np.float32,
    range_numbers: Int64,
    of_ranges: Float32,
    parts: Float32,
) -> None:
    """Write the weighted parts of phrases, float32 (7, r): start, end, passage, words, sparse, name, and their sum.

    Those of passage, words and name are their range's, float32 (3, ranges).
    """
    for i in range(len(starts)):
        of_range = range_numbers[i]
        start, end, of_sparse = starts[i] * factor, ends[i] * factor, sparse[i] * factor
        passage, lexical, name = of_ranges[0, of_range], of_ranges[1, of_range], of_ranges[2, of_range]
        parts[0, i], parts[1, i], parts[2, i], parts[3, i] = start, end, passage, lexical
        parts[4, i], parts[5, i], parts[6, i] = of_sparse, name, start + end + passage + lexical + of_sparse + name


def sparse_products(
    snapshot: Snapshot, rows: Int64, vectors: QueryVectors, weights: Weights
) -> tuple[Float32, Float32] | None:
    """Return the rows' weighted sparse scores as starts and ends, both float32 (r,); None where they do not count."""
    if vectors.sparse is None or not len(rows):
        return None
    start, end = snapshot.sparse_scores(rows, vectors.sparse)
    return start * np.float32(weights.sparse), end * np.float32(weights.sparse)


def inner_products(snapshot: Snapshot, rows: Int64, vectors: QueryVectors) -> tuple[Float32, Float32]:
    """Return start·q_start and end·q_end of the rows, both float32 (r,), in blocks of bounded memory."""
    targets = np.stack([vectors.start, vectors.end], axis=1)  # (d, 2)
    scores = np.empty((len(rows), 2), dtype=np.float32)
    for begin in range(0, len(rows), GATHER_ROWS):
        block = slice(begin, begin + GATHER_ROWS)
        scores[block] = snapshot.inner_products(rows[block], targets)
    return np.ascontiguousarray(scores[:, 0]), np.ascontiguousarray(scores[:, 1])
