"""Search in segments that one quantiser codes: lists are chosen once for all of them, and candidates rescored once.

FAISS scans the chosen lists of each segment with codes of a few bits; the best rows of all segments together are then
scored from what is stored. A query's result depends on nothing but itself: its lists, its rotation and its final scores
are computed alone, and of rows that are alike by their codes either all count or none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.exact import Found, RowVectors, empty_found, score_rows
from storage.filled_index import FilledIndex, Selector
from storage.quantiser import Quantiser
from storage.stored_array import Stored

__all__ = [
    "CodedPart",
    "CodedRows",
    "best_lists",
    "coded_rows",
    "n_fetched",
    "n_probed",
    "nearest_of",
    "search_coded",
]

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

# Below this share of live rows FAISS skips dead ones itself; above it, fetching a few more is faster.
_SELECT_BELOW = 0.5
# Fetched beyond k.
_SPARE_ROWS = 16
# Rounding of a float32 inner product of a few hundred terms, relative to the norms, with room to spare.
_ROUNDING = 1e-5
# Up to so many queries are multiplied one by one: numpy's product of two matrices first makes a copy of all centroids,
# which takes longer than reading them for each of a few queries.
_ONE_BY_ONE = 4


@dataclass(frozen=True)
class CodedPart:
    """One segment's part of a search. Inside, the rows that can be found are numbered from 0: their *places*.

    Attributes:
        index: FAISS's lists.
        sought: The stored vectors, by place.
        rows: int64 (n), the segment's row at each place, rising; None where they are the same.
        first_row: What is added to the segment's rows.
        live: bool (n), which places may be found; None: all.
    """

    index: FilledIndex
    sought: RowVectors
    rows: Stored[np.int64] | None
    first_row: int
    live: NDArray[np.bool_] | None

    @property
    def n_rows(self) -> int:
        """How many places there are."""
        return self.sought.n_rows

    @property
    def n_live(self) -> int:
        """How many places may be found."""
        return self.n_rows if self.live is None else int(np.count_nonzero(self.live))

    def numbers(self, places: Int64) -> Int64:
        """Return the number that each place is known by, int64 of the same shape; of −1 it is meaningless."""
        return (places if self.rows is None else self.rows[places]) + self.first_row

    def candidates(self, queries: Float32, fetch: int, lists: Int64, biases: Float32) -> tuple[Float32, Int64]:
        """Return the best live places by their codes: which of those with the last score is chance.

        Args:
            queries: float32 (m, coded_d), rotated.
            fetch: How many rows are wanted.
            lists: int64 (m, nprobe), where to look.
            biases: float32 (m, nprobe), inner products with the centroids of these lists.

        Returns:
            Scores float32 (m, n), −inf for what is no candidate; places int64 (m, n).
        """
        n_live = self.n_live
        if not n_live:
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        share = n_live / self.n_rows
        if self.live is None:
            scores, places = self.index.search_lists(queries, min(fetch, self.n_rows), lists, biases, None)
            return np.where(places >= 0, scores, np.float32(-np.inf)), places
        if share >= _SELECT_BELOW:
            more = min(math.ceil(1.1 * fetch / share), self.n_rows)
            scores, places = self.index.search_lists(queries, more, lists, biases, None)
            is_candidate = (places >= 0) & self.live[places]
            # More were fetched than are wanted: those with the last score are then some of several.
            is_enough = (is_candidate & (scores > scores[:, -1:])).sum(axis=1) >= fetch
            if (is_enough | (places[:, -1] < 0) | (more == self.n_rows)).all():
                return np.where(is_candidate, scores, np.float32(-np.inf)), places
        scores, places = self.index.search_lists(queries, min(fetch, n_live), lists, biases, Selector.of(self.live))
        return np.where(places >= 0, scores, np.float32(-np.inf)), places


@dataclass(frozen=True)
class CodedRows:
    """The best rows of one query by their codes, with what they score exactly.

    Attributes:
        coarse: float32 (n), scores by the codes.
        scores: float32 (n), exact inner products.
        numbers: int64 (n).
    """

    coarse: Float32
    scores: Float32
    numbers: Int64


def search_coded(
    quantiser: Quantiser, parts: Sequence[CodedPart], queries: Float32, k: int, *, nprobe: int, refine: int
) -> Found:
    """Search the k best live rows of each query in all parts; scores are inner products with the stored vectors.

    A query that finds fewer than k, though there are as many, is asked again with more effort.

    Args:
        quantiser: What codes the rows of all parts.
        parts: The segments' parts; their numbers rise from one to the next.
        queries: float32 (m, d).
        k: How many rows per query.
        nprobe: Lists looked into.
        refine: Rows rescored for each one wanted.
    """
    found = empty_found(len(queries), k)
    n_rows = sum(part.n_rows for part in parts)
    wanted = min(k, sum(part.n_live for part in parts))
    asked = np.arange(len(queries))
    n_more = 0
    while wanted and len(asked):
        fetch, probes = n_fetched(k, refine, n_more), n_probed(quantiser, nprobe, n_more)
        is_lacking = []
        for number, rows in zip(
            asked.tolist(), coded_rows(quantiser, parts, queries[asked], fetch, probes), strict=True
        ):
            best = nearest_of(rows.coarse, rows.scores, rows.numbers, fetch, k)
            found.scores[number, : len(best)] = rows.scores[best]
            found.rows[number, : len(best)] = rows.numbers[best]
            is_lacking.append(len(best) < wanted)
        if fetch >= n_rows and probes >= quantiser.nlist:
            break
        asked = asked[np.array(is_lacking)]
        n_more += 1
    return found


def n_fetched(k: int, refine: int, n_more: int) -> int:
    """Return how many rows are fetched by their codes for k that are wanted, at a search repeated so often."""
    return (k + _SPARE_ROWS) * refine << 2 * n_more


def n_probed(quantiser: Quantiser, nprobe: int, n_more: int) -> int:
    """Return how many lists are looked into at a search repeated so often."""
    return max(1, min(nprobe << 2 * n_more, quantiser.nlist))


def nearest_of(coarse: Float32, scores: Float32, numbers: Int64, fetch: int, k: int) -> Int64:
    """Return the positions of the k best rows by score among those that are fetched by their codes, best first.

    Of rows as good by their codes as the first that is left out none counts: so what is found depends neither on the
    order of rows nor on how they are dealt out to segments and shards.

    Args:
        coarse: float32 (n), scores by the codes, at least those of the `fetch` + 1 best of all rows.
        scores: float32 (n), exact ones.
        numbers: int64 (n); of equal scores the lower number comes first.
        fetch: How many are fetched.
        k: How many are wanted.
    """
    kept = np.arange(len(coarse), dtype=np.int64)
    if len(coarse) > fetch:
        kept = np.flatnonzero(coarse > np.partition(coarse, len(coarse) - fetch - 1)[len(coarse) - fetch - 1])
    best: Int64 = kept[np.lexsort((numbers[kept], -scores[kept]))[:k]]
    return best


def best_lists(quantiser: Quantiser, queries: Float32, nprobe: int) -> tuple[Int64, Float32]:
    """Return the lists whose centroids have the largest inner products with each query, best first.

    A matrix product only selects candidates, so that a query's lists do not depend on the queries beside it.

    Args:
        quantiser: Whose lists.
        queries: float32 (m, d).
        nprobe: How many lists, at most all.

    Returns:
        Lists int64 (m, nprobe), inner products float32 (m, nprobe).
    """
    centroids = quantiser.centroids
    if 0 < len(queries) <= _ONE_BY_ONE:
        products = np.stack([centroids @ query for query in queries])  # (m, nlist)
    else:
        products = queries @ centroids.T
    margins = 2 * _ROUNDING * quantiser.largest_norm * np.linalg.norm(queries, axis=1)
    lists = np.empty((len(queries), nprobe), dtype=np.int64)
    scores = np.empty((len(queries), nprobe), dtype=np.float32)
    for index, query in enumerate(queries):
        last = quantiser.nlist - nprobe
        bound = np.partition(products[index], last)[last] - margins[index]
        candidates = np.flatnonzero(products[index] >= bound)
        exact = score_rows(centroids[candidates], query)
        best = np.argsort(-exact, kind="stable")[:nprobe]
        lists[index], scores[index] = candidates[best], exact[best]
    return lists, scores


def coded_rows(
    quantiser: Quantiser, parts: Sequence[CodedPart], queries: Float32, fetch: int, nprobe: int
) -> list[CodedRows]:
    """Return for each query the `fetch` + 1 best live rows of all parts by their codes, and those as good as the last.

    Arguments as of `search_coded`.
    """
    lists, biases = best_lists(quantiser, queries, nprobe)
    # One by one: a product with many queries rounds differently.
    rotated = np.stack([quantiser.rotated(query[None])[0] for query in queries])
    candidates = [part.candidates(rotated, fetch + 1, lists, biases) for part in parts]
    found = []
    for index, query in enumerate(queries):
        coarse = np.concatenate([np.empty(0, np.float32), *(part_scores[index] for part_scores, _ in candidates)])
        numbers = np.concatenate(
            [
                np.empty(0, np.int64),
                *(part.numbers(places[index]) for part, (_, places) in zip(parts, candidates, strict=True)),
            ]
        )
        owners = np.repeat(np.arange(len(parts)), [part_scores.shape[1] for part_scores, _ in candidates])
        places = np.concatenate([np.empty(0, np.int64), *(part_places[index] for _, part_places in candidates)])
        is_kept = np.isfinite(coarse)
        if len(coarse) > fetch + 1:
            is_kept &= coarse >= np.partition(coarse, len(coarse) - fetch - 1)[len(coarse) - fetch - 1]
        best = np.flatnonzero(is_kept)
        exact = np.empty(len(best), dtype=np.float32)
        for owner in np.unique(owners[best]).tolist():
            mine = owners[best] == owner
            exact[mine] = _scored(parts[owner].sought, places[best[mine]], query)
        found.append(CodedRows(coarse[best], exact, numbers[best]))
    return found


def _scored(vectors: RowVectors, places: Int64, query: Float32) -> Float32:
    """Return the inner products of places with a query, float32 (n), read in the order of places."""
    order = np.argsort(places, kind="stable")
    scores = np.empty(len(places), dtype=np.float32)
    scores[order] = vectors.inner_products(places[order], query[:, None])[:, 0]
    return scores
