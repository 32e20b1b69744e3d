"""Search: encode, find candidates by three signals, rescore all phrases in them, aggregate, resolve to text, read.

Each step is a round in which all shards are asked; a local knowledge base is one shard (`kbengine.search.shard`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kbengine.errors import StateError
from kbengine.search.candidate_round import Searching, find_candidates
from kbengine.search.effort import Reach
from kbengine.search.name_signal import name_signals
from kbengine.search.pool import AskedVectors, KeyOf, Pool, ShardPool
from kbengine.search.query import MAX_K, Query, SearchOptions, Weights
from kbengine.search.readings import Asked, read_again
from kbengine.search.resolving import SnapshotOutdatedError
from kbengine.search.results import Hit, SearchResult
from kbengine.search.score_round import choose_phrases, reads, resolve_phrases
from kbengine.search.shards import LocalSource, ShardSource, source_of
from kbengine.search.strategies import plan_of
from kbengine.search.term_statistics import count, lexical_queries
from kbengine.search.weighted_candidates import weighted_candidates

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from kbengine.encoders.encoder import QueryVectors as EncodedQueries
    from kbengine.reading.reader import Reader
    from kbengine.search.aggregation import ScoredPhrases
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

MAX_RETRIES = 5
"""Searches begun anew because a compaction forgot documents between finding them and reading their text."""
ROUND_PLACES = 50
"""Places found in the first round. A further round is made only when more are wanted than the rounds before found, and
what it finds comes after theirs: so the first answers are the same however many are asked for."""
ROUND_GROWTH = 4
"""How many times more places and candidates each further round looks at."""


class Searcher:
    """Answers queries from one knowledge base with one encoder; usable from several threads at once."""

    def __init__(
        self, source: KBReader | ShardSource, encoder: Encoder, cross_encoder: Callable[[], Reader] | None = None
    ) -> None:
        """Search what the source shows: a knowledge base, or all shards of one.

        Args:
            source: what is searched, as it is when a search begins.
            encoder: encodes queries.
            cross_encoder: gives what reads passages, asked for when the first is read.
        """
        self._source = source_of(source)
        self._encoder = encoder
        self._cross_encoder = cross_encoder

    @property
    def encoder(self) -> Encoder:
        """What encodes queries."""
        return self._encoder

    @property
    def reader(self) -> KBReader:
        """The local knowledge base that is searched.

        Raises:
            StateError: it is none: shards of many are searched.
        """
        if not isinstance(self._source, LocalSource):
            raise StateError("many shards are searched; this needs one knowledge base on disk")
        return self._source.records

    def search(
        self, queries: Sequence[Query], options: SearchOptions, *, key_of: KeyOf | None = None
    ) -> list[SearchResult]:
        """Search for each query, in order; each result is what the query would get alone.

        Timings are those of the whole call, not divided by the number of queries.

        Args:
            queries: what is asked.
            options: how.
            key_of: what makes hits one answer: called with the query's place and a hit, it returns the answer's key,
                None where the hit is no answer. `options.k` then counts distinct keys, and all places of the rounds
                that it took to find them come back. Without it every hit is an answer of its own.

        Raises:
            QueryError: a query is empty or longer than the encoder takes (unless `options.truncate`).
            InvalidOptionError: the filter cannot be read, or does not fit the documents' fields.
            CorruptError: the stored text of an answer is not what was written.
        """
        if not queries:
            return []
        if self._cross_encoder is not None and any(
            reads(query, options.weights_over(query.weights), options) for query in queries
        ):
            self._cross_encoder()  # loading it is no part of reading, and is not counted as such
        began = time.perf_counter()
        encoded = self._encoder.encode_queries([query.input for query in queries], truncate=options.truncate)
        for _ in range(MAX_RETRIES):
            with suppress(SnapshotOutdatedError):
                return self._search(queries, encoded, options, key_of, began)
        raise StateError(f"the knowledge base was compacted {MAX_RETRIES} times during one search; try again")

    def candidates(
        self,
        snapshot: Snapshot,
        queries: Sequence[Query],
        encoded: EncodedQueries,
        options: SearchOptions,
        weightings: Sequence[Sequence[Weights]],
        *,
        of_ends_too: Sequence[bool] | None = None,
    ) -> list[list[ScoredPhrases]]:
        """Return each query's best phrases by each weighting, in one knowledge base: see `weighted_candidates`."""
        return weighted_candidates(
            self.reader,
            snapshot,
            queries,
            encoded,
            options,
            weightings,
            max_phrase_tokens=options.max_phrase_tokens or self._encoder.max_phrase_tokens,
            of_ends_too=of_ends_too,
        )

    def _search(
        self,
        queries: Sequence[Query],
        encoded: EncodedQueries,
        options: SearchOptions,
        key_of: KeyOf | None,
        began: float,
    ) -> list[SearchResult]:
        """Return the results from the newest snapshot."""
        clock = time.perf_counter
        parts = ("lexical", "nearest", "rescore", "resolve", "read")
        timings = {"encode": (clock() - began) * 1e3, **dict.fromkeys(parts, 0.0)}
        lexical_began = clock()
        shards = self._source.shards(options.where)
        scope = shards.scope(options.where)
        queries = [replace(query, gate=options.gate_over(query.gate)) for query in queries]
        plans = [plan_of(options.strategy or query.strategy, options.weights_over(query.weights)) for query in queries]
        # A signal that finds candidates only is needed as well: then any weight will do.
        needed = [
            replace(plan.weights, lexical=plan.weights.lexical or 1.0) if plan.needs_words else plan.weights
            for plan in plans
        ]
        statistics = count(shards, scope, queries, needed)
        lexical = lexical_queries(statistics, queries, needed, len(shards.members))
        names = name_signals(shards, scope, statistics, queries, [plan.weights for plan in plans], lexical)
        of_queries = encoded.sparse if statistics.has_sparse_rows else None  # a reindexing may have dropped them
        pools = []
        for i, (query, plan) in enumerate(zip(queries, plans, strict=True)):
            sparse = of_queries[i] if of_queries is not None and plan.weights.sparse > 0 else None
            vectors = AskedVectors(encoded.start[i], encoded.end[i], encoded.passage[i], sparse, lexical[i], names[i])
            own = [ShardPool() for _ in shards.members]
            pools.append(Pool(i, query, vectors, plan, options.unit or query.unit, own))
        timings["lexical"] = (clock() - lexical_began) * 1e3
        searching = Searching(shards, scope, statistics)
        growth = 1
        while wanting := [pool for pool in pools if pool.wants_more(options.k)]:
            self._find_more(searching, wanting, options, key_of, growth, timings)
            growth *= ROUND_GROWTH
        timings["total"] = (clock() - began) * 1e3
        return [
            SearchResult(
                hits=tuple(pool.hits if key_of is not None else pool.hits[: options.k]),
                generation=shards.generation,
                encoder=self._encoder.fingerprint,
                n_query_tokens=int(encoded.n_tokens[pool.place]),
                truncated=bool(encoded.truncated[pool.place]),
                timings_ms=timings,
                round_ends=tuple(pool.round_ends),
                lexical_factor=pool.lexical_factor,
            )
            for pool in pools
        ]

    def _find_more(
        self,
        searching: Searching,
        pools: Sequence[Pool],
        options: SearchOptions,
        key_of: KeyOf | None,
        growth: int,
        timings: dict[str, float],
    ) -> None:
        """Add to each pool what a round finds beyond what is in it."""
        clock = time.perf_counter
        began = clock()
        is_first = growth == 1
        is_last = key_of is not None and ROUND_PLACES * growth >= MAX_K  # so many places are the most that is grouped
        growth = MAX_K // ROUND_PLACES if is_last else growth
        reach = Reach.of(options, growth)
        find_candidates(searching, pools, reach, is_first=is_first)
        nearest_at = clock()
        statistics = searching.statistics
        is_everything = not is_first and reach.n_lexical >= statistics.n_found_passages
        # Several places may be one sentence; some may not be shown.
        most = [4 * MAX_K if pool.unit == "sentence" else MAX_K if key_of is not None else 2 * MAX_K for pool in pools]
        longest = options.max_phrase_tokens or self._encoder.max_phrase_tokens
        choose_phrases(
            searching,
            pools,
            options,
            most=[min(ROUND_PLACES * growth, n) for n in most],
            max_phrase_tokens=longest,
            is_everything=is_everything,
            is_first=is_first,
        )
        for pool, n in zip(pools, most, strict=True):
            pool.is_exhausted = is_last or is_everything or statistics.n_rows == 0 or pool.n_phrases >= n
        rescored_at = clock()
        found = resolve_phrases(
            searching,
            pools,
            to_read=False,
            max_phrase_tokens=longest,
            explain=options.explain,
            n_hits=[pool.n_wanted(options.k, key_of) for pool in pools],
        )
        resolved_at = clock()
        hits = [each.hits for each in found]
        n_left_out = [each.n_found - len(each.hits) for each in found]
        if is_first:  # what further rounds find stands after the first round's hits, and is not read
            self._read(searching, pools, hits, options)
        for pool, own, n in zip(pools, hits, n_left_out, strict=True):
            pool.take(own, key_of, n_left_out=n)
        timings["nearest"] += (nearest_at - began) * 1e3
        timings["rescore"] += (rescored_at - nearest_at) * 1e3
        timings["resolve"] += (resolved_at - rescored_at) * 1e3
        timings["read"] += (clock() - resolved_at) * 1e3

    def _read(
        self, searching: Searching, pools: Sequence[Pool], resolved: list[list[Hit]], options: SearchOptions
    ) -> None:
        """Put what reading finds in the places of the hits, where passages are to be read."""
        places = [i for i, pool in enumerate(pools) if pool.is_to_be_read]
        if not places:
            return
        if self._cross_encoder is None:
            raise StateError("there is no reader to read passages with; set read to 0")
        some = [pools[i] for i in places]
        to_read = resolve_phrases(searching, some, to_read=True, max_phrase_tokens=None, explain=options.explain)
        asked = [
            Asked(
                pool.query.reading or pool.query.input,
                pool.plan.weights.reader,
                pool.unit,
                resolved[i],
                hits,
                options.max_phrase_tokens,
                pool.query.forwards,
            )
            for i, pool, hits in zip(places, some, (each.hits for each in to_read), strict=True)
        ]
        records = searching.shards.records
        for i, pool, read in zip(places, some, read_again(self._cross_encoder(), records, asked), strict=True):
            resolved[i], pool.unread_part = read.hits, read.unread_part
