"""The round in which all shards say what is nearest and best in each, and the best of all of it goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kbengine.search.effort import Reach
from kbengine.search.global_cut import firsts, nearest, ranked_first
from kbengine.search.lexical_gate import BACKGROUND, gate_features
from kbengine.search.pool import Pool
from kbengine.search.shard_answers import CandidateAnswer, Candidates, Nearest, Sought
from kbengine.search.shard_requests import CandidateQuery, CandidateRequest, Scope
from kbengine.search.shards import Shards
from kbengine.search.strategies import DOCUMENTS_PER_SEARCH, MAX_DOCUMENT_PASSAGES, Plan
from kbengine.search.term_statistics import TermStatistics
from storage.snapshot import SCANNED_ROWS

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Searching:
    """What one search asks, whom, and what it knows about all of them."""

    shards: Shards
    scope: Scope
    statistics: TermStatistics


def find_candidates(searching: Searching, pools: Sequence[Pool], reach: Reach, *, is_first: bool) -> None:
    """Give each pool the candidates of a round, in each shard.

    Args:
        searching: what is searched.
        pools: of the queries.
        reach: how much is looked at.
        is_first: whether this is the search's first round: later ones take candidates of all kinds.
    """
    queries = [
        [_query(pool, pool.plan if is_first else pool.plan.with_everything, shard, reach, is_first) for pool in pools]
        for shard in range(len(searching.shards.members))
    ]
    is_exact = scans_passages = reach.is_exact
    if searching.scope.where is not None and not searching.scope.is_alone:
        # As a shard that is alone decides for itself.
        is_exact |= searching.statistics.n_found_rows <= SCANNED_ROWS
        scans_passages |= searching.statistics.n_found_passages <= SCANNED_ROWS
    requests = [
        CandidateRequest(
            searching.scope,
            tuple(own),
            reach.n_tokens,
            reach.n_passages,
            reach.nprobe,
            reach.nprobe_factor,
            is_exact,
            scans_passages,
        )
        for own in queries
    ]
    answers = _asked(searching, requests)
    near = _all_nearest(searching, requests, answers)
    for i, pool in enumerate(pools):
        found = [answer.queries[i] for answer in answers]
        if is_first and pool.query.gate is not None and pool.vectors.lexical is not None:
            best = np.sort(np.concatenate([each.gate for each in found]))[::-1][: BACKGROUND.stop]
            features = gate_features(best, searching.statistics.n_documents)
            pool.lexical_factor = None if features is None else pool.query.gate.factor(features)
        plan = pool.plan if is_first else pool.plan.with_everything
        start, end, near_passages = near[i]
        passages = _passages(plan, found, near_passages, reach)
        for part, first, last, own_passages in zip(pool.shards, start, end, passages, strict=True):
            part.token_rows, part.passages = np.unique(np.concatenate([first, last])), own_passages


def _asked(searching: Searching, requests: Sequence[CandidateRequest]) -> list[CandidateAnswer]:
    return searching.shards.each(lambda number, shard: shard.candidates(requests[number]))


def _query(pool: Pool, plan: Plan, shard: int, reach: Reach, is_first: bool) -> CandidateQuery:
    by_words = plan.by_words and pool.vectors.lexical is not None
    has_gate = is_first and pool.query.gate is not None
    return CandidateQuery(
        start=pool.vectors.start,
        end=pool.vectors.end,
        passage=pool.vectors.passage,
        lexical=pool.vectors.lexical_of(shard),
        names=pool.vectors.names_of(shard),
        by_vectors=plan.by_vectors,
        n_lexical=reach.n_lexical if by_words else 0,
        n_documents=_n_documents(reach) if by_words and plan.whole_documents else 0,
        n_named=reach.n_lexical if plan.by_names else 0,
        n_gate=BACKGROUND.stop if has_gate else 0,
    )


def _n_documents(reach: Reach) -> int:
    return max(DOCUMENTS_PER_SEARCH, reach.n_lexical // 10)


@dataclass(frozen=True)
class _Side:
    """One of the vectors of a query that something is nearest to.

    Attributes:
        of: what a shard found nearest to it.
        among: among what.
        k: how many are wanted.
    """

    of: Callable[[Candidates], Nearest]
    among: Callable[[CandidateAnswer], Sought]
    k: int

    def nearest(self, answers: Sequence[CandidateAnswer], query: int) -> list[Int64]:
        """Return what is nearest in each shard."""
        return nearest([self.of(answer.queries[query]) for answer in answers], self.k)

    def is_all(self, answers: Sequence[CandidateAnswer]) -> bool:
        """Tell whether asking for more would find no more."""
        among = [self.among(answer) for answer in answers]
        fetched = max((self.of(query).n_fetched for answer in answers for query in answer.queries), default=0)
        return fetched >= sum(each.n_indexed for each in among) and all(each.is_every_list for each in among)


def _all_nearest(
    searching: Searching, requests: Sequence[CandidateRequest], answers: Sequence[CandidateAnswer]
) -> list[list[list[Int64]]]:
    """Return for each query the rows in each shard nearest to its start and to its end, and the passages nearest to it.

    Of a vector that finds fewer than are wanted, though there are more in other lists, more is asked.
    """
    (first, *_), n_queries = requests, len(requests[0].queries)
    sides = (
        _Side(lambda each: each.start, lambda answer: answer.tokens, first.n_tokens),
        _Side(lambda each: each.end, lambda answer: answer.tokens, first.n_tokens),
        _Side(lambda each: each.passages, lambda answer: answer.passages, first.n_passages),
    )
    found = [[side.nearest(answers, i) for side in sides] for i in range(n_queries)]
    if len(answers) > 1:
        _look_further(searching, requests, answers, sides, found)
    return found


def _look_further(
    searching: Searching,
    requests: Sequence[CandidateRequest],
    answers: Sequence[CandidateAnswer],
    sides: Sequence[_Side],
    found: list[list[list[Int64]]],
) -> None:
    """Ask again, with more effort, for vectors that found too little, and put what is found in place."""
    n_more = 0
    lacking = [
        (i, number)
        for i, query in enumerate(requests[0].queries)
        for number, side in enumerate(sides)
        if query.by_vectors and sum(map(len, found[i][number])) < side.k
    ]
    while lacking := [(i, number) for i, number in lacking if not sides[number].is_all(answers)]:
        n_more += 1
        places = {i: number for number, i in enumerate(dict.fromkeys(i for i, _ in lacking))}
        again = [
            replace(
                request,
                queries=tuple(
                    replace(request.queries[i], n_lexical=0, n_documents=0, n_named=0, n_gate=0, lexical=None)
                    for i in places
                ),
                n_more=n_more,
            )
            for request in requests
        ]
        answers = _asked(searching, again)
        for i, number in lacking:
            found[i][number] = sides[number].nearest(answers, places[i])
        lacking = [(i, number) for i, number in lacking if sum(map(len, found[i][number])) < sides[number].k]


def _passages(plan: Plan, found: Sequence[Candidates], near: Sequence[Int64], reach: Reach) -> list[Int64]:
    """Return the candidate passages of one query in each shard."""
    parts: list[list[Int64]] = [[np.zeros(0, dtype=np.int64)] for _ in found]

    def take(numbers: Sequence[Int64], cut: Sequence[int]) -> None:
        for part, each, n in zip(parts, numbers, cut, strict=True):
            part.append(each[:n])

    if plan.weights.passage > 0:
        take(near, [len(each) for each in near])
    lexical = [each.lexical for each in found]
    take([each.numbers for each in lexical], firsts(lexical, reach.n_lexical))
    own = [each.own for each in found if each.own is not None]
    if len(own) == len(found):
        take([each.numbers for each in own], firsts(own, reach.n_lexical))
    named = [each.named for each in found]
    take(
        [each.numbers for each in named],
        firsts(named, reach.n_lexical, before=[each.named_words for each in found]),
    )
    if plan.whole_documents and plan.by_words:
        for part, in_documents in zip(parts, _in_documents(found, reach), strict=True):
            part.append(in_documents)
    return [np.concatenate(part) for part in parts]


def _in_documents(found: Sequence[Candidates], reach: Reach) -> list[Int64]:
    """Return the passages in each shard of the best documents by words, not too many of them."""
    order = [
        int(found[owner].lexical_documents[i])
        for owner, i in ranked_first([each.lexical for each in found], reach.n_lexical)
        if len(found[owner].lexical_documents)
    ]
    own = [each.own for each in found if each.own is not None]
    if len(own) == len(found):
        begins = [len(each.lexical.numbers) for each in found]
        order += [
            int(found[owner].lexical_documents[begins[owner] + i]) for owner, i in ranked_first(own, reach.n_lexical)
        ]
    chosen = np.array(list(dict.fromkeys(order))[: _n_documents(reach)], dtype=np.int64)
    kept = [np.isin(each.documents, chosen) for each in found]
    if sum(int(np.count_nonzero(each)) for each in kept) <= MAX_DOCUMENT_PASSAGES:
        return [each.in_documents.numbers[own] for each, own in zip(found, kept, strict=True)]
    return _best_passages(found, kept)


def _best_passages(found: Sequence[Candidates], kept: Sequence[NDArray[np.bool_]]) -> list[Int64]:
    """Return the best by words of those passages of documents that are kept, in each shard."""
    numbers = [each.in_documents.numbers[own] for each, own in zip(found, kept, strict=True)]
    scores = np.concatenate([each.in_documents.scores[own] for each, own in zip(found, kept, strict=True)])
    ids = [each.in_documents.ids for each in found]
    # Alone there are no ids: passages rise as ids do.
    ties = np.concatenate(
        [own if not len(of_shard) else of_shard[mask] for own, of_shard, mask in zip(numbers, ids, kept, strict=True)]
    )
    owners = np.repeat(np.arange(len(found)), [len(own) for own in numbers])
    best = np.lexsort((ties, -scores))[:MAX_DOCUMENT_PASSAGES]
    together = np.concatenate(numbers)
    return [together[best[owners[best] == shard]] for shard in range(len(found))]
