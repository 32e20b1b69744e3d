"""From scored phrases to distinct units: phrases, sentences, passages or documents, each by its best phrase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.search.query import Unit
from kbengine.search.scoring import PhraseScores
from storage.compiled import compiled
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
    found = np.empty(min(k, len(phrases)), dtype=np.int64)
    n_found = _apart(phrases.first_rows, phrases.last_rows, phrases.passages, found)
    positions: list[int] = found[:n_found].tolist()
    return positions


@compiled()
def _apart(first_rows: Int64, last_rows: Int64, passages: Int64, found: Int64) -> int:
    """Write the positions of the first phrases that overlap none before them to `found`; return how many there are."""
    n_found = 0
    for position in range(len(first_rows)):
        if n_found == len(found):
            break
        is_apart = True
        for other in found[:n_found]:
            overlaps = first_rows[position] <= last_rows[other] and first_rows[other] <= last_rows[position]
            if overlaps and passages[position] == passages[other]:
                is_apart = False
                break
        if is_apart:
            found[n_found] = position
            n_found += 1
    return n_found
