"""From scored phrases to distinct units: phrases, sentences, passages or documents, each by its best phrase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.search.query import Unit
from kbengine.search.scoring import PhraseScores
from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class ScoredPhrases(PhraseScores):
    """Phrases of one query with their weighted score parts, best first; all arrays (r,)."""

    passage: Float32
    lexical: Float32
    sparse: Float32
    name: Float32
    score: Float32


def first_best_positions(scores: Float32, groups: Int64) -> Int64:
    """Return the position of the best score of each group, the first of equal ones; int64 (number of groups,).

    Args:
        scores: float32 (r,).
        groups: int64 (r,), rising: the members of a group stand side by side.
    """
    if len(scores) == 0:
        return np.zeros(0, dtype=np.int64)
    begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
    lengths = np.diff(np.append(begins, len(groups)))
    is_best = np.flatnonzero(scores == np.repeat(np.maximum.reduceat(scores, begins), lengths))
    _, first = np.unique(groups[is_best], return_index=True)
    best: Int64 = is_best[first].astype(np.int64)
    return best


def rank_phrases(phrases: ScoredPhrases, limit: int) -> ScoredPhrases:
    """Return the `limit` best phrases, best first; equal scores in the order of their tokens, the shorter one first."""
    n = len(phrases)
    kept = np.arange(n, dtype=np.int64)
    if n > limit:
        cut = np.partition(phrases.score, n - limit)[n - limit]
        kept = np.flatnonzero(phrases.score >= cut)
    order = np.lexsort((phrases.last_rows[kept], phrases.first_rows[kept], -phrases.score[kept]))[:limit]
    return phrases.take(kept[order])


def distinct_positions(phrases: ScoredPhrases, snapshot: Snapshot, unit: Unit, k: int) -> list[int]:
    """Return the positions of the best phrase of each of the first k distinct units, best first.

    Phrases are distinct when their tokens do not overlap: of "the Bank of England" and "Bank of England" at one place
    the better stays.
    Sentences need the text, so this gives their candidates as phrases do; the caller joins those that share a sentence.
    """
    if unit in ("passage", "document"):
        keys = phrases.passages if unit == "passage" else snapshot.document_ids[phrases.passages]
        _, first_seen = np.unique(keys, return_index=True)
        return [int(position) for position in np.sort(first_seen)[:k]]
    taken: dict[int, list[tuple[int, int]]] = {}
    positions: list[int] = []
    first_rows, last_rows, passages = phrases.first_rows.tolist(), phrases.last_rows.tolist(), phrases.passages.tolist()
    for position, (first, last, passage) in enumerate(zip(first_rows, last_rows, passages, strict=True)):
        spans = taken.setdefault(passage, [])
        for other_first, other_last in spans:
            if first <= other_last and other_first <= last:
                break
        else:
            spans.append((first, last))
            positions.append(position)
            if len(positions) == k:
                break
    return positions
