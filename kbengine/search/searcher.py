"""Search: encode, find candidates by three signals, rescore all phrases in them, aggregate, resolve to text, read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.search.aggregation import ScoredPhrases, distinct_positions
from kbengine.search.lexical import lexical_signals
from kbengine.search.name_signal import name_signals
from kbengine.search.pool import KeyOf, Pool, QueryVectors
from kbengine.search.query import MAX_K, Query, SearchOptions, Unit, Weights
from kbengine.search.readings import Asked, ranks_documents, read_again
from kbengine.search.rescoring import score_windows
from kbengine.search.resolving import Resolver, SnapshotOutdatedError
from kbengine.search.results import Hit, SearchResult
from kbengine.search.strategies import passages_by_words, plan_of

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder
    from kbengine.encoders.encoder import QueryVectors as EncodedQueries
    from kbengine.reading.reader import Reader
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

TOKENS_PER_SEARCH = 100
"""Nearest start tokens, and as many end tokens, taken per query (the papers' top-k of query-side training)."""
PASSAGES_PER_SEARCH = 50
"""Passages taken per query from passage vectors, and as many from lexical search."""
EFFORT_FACTORS = {"low": 0.25, "normal": 1.0, "high": 4.0, "exact": 1.0}
MAX_RETRIES = 5
"""Searches begun anew because a compaction forgot documents between finding them and reading their text."""
ROUND_PLACES = 50
"""Places found in the first round. A further round is made only when more are wanted than the rounds before found, and
what it finds comes after theirs: so the first answers are the same however many are asked for."""
ROUND_GROWTH = 4
"""How many times more places and candidates each further round looks at."""


class Searcher:
    """Answers queries from one knowledge base with one encoder; usable from several threads at once."""

    def __init__(self, reader: KBReader, encoder: Encoder, cross_encoder: Callable[[], Reader] | None = None) -> None:
        """Search what `reader` shows; `cross_encoder` gives what reads passages, asked for when the first is read."""
        self.reader = self._reader = reader
        self._encoder = encoder
        self._cross_encoder = cross_encoder
        self._resolver = Resolver(reader)

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
            _reads(query, options.weights_over(query.weights), options) for query in queries
        ):
            self._cross_encoder()  # loading it is no part of reading, and is not counted as such
        began = time.perf_counter()
        encoded = self._encoder.encode_queries([query.input for query in queries], truncate=options.truncate)
        for _ in range(MAX_RETRIES):
            with suppress(SnapshotOutdatedError):
                return self._search(queries, encoded, options, key_of, began)
        raise StateError(f"the knowledge base was compacted {MAX_RETRIES} times during one search; try again")

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
        snapshot = self._reader.snapshot(options.where)
        queries = [replace(query, gate=options.gate_over(query.gate)) for query in queries]
        plans = [plan_of(options.strategy or query.strategy, options.weights_over(query.weights)) for query in queries]
        # A signal that finds candidates only is needed as well: then any weight will do.
        needed = [
            replace(plan.weights, lexical=plan.weights.lexical or 1.0) if plan.needs_words else plan.weights
            for plan in plans
        ]
        lexical = lexical_signals(self._reader, snapshot, queries, needed)
        names = name_signals(self._reader, snapshot, queries, [plan.weights for plan in plans], lexical)
        of_queries = encoded.sparse if snapshot.has_sparse_rows else None  # a reindexing may have dropped them
        pools = []
        for i, (query, plan) in enumerate(zip(queries, plans, strict=True)):
            sparse = of_queries[i] if of_queries is not None and plan.weights.sparse > 0 else None
            vectors = QueryVectors(encoded.start[i], encoded.end[i], encoded.passage[i], lexical[i], sparse, names[i])
            pools.append(Pool(i, query, vectors, plan, options.unit or query.unit))
        timings["lexical"] = (clock() - lexical_began) * 1e3
        growth = 1
        while wanting := [pool for pool in pools if pool.wants_more(options.k)]:
            self._find_more(snapshot, wanting, options, key_of, growth, timings)
            growth *= ROUND_GROWTH
        timings["total"] = (clock() - began) * 1e3
        return [
            SearchResult(
                hits=tuple(pool.hits if key_of is not None else pool.hits[: options.k]),
                generation=snapshot.generation,
                encoder=self._encoder.fingerprint,
                n_query_tokens=int(encoded.n_tokens[pool.place]),
                truncated=bool(encoded.truncated[pool.place]),
                timings_ms=timings,
                round_ends=tuple(pool.round_ends),
                lexical_factor=None if pool.vectors.lexical is None else pool.vectors.lexical.factor,
            )
            for pool in pools
        ]

    def _find_more(
        self,
        snapshot: Snapshot,
        pools: Sequence[Pool],
        options: SearchOptions,
        key_of: KeyOf | None,
        growth: int,
        timings: dict[str, float],
    ) -> None:
        """Add to each pool what a round finds beyond what is in it."""
        clock = time.perf_counter
        began = clock()
        is_last = key_of is not None and ROUND_PLACES * growth >= MAX_K  # so many places are the most that is grouped
        growth = MAX_K // ROUND_PLACES if is_last else growth
        near = [pool for pool in pools if pool.plan.by_vectors or growth > 1]
        if near:
            found = self._nearest(
                snapshot,
                np.stack([pool.vectors.start for pool in near]),
                np.stack([pool.vectors.end for pool in near]),
                np.stack([pool.vectors.passage for pool in near]),
                options,
                n_tokens=TOKENS_PER_SEARCH * growth,
                n_passages=PASSAGES_PER_SEARCH * growth,
                growth=growth,
            )
            for pool, rows, passages in zip(near, *found, strict=True):
                pool.token_rows, pool.passage_hits = rows, passages
        nearest_at = clock()
        new = []
        for pool in pools:
            # Several places may be one sentence; some may not be shown.
            most = 4 * MAX_K if pool.unit == "sentence" else MAX_K if key_of is not None else 2 * MAX_K
            new.append(self._choose(snapshot, pool, options, min(ROUND_PLACES * growth, most), growth))
            pool.is_exhausted |= is_last or len(pool.phrases or ()) >= most
        rescored_at = clock()
        resolved = self._resolver.resolve(
            snapshot, pools, new, max_phrase_tokens=self._longest(options), explain=options.explain
        )
        resolved_at = clock()
        if growth == 1:  # what further rounds find stands after the first round's hits, and is not read
            self._read(snapshot, pools, resolved, options)
        for pool, hits in zip(pools, resolved, strict=True):
            pool.take(hits, key_of)
        timings["nearest"] += (nearest_at - began) * 1e3
        timings["rescore"] += (rescored_at - nearest_at) * 1e3
        timings["resolve"] += (resolved_at - rescored_at) * 1e3
        timings["read"] += (clock() - resolved_at) * 1e3

    def _read(
        self, snapshot: Snapshot, pools: Sequence[Pool], resolved: list[list[Hit]], options: SearchOptions
    ) -> None:
        """Put what reading finds in the places of the hits, where passages are to be read."""
        places = [i for i, pool in enumerate(pools) if pool.to_read is not None and len(pool.to_read)]
        if not places:
            return
        if self._cross_encoder is None:
            raise StateError("there is no reader to read passages with; set read to 0")
        some = [pools[i] for i in places]
        chosen = [pool.to_read for pool in some if pool.to_read is not None]
        to_read = self._resolver.resolve(snapshot, some, chosen, max_phrase_tokens=None, explain=options.explain)
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
            for i, pool, hits in zip(places, some, to_read, strict=True)
        ]
        for i, pool, read in zip(places, some, read_again(self._cross_encoder(), self._reader, asked), strict=True):
            resolved[i], pool.unread_part = read.hits, read.unread_part

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
        """Return for each query its `options.k` best phrases by each weighting: what tuning learns from.

        They are best first, overlapping ones too: the best that begins at each token, and where it is asked for the
        best that ends there, so that boundaries are learned at both ends. What is nearest and the signals of words are
        found once for all weightings.

        Args:
            snapshot: what is searched.
            queries: what is asked; their lexical texts count where a weighting gives them weight.
            encoded: their vectors, by any encoder with the stored passage vectors' passage side.
            options: `k`, `effort`, `nprobe`, `max_phrase_tokens`; the rest is not looked at.
            weightings: each the weights of every query.
            of_ends_too: for each query whether the best phrases that end at each token are taken too; None: for none.
        """
        by_words = [max(each, key=lambda weights: weights.lexical) for each in zip(*weightings, strict=True)]
        lexical = lexical_signals(self._reader, snapshot, queries, by_words)
        by_names = [max(each, key=lambda weights: weights.name) for each in zip(*weightings, strict=True)]
        names = name_signals(self._reader, snapshot, queries, by_names, lexical)
        token_rows, passage_hits = self._nearest(
            snapshot,
            encoded.start,
            encoded.end,
            encoded.passage,
            options,
            n_tokens=max(TOKENS_PER_SEARCH, 2 * options.k),
            n_passages=max(PASSAGES_PER_SEARCH, options.k),
        )
        found: list[list[ScoredPhrases]] = []
        for i in range(len(queries)):
            found.append([])
            for weights in (each[i] for each in weightings):
                signal = lexical[i] if weights.lexical > 0 else None
                name = names[i] if weights.name > 0 else None
                vectors = QueryVectors(encoded.start[i], encoded.end[i], encoded.passage[i], signal, None, name)
                named = [passage_hits[i] if weights.passage > 0 else passage_hits[i][:0]]
                if signal is not None:
                    named.append(signal.candidates(snapshot, max(PASSAGES_PER_SEARCH, options.k)))
                if name is not None:
                    named.append(name.candidates(snapshot, max(PASSAGES_PER_SEARCH, options.k)))
                scored = score_windows(
                    snapshot,
                    vectors,
                    weights,
                    "phrase",
                    self._longest(options),
                    token_rows[i],
                    np.concatenate(named),
                    n_places=options.k,
                    of_ends_too=of_ends_too is not None and of_ends_too[i],
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
        *,
        n_tokens: int,
        n_passages: int,
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
        _, rows = snapshot.search_tokens(
            np.concatenate([start, end]), n_tokens, nprobe=nprobe, nprobe_factor=factor, exact=exact
        )
        _, passages = snapshot.search_passages(passage, n_passages, nprobe=nprobe, nprobe_factor=factor, exact=exact)
        token_rows = [np.unique(np.concatenate([rows[i], rows[n + i]])) for i in range(n)]
        return [token_rows[i][token_rows[i] >= 0] for i in places], [passages[i][passages[i] >= 0] for i in places]

    def _choose(
        self, snapshot: Snapshot, pool: Pool, options: SearchOptions, n_places: int, growth: int
    ) -> ScoredPhrases:
        """Return the best phrases of distinct units beyond those in the pool, up to `n_places` with these."""
        n_lexical = PASSAGES_PER_SEARCH * growth
        plan = pool.plan if growth == 1 else pool.plan.with_everything
        named = [
            pool.passage_hits if plan.weights.passage > 0 else pool.passage_hits[:0],
            passages_by_words(plan, snapshot, pool.vectors.lexical, n_lexical),
        ]
        if plan.by_names and pool.vectors.name is not None:
            named.append(pool.vectors.name.candidates(snapshot, n_lexical))
        pool.is_exhausted = snapshot.n_rows == 0
        if growth > 1 and n_lexical >= snapshot.n_live_passages:
            pool.is_exhausted = True
            named = [np.flatnonzero(snapshot.live_passages)]
        scored = score_windows(
            snapshot,
            pool.vectors,
            plan.weights,
            pool.unit,
            self._longest(options),
            pool.token_rows,
            np.concatenate(named),
            n_places=n_places,
        )
        together = scored if pool.phrases is None else pool.phrases.followed_by(scored)
        if growth == 1 and (n_read := _reads(pool.query, pool.plan.weights, options)):
            kind: Unit = "document" if ranks_documents(pool.query) else "passage"
            best = distinct_positions(together, snapshot, kind, n_read)
            pool.to_read = together.take(np.asarray(best, dtype=np.int64))
        positions = distinct_positions(together, snapshot, pool.unit, n_places)
        n_before = 0 if pool.phrases is None else len(pool.phrases)
        pool.phrases = together.take(np.asarray(positions, dtype=np.int64))
        return pool.phrases.take(np.arange(min(n_before, len(positions)), len(positions), dtype=np.int64))

    def _longest(self, options: SearchOptions) -> int:
        return options.max_phrase_tokens or self._encoder.max_phrase_tokens


def _reads(query: Query, weights: Weights, options: SearchOptions) -> int:
    """Return how many passages are read for a query."""
    n = query.read if options.read is None else options.read
    return n if weights.reader > 0 else 0


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
