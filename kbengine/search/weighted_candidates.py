"""The best phrases of queries by several weightings in one knowledge base: what tuning learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.effort import EFFORT_FACTORS, PASSAGES_PER_SEARCH, TOKENS_PER_SEARCH
from kbengine.search.local_shard import LocalShard
from kbengine.search.name_signal import name_signals
from kbengine.search.query import Query, SearchOptions, Weights
from kbengine.search.query_vectors import LexicalScores
from kbengine.search.shard_answers import Candidates
from kbengine.search.shard_requests import (
    CandidateQuery,
    CandidateRequest,
    NameScores,
    ScoreQuery,
    ScoreRequest,
)
from kbengine.search.shards import Shards
from kbengine.search.term_statistics import count, lexical_queries

if TYPE_CHECKING:
    from kbengine.encoders.encoder import QueryVectors as EncodedQueries
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

T = TypeVar("T")


@dataclass(frozen=True)
class Signals:
    """One query's lexical scores, and its name scores; None where they do not count."""

    lexical: LexicalScores | None
    names: NameScores | None


def signals_of(
    reader: KBReader, snapshot: Snapshot, queries: Sequence[Query], weights: Sequence[Weights]
) -> list[Signals]:
    """Return each query's signals of words and names in a knowledge base, without what a gate makes of them."""
    shard = LocalShard(reader, snapshot)
    shards = Shards(snapshot.generation, (shard,), reader)
    scope = shards.scope(None)
    statistics = count(shards, scope, queries, weights)
    lexical = lexical_queries(statistics, queries, weights, 1)
    names = name_signals(shards, scope, statistics, queries, weights, lexical)
    return [
        Signals(None if words is None else shard.lexical_scores(words[0]), None if own is None else own[0])
        for words, own in zip(lexical, names, strict=True)
    ]


def weighted_candidates(
    reader: KBReader,
    snapshot: Snapshot,
    queries: Sequence[Query],
    encoded: EncodedQueries,
    options: SearchOptions,
    weightings: Sequence[Sequence[Weights]],
    *,
    max_phrase_tokens: int,
    of_ends_too: Sequence[bool] | None = None,
) -> list[list[ScoredPhrases]]:
    """Return for each query its `options.k` best phrases by each weighting.

    They are best first, overlapping ones too: the best that begins at each token, and where it is asked for the best
    that ends there, so that boundaries are learned at both ends. What is nearest and the signals of words are found
    once for all weightings.

    Args:
        reader: of the knowledge base.
        snapshot: what is searched.
        queries: what is asked; their lexical texts count where a weighting gives them weight.
        encoded: their vectors, by any encoder with the stored passage vectors' passage side.
        options: `k`, `effort`, `nprobe`; the rest is not looked at.
        weightings: each the weights of every query.
        max_phrase_tokens: the longest phrase.
        of_ends_too: for each query whether the best phrases that end at each token are taken too; None: for none.
    """
    shard = LocalShard(reader, snapshot)
    shards = Shards(snapshot.generation, (shard,), reader)
    scope = shards.scope(None)
    by_words = [max(each, key=lambda weights: weights.lexical) for each in zip(*weightings, strict=True)]
    by_names = [max(each, key=lambda weights: weights.name) for each in zip(*weightings, strict=True)]
    lexical = lexical_queries(count(shards, scope, queries, by_words), queries, by_words, 1)
    names = name_signals(shards, scope, count(shards, scope, queries, by_names), queries, by_names, lexical)
    n_named = max(PASSAGES_PER_SEARCH, options.k)
    asked = CandidateRequest(
        scope,
        tuple(
            CandidateQuery(
                encoded.start[i],
                encoded.end[i],
                encoded.passage[i],
                _only(lexical[i]),
                _only(names[i]),
                by_vectors=True,
                n_lexical=n_named,
                n_documents=0,
                n_named=n_named,
                n_gate=0,
            )
            for i in range(len(queries))
        ),
        n_tokens=max(TOKENS_PER_SEARCH, 2 * options.k),
        n_passages=n_named,
        nprobe=options.nprobe,
        nprobe_factor=EFFORT_FACTORS[options.effort],
        is_exact=options.effort == "exact",
        scans_passages=options.effort == "exact",
    )
    candidates = shard.candidates(asked).queries
    found: list[list[ScoredPhrases]] = [[] for _ in queries]
    for weighting in weightings:
        scored = tuple(
            _score_query(query, weights, own, options.k, of_ends_too=of_ends_too is not None and of_ends_too[i])
            for i, (query, weights, own) in enumerate(zip(asked.queries, weighting, candidates, strict=True))
        )
        answer = shard.score(ScoreRequest(scope, scored, max_phrase_tokens))
        for each, own in zip(found, answer.queries, strict=True):
            each.append(own.best.phrases)
    return found


def _only(of_shards: tuple[T, ...] | None) -> T | None:
    """Return what belongs to the only shard."""
    return None if of_shards is None else of_shards[0]


def _score_query(
    query: CandidateQuery, weights: Weights, candidates: Candidates, k: int, *, of_ends_too: bool
) -> ScoreQuery:
    passages = [np.zeros(0, dtype=np.int64)]
    if weights.passage > 0:
        passages.append(candidates.passages.found.numbers)
    if weights.lexical > 0:
        passages.append(candidates.lexical.numbers)
        if candidates.own is not None:
            passages.append(candidates.own.numbers)
    if weights.name > 0:
        passages.append(candidates.named.numbers)
    return ScoreQuery(
        start=query.start,
        end=query.end,
        passage=query.passage,
        sparse=None,
        lexical=query.lexical if weights.lexical > 0 else None,
        lexical_factor=None,
        names=query.names if weights.name > 0 else None,
        weights=weights,
        unit="phrase",
        token_rows=np.unique(np.concatenate([candidates.start.found.numbers, candidates.end.found.numbers])),
        passages=np.concatenate(passages),
        is_everything=False,
        n_new=k,
        taken=None,
        n_read=0,
        reads_documents=False,
        of_ends_too=of_ends_too,
        is_distinct=False,
    )
