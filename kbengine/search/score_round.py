"""The rounds in which all shards score what they hold of the candidates, and resolve what is best of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from kbengine.search.candidate_round import Searching
from kbengine.search.global_cut import first_phrases, phrase_order
from kbengine.search.pool import Pool
from kbengine.search.query import Query, SearchOptions, Weights
from kbengine.search.readings import ranks_documents
from kbengine.search.results import Hit
from kbengine.search.shard_answers import ResolveAnswer
from kbengine.search.shard_requests import ResolveQuery, ResolveRequest, ScoreQuery, ScoreRequest


class Resolved(NamedTuple):
    """The best hits of a query, and how many there are with those that are not wanted."""

    hits: list[Hit]
    n_found: int


def choose_phrases(
    searching: Searching,
    pools: Sequence[Pool],
    options: SearchOptions,
    *,
    most: Sequence[int],
    max_phrase_tokens: int,
    is_everything: bool,
    is_first: bool,
) -> None:
    """Give each pool the best phrases of distinct units beyond those in it, in each shard.

    Args:
        searching: what is searched.
        pools: of the queries, with their candidates.
        options: of the search.
        most: how many phrases each pool has at most with these.
        max_phrase_tokens: the longest phrase.
        is_everything: whether all passages are candidates.
        is_first: whether this is the first round: later ones rank by the weights of all kinds of candidates.
    """
    n_new = [max(0, n - pool.n_phrases) for n, pool in zip(most, pools, strict=True)]
    n_read = [reads(pool.query, pool.plan.weights, options) if is_first else 0 for pool in pools]
    requests = [
        ScoreRequest(
            searching.scope,
            tuple(
                _score_query(pool, shard, n, n_to_read, is_everything, is_first)
                for pool, n, n_to_read in zip(pools, n_new, n_read, strict=True)
            ),
            max_phrase_tokens,
        )
        for shard in range(len(searching.shards.members))
    ]
    answers = searching.shards.each(lambda number, shard: shard.score(requests[number]))
    for i, pool in enumerate(pools):
        scored = [answer.queries[i] for answer in answers]
        best = [each.best for each in scored]
        for part, own, n in zip(pool.shards, best, first_phrases(best, n_new[i]), strict=True):
            part.add(own.phrases.firsts(n))
        to_read = [each.to_read for each in scored if each.to_read is not None]
        if is_first and len(to_read) == len(scored):
            for part, own, n in zip(pool.shards, to_read, first_phrases(to_read, n_read[i]), strict=True):
                part.to_read = own.phrases.firsts(n)


def reads(query: Query, weights: Weights, options: SearchOptions) -> int:
    """Return how many passages are read for a query."""
    n = query.read if options.read is None else options.read
    return n if weights.reader > 0 else 0


def _score_query(pool: Pool, shard: int, n_new: int, n_read: int, is_everything: bool, is_first: bool) -> ScoreQuery:
    part = pool.shards[shard]
    plan = pool.plan if is_first else pool.plan.with_everything
    return ScoreQuery(
        start=pool.vectors.start,
        end=pool.vectors.end,
        passage=pool.vectors.passage,
        sparse=pool.vectors.sparse,
        lexical=pool.vectors.lexical_of(shard),
        lexical_factor=pool.lexical_factor,
        names=pool.vectors.names_of(shard),
        weights=plan.weights,
        unit=pool.unit,
        token_rows=part.token_rows,
        passages=part.passages,
        is_everything=is_everything,
        n_new=n_new,
        taken=part.phrases,
        n_read=n_read,
        reads_documents=ranks_documents(pool.query),
    )


def resolve_phrases(
    searching: Searching,
    pools: Sequence[Pool],
    *,
    to_read: bool,
    max_phrase_tokens: int | None,
    explain: bool,
    n_hits: Sequence[int | None] | None = None,
) -> list[Resolved]:
    """Return the hits of each pool's new phrases, or of those to be read, best first.

    Args:
        searching: what is searched.
        pools: of the queries.
        to_read: whether the phrases to be read are resolved.
        max_phrase_tokens: the longest phrase that may stand in the place of one that may not be shown; None: all stay.
        explain: whether the parts of scores are wanted.
        n_hits: how many hits of each pool are wanted, None: all of one; None: all of each.
    """
    requests = []
    wanted = [None] * len(pools) if n_hits is None else n_hits
    for shard in range(len(searching.shards.members)):
        queries = tuple(_resolve_query(pool, shard, to_read, n) for pool, n in zip(pools, wanted, strict=True))
        requests.append(ResolveRequest(searching.scope, queries, max_phrase_tokens, explain))
    answers = searching.shards.each(lambda number, shard: shard.resolve(requests[number]))
    asked = sorted({name for answer in answers for name in answer.names_asked})
    if asked:
        answers = _with_names(searching, requests, answers, tuple(asked))
    return [_merged([(answer, i) for answer in answers], n) for i, n in enumerate(wanted)]


def _resolve_query(pool: Pool, shard: int, to_read: bool, n_hits: int | None) -> ResolveQuery:
    part = pool.shards[shard]
    phrases = part.to_read if to_read else part.new
    assert phrases is not None and part.phrases is not None
    return ResolveQuery(
        start=pool.vectors.start,
        end=pool.vectors.end,
        sparse=pool.vectors.sparse,
        weights=pool.plan.weights,
        unit=pool.unit,
        phrases=phrases,
        taken=part.phrases,
        n_hits=n_hits,
    )


def _with_names(
    searching: Searching,
    requests: Sequence[ResolveRequest],
    answers: Sequence[ResolveAnswer],
    asked: tuple[str, ...],
) -> list[ResolveAnswer]:
    """Return the answers of all shards, those that asked for names being told which are names anywhere."""
    shards = searching.shards
    known = tuple(sorted({name for own in shards.each(lambda _, shard: shard.known_names(asked)) for name in own}))
    return shards.each(
        lambda number, shard: (
            shard.resolve(replace(requests[number], known_names=known))
            if answers[number].names_asked
            else answers[number]
        )
    )


def _merged(parts: Sequence[tuple[ResolveAnswer, int]], n_hits: int | None) -> Resolved:
    """Return the best hits of one query from all shards."""
    n_found = sum(len(answer.scores[i]) for answer, i in parts)
    if len(parts) == 1:
        answer, i = parts[0]
        return Resolved(list(answer.hits[i]), n_found)
    order = phrase_order([(answer.scores[i], answer.first_ids[i], answer.last_ids[i]) for answer, i in parts])
    hits: list[Hit] = []
    for owner, place in order[:n_hits]:
        answer, i = parts[owner]
        hits.append(replace(answer.hits[i][place], rank=len(hits) + 1))
    return Resolved(hits, n_found)
