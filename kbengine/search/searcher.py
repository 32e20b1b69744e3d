"""Search: encode, find candidates by three signals, rescore all phrases in them, aggregate, resolve to text."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.search.aggregation import ScoredPhrases, distinct_positions, first_best_positions, rank_phrases
from kbengine.search.candidates import candidate_ranges
from kbengine.search.lexical import LexicalSignal, lexical_signals
from kbengine.search.query import Query, SearchOptions, Unit, Weights
from kbengine.search.resolving import Resolver, SnapshotOutdatedError
from kbengine.search.results import SearchResult
from kbengine.search.scoring import best_phrases, expand_ranges
from kbengine.search.strategies import Plan, passages_by_words, plan_of

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder, QueryVectors
    from storage.reader import KBReader
    from storage.snapshot import Snapshot
    from storage.sparse_scores import SparseQuery

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

TOKENS_PER_SEARCH = 100
"""Nearest start tokens, and as many end tokens, taken per query (the papers' top-k of query-side training)."""
PASSAGES_PER_SEARCH = 50
"""Passages taken per query from passage vectors, and as many from lexical search."""
EFFORT_FACTORS = {"low": 0.25, "normal": 1.0, "high": 4.0, "exact": 1.0}
MAX_RETRIES = 5
"""Searches begun anew because a compaction forgot documents between finding them and reading their text."""
GATHER_ROWS = 1 << 16
"""Rows whose codes are read at once: 25 MB at d = 384."""


@dataclass(frozen=True)
class _QueryVectors:
    """One query's vectors float32 (d,), its lexical signal and its sparse vectors, None where these do not count."""

    start: Float32
    end: Float32
    passage: Float32
    lexical: LexicalSignal | None
    sparse: SparseQuery | None


class Searcher:
    """Answers queries from one knowledge base with one encoder; usable from several threads at once."""

    def __init__(self, reader: KBReader, encoder: Encoder) -> None:
        self.reader = self._reader = reader
        self._encoder = encoder
        self._resolver = Resolver(reader)

    def search(self, queries: Sequence[Query], options: SearchOptions) -> list[SearchResult]:
        """Return one result per query, in order; each is what the query would get alone.

        Timings are those of the whole call, not divided by the number of queries.

        Raises:
            QueryError: a query is empty or longer than the encoder takes (unless `options.truncate`).
            CorruptError: the stored text of an answer is not what was written.
        """
        if not queries:
            return []
        began = time.perf_counter()
        encoded = self._encoder.encode_queries([query.input for query in queries], truncate=options.truncate)
        for _ in range(MAX_RETRIES):
            with suppress(SnapshotOutdatedError):
                return self._search(queries, encoded, options, began)
        raise StateError(f"the knowledge base was compacted {MAX_RETRIES} times during one search; try again")

    def _search(
        self, queries: Sequence[Query], encoded: QueryVectors, options: SearchOptions, began: float
    ) -> list[SearchResult]:
        """Return the results from the newest snapshot."""
        clock = time.perf_counter
        encoded_at = clock()
        snapshot = self._reader.snapshot()
        plans = [plan_of(options.strategy or query.strategy, options.weights or query.weights) for query in queries]
        units = [options.unit or query.unit for query in queries]
        # A signal that finds candidates only is needed as well: then any weight will do.
        needed = [
            replace(plan.weights, lexical=plan.weights.lexical or 1.0) if plan.needs_words else plan.weights
            for plan in plans
        ]
        lexical = lexical_signals(self._reader, snapshot, queries, needed)
        lexical_at = clock()
        near = np.array([i for i, plan in enumerate(plans) if plan.by_vectors], dtype=np.int64)
        nothing = np.zeros(0, dtype=np.int64)
        nearest: list[tuple[Int64, Int64]] = [(nothing, nothing)] * len(queries)
        if len(near):
            found = self._nearest(snapshot, encoded.start[near], encoded.end[near], encoded.passage[near], options)
            for i, rows, passages in zip(near.tolist(), *found, strict=True):
                nearest[i] = (rows, passages)
        nearest_at = clock()
        chosen = []
        of_queries = encoded.sparse if snapshot.has_sparse_rows else None  # a reindexing may have dropped them
        for i, plan in enumerate(plans):
            sparse = of_queries[i] if of_queries is not None and plan.weights.sparse > 0 else None
            vectors = _QueryVectors(encoded.start[i], encoded.end[i], encoded.passage[i], lexical[i], sparse)
            chosen.append(self._choose(snapshot, vectors, plan, units[i], options, *nearest[i]))
        rescored_at = clock()
        hits = self._resolver.resolve(snapshot, chosen, units, options)
        done = clock()
        timings = {
            "encode": (encoded_at - began) * 1e3,
            "lexical": (lexical_at - encoded_at) * 1e3,
            "nearest": (nearest_at - lexical_at) * 1e3,
            "rescore": (rescored_at - nearest_at) * 1e3,
            "resolve": (done - rescored_at) * 1e3,
            "total": (done - began) * 1e3,
        }
        return [
            SearchResult(
                hits=hits[i],
                generation=snapshot.generation,
                encoder=self._encoder.fingerprint,
                n_query_tokens=int(encoded.n_tokens[i]),
                truncated=bool(encoded.truncated[i]),
                timings_ms=timings,
            )
            for i in range(len(queries))
        ]

    def candidates(
        self,
        snapshot: Snapshot,
        queries: Sequence[Query],
        encoded: QueryVectors,
        options: SearchOptions,
        weightings: Sequence[Sequence[Weights]],
    ) -> list[list[ScoredPhrases]]:
        """Return for each query its `options.k` best phrases by each weighting: what tuning learns from.

        They are best first, overlapping ones too. The nearest tokens and passages and the lexical signals are found
        once for all weightings.

        Args:
            snapshot: what is searched.
            queries: what is asked; their lexical texts count where a weighting gives them weight.
            encoded: their vectors, by any encoder with the stored passage vectors' passage side.
            options: `k`, `effort`, `nprobe`, `max_phrase_tokens`; the rest is not looked at.
            weightings: each the weights of every query.
        """
        by_words = [max(each, key=lambda weights: weights.lexical) for each in zip(*weightings, strict=True)]
        lexical = lexical_signals(self._reader, snapshot, queries, by_words)
        token_rows, passage_hits = self._nearest(snapshot, encoded.start, encoded.end, encoded.passage, options)
        found: list[list[ScoredPhrases]] = []
        for i in range(len(queries)):
            found.append([])
            for weights in (each[i] for each in weightings):
                signal = lexical[i] if weights.lexical > 0 else None
                vectors = _QueryVectors(encoded.start[i], encoded.end[i], encoded.passage[i], signal, None)
                named = [passage_hits[i] if weights.passage > 0 else passage_hits[i][:0]]
                if signal is not None:
                    named.append(signal.candidates(snapshot, max(PASSAGES_PER_SEARCH, options.k)))
                scored = self._score(
                    snapshot, vectors, weights, "phrase", options, token_rows[i], np.concatenate(named)
                )
                found[i].append(scored.take(np.arange(min(options.k, len(scored)), dtype=np.int64)))
        return found

    def _nearest(
        self,
        snapshot: Snapshot,
        start: Float32,
        end: Float32,
        passage: Float32,
        options: SearchOptions,
        growth: int = 1,
    ) -> tuple[list[Int64], list[Int64]]:
        """Return for each query the rows of its nearest tokens and the indices of its nearest passages."""
        # One text under several weights, or asked for by several callers at once, is looked for once.
        chosen, places = _distinct(np.concatenate([start, end, passage], axis=1))
        start, end, passage = start[chosen], end[chosen], passage[chosen]
        n = len(start)
        factor = EFFORT_FACTORS[options.effort] * growth
        nprobe = None if options.nprobe is None else options.nprobe * growth
        exact = options.effort == "exact"
        n_tokens = max(TOKENS_PER_SEARCH, 2 * options.k) * growth
        n_passages = max(PASSAGES_PER_SEARCH, options.k) * growth
        _, rows = snapshot.search_tokens(
            np.concatenate([start, end]), n_tokens, nprobe=nprobe, nprobe_factor=factor, exact=exact
        )
        _, passages = snapshot.search_passages(passage, n_passages, nprobe=nprobe, nprobe_factor=factor, exact=exact)
        token_rows = [np.unique(np.concatenate([rows[i], rows[n + i]])) for i in range(n)]
        return [token_rows[i][token_rows[i] >= 0] for i in places], [passages[i][passages[i] >= 0] for i in places]

    def _choose(
        self,
        snapshot: Snapshot,
        vectors: _QueryVectors,
        plan: Plan,
        unit: Unit,
        options: SearchOptions,
        token_rows: Int64,
        passage_hits: Int64,
    ) -> ScoredPhrases:
        """Return the best phrases that stand for k distinct units, fetching more candidates until there are k."""
        growth = 1
        while True:
            n_lexical = max(PASSAGES_PER_SEARCH, options.k) * growth
            named = [
                passage_hits if plan.weights.passage > 0 else passage_hits[:0],
                passages_by_words(plan, snapshot, vectors.lexical, n_lexical),
            ]
            exhausted = n_lexical >= snapshot.n_passages
            if exhausted and growth > 1:
                named = [np.flatnonzero(snapshot.live_passages)]
            scored = self._score(snapshot, vectors, plan.weights, unit, options, token_rows, np.concatenate(named))
            wanted = options.k if unit != "sentence" else 4 * options.k
            positions = distinct_positions(scored, snapshot, unit, wanted)
            enough = len(positions) >= options.k if unit != "sentence" else len(positions) >= 2 * options.k
            if enough or (exhausted and growth > 1) or snapshot.n_rows == 0:
                return scored.take(np.asarray(positions, dtype=np.int64))
            growth *= 2
            plan = plan.with_everything
            rows, hits = self._nearest(
                snapshot, vectors.start[None], vectors.end[None], vectors.passage[None], options, growth
            )
            token_rows, passage_hits = rows[0], hits[0]

    def _score(
        self,
        snapshot: Snapshot,
        vectors: _QueryVectors,
        weights: Weights,
        unit: Unit,
        options: SearchOptions,
        token_rows: Int64,
        passages: Int64,
    ) -> ScoredPhrases:
        """Return the phrases of all candidate windows, scored and ranked."""
        longest = options.max_phrase_tokens or self._encoder.max_phrase_tokens
        ranges = candidate_ranges(snapshot, token_rows, passages, max_phrase_tokens=longest)
        rows, range_numbers = expand_ranges(ranges.first, ranges.stop)
        start, end = _inner_products(snapshot, rows, vectors)
        sparse = _sparse_products(snapshot, rows, vectors, weights)
        stops = np.cumsum(ranges.stop - ranges.first)
        best = best_phrases(
            start,
            end if sparse is None else end + sparse[1],
            rows=rows,
            range_stops=stops[range_numbers] if len(rows) else rows,
            token_ordinals=snapshot.token_ordinals(rows).astype(np.int64),
            passages=ranges.passages[range_numbers] if len(rows) else rows,
            max_phrase_tokens=longest,
        )
        of_sparse = np.zeros(len(rows), dtype=np.float32)
        best_end = best.end
        if sparse is not None:
            last = np.searchsorted(rows, best.last_rows)  # ranges are in row order and do not overlap: rows rise
            best_end, of_sparse = end[last], sparse[0] + sparse[1][last]
        # Passage and lexical scores are the same for all phrases of a range: computed once per range.
        passage_scores = snapshot.passage_vectors(ranges.passages) @ vectors.passage * np.float32(weights.passage)
        if vectors.lexical is None:
            lexical_scores = np.zeros(len(ranges.passages), dtype=np.float32)
        else:
            lexical_scores = vectors.lexical.scores[ranges.passages] * np.float32(weights.lexical)
        scored = ScoredPhrases(
            first_rows=best.first_rows,
            last_rows=best.last_rows,
            passages=best.passages,
            start=best.start * np.float32(weights.phrase),
            end=best_end * np.float32(weights.phrase),
            passage=passage_scores[range_numbers].astype(np.float32),
            lexical=lexical_scores[range_numbers].astype(np.float32),
            sparse=of_sparse * np.float32(weights.phrase),
            score=np.zeros(len(rows), dtype=np.float32),
        )
        total = scored.start + scored.end + scored.passage + scored.lexical + scored.sparse
        scored.score[:] = total
        if unit in ("passage", "document"):
            # One phrase stands for a passage: cutting the list of phrases could leave too few passages in it.
            scored = scored.take(first_best_positions(scored.score, range_numbers))
        return rank_phrases(scored, max(4096, 32 * options.k))


def _sparse_products(
    snapshot: Snapshot, rows: Int64, vectors: _QueryVectors, weights: Weights
) -> tuple[Float32, Float32] | None:
    """Return the rows' weighted sparse scores as starts and ends, both float32 (r,); None where they do not count."""
    if vectors.sparse is None or not len(rows):
        return None
    start, end = snapshot.sparse_scores(rows, vectors.sparse)
    return start * np.float32(weights.sparse), end * np.float32(weights.sparse)


def _inner_products(snapshot: Snapshot, rows: Int64, vectors: _QueryVectors) -> tuple[Float32, Float32]:
    """Return start·q_start and end·q_end of the rows, both float32 (r,), in blocks of bounded memory."""
    targets = np.stack([vectors.start, vectors.end], axis=1)  # (d, 2)
    scores = np.empty((len(rows), 2), dtype=np.float32)
    for begin in range(0, len(rows), GATHER_ROWS):
        block = slice(begin, begin + GATHER_ROWS)
        scores[block] = snapshot.inner_products(rows[block], targets)
    return np.ascontiguousarray(scores[:, 0]), np.ascontiguousarray(scores[:, 1])


def _distinct(rows: Float32) -> tuple[list[int], list[int]]:
    """Return the index of the first of each kind of rows, and for each row which of these it equals."""
    # numpy.unique over an axis makes a record type of as many fields as there are columns: 4 ms for a single row.
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    places: list[int] = []
    for i, row in enumerate(rows):
        number = numbers.setdefault(row.tobytes(), len(first))
        if number == len(first):
            first.append(i)
        places.append(number)
    return first, places
