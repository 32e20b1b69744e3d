"""The best phrases of queries in the candidates of one shard: of distinct units, and those to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.search.aggregation import ScoredPhrases, distinct_positions, rank_phrases
from kbengine.search.query import Unit
from kbengine.search.query_vectors import LexicalScores, QueryVectors
from kbengine.search.rescoring import score_windows
from kbengine.search.shard_answers import RankedPhrases, ScoreAnswer, Scored
from kbengine.search.shard_requests import ScoreQuery, ScoreRequest

if TYPE_CHECKING:
    from storage.snapshot import Snapshot

Int64 = NDArray[np.int64]

RANKED_AT_ONCE = 640
"""Phrases ranked at first, at least: most of the best overlap, so more are ranked only where too few are distinct."""
RANKED_FOR_A_PLACE = 12
"""And for each unit wanted."""


def scored_units(snapshot: Snapshot, request: ScoreRequest, lexical: Sequence[LexicalScores | None]) -> ScoreAnswer:
    """Return the best phrases of each query.

    Args:
        snapshot: what is searched.
        request: the queries with their candidates.
        lexical: the lexical scores of each.
    """
    found = []
    for query, scores in zip(request.queries, lexical, strict=True):
        if scores is not None and query.lexical_factor is not None:
            scores = replace(scores, factor=query.lexical_factor)
        passages = np.flatnonzero(snapshot.live_passages) if query.is_everything else query.passages
        phrases = score_windows(
            snapshot,
            QueryVectors(query.start, query.end, query.passage, scores, query.sparse, query.names),
            query.weights,
            query.unit,
            request.max_phrase_tokens,
            query.token_rows,
            passages,
            of_ends_too=query.of_ends_too,
        )
        best, to_read = _best_units(snapshot, query, phrases)
        is_alone = request.scope.is_alone
        read = None if to_read is None else _with_ids(snapshot, to_read, is_alone)
        found.append(Scored(_with_ids(snapshot, best, is_alone), read))
    return ScoreAnswer(tuple(found))


def _best_units(
    snapshot: Snapshot, query: ScoreQuery, phrases: ScoredPhrases
) -> tuple[ScoredPhrases, ScoredPhrases | None]:
    """Return the best phrases of distinct units that were not found before, and those whose passages are read."""
    if not query.is_distinct:
        return rank_phrases(phrases, query.n_new), None
    n_taken = 0 if query.taken is None else len(query.taken)
    limit = max(RANKED_AT_ONCE, RANKED_FOR_A_PLACE * (query.n_new + n_taken))
    reading: Unit = "document" if query.reads_documents else "passage"
    while True:
        ranked = rank_phrases(phrases, limit)
        together = ranked if query.taken is None else query.taken.followed_by(ranked)
        positions = distinct_positions(together, snapshot, query.unit, n_taken + query.n_new)
        to_read = distinct_positions(together, snapshot, reading, query.n_read) if query.n_read else []
        is_enough = len(positions) == n_taken + query.n_new and len(to_read) == query.n_read
        if is_enough or len(ranked) == len(phrases):
            break
        limit *= 4
    new = together.take(np.asarray(positions[n_taken:], dtype=np.int64))
    return new, together.take(np.asarray(to_read, dtype=np.int64)) if query.n_read else None


def _with_ids(snapshot: Snapshot, phrases: ScoredPhrases, is_alone: bool) -> RankedPhrases:
    if is_alone:
        none = np.zeros(0, dtype=np.int64)
        return RankedPhrases(phrases, none, none)
    first, last = (snapshot.token_ids_of_rows(rows) for rows in (phrases.first_rows, phrases.last_rows))
    return RankedPhrases(phrases, first, last)
