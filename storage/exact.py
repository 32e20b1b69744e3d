"""Exact inner-product search over rows in memory, with results that do not depend on who else is asking.

A matrix product rounds differently for one query than for sixty-four, so it only selects candidates (with a
margin for that rounding); each candidate's final score is computed on its own. Equal scores go to the lower row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, UsageError

# Rounding of a float32 inner product of a few hundred terms, relative to the norms, with room to spare.
_ROUNDING = 1e-5
# Scores that differ by less, relative to the best one, may be of equal rows.
_ALIKE = 1e-4
_CHUNK_ROWS = 1 << 14


class RowVectors(Protocol):
    """Vectors of numbered rows, however they are stored."""

    @property
    def n_rows(self) -> int:
        """How many there are."""

    @property
    def d(self) -> int:
        """Their dimension."""

    def vectors(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the vectors of rows, float32 (rows, d)."""

    def inner_products(self, rows: NDArray[np.int64], targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products float32 (rows, t) with targets float32 (d, t)."""


@dataclass(frozen=True)
class Found:
    """What a search returns for m queries: rows by falling score, padded with row −1 and score −inf.

    Attributes:
        scores: float32 (m, k), inner products.
        rows: int64 (m, k).
    """

    scores: NDArray[np.float32]
    rows: NDArray[np.int64]


@dataclass(frozen=True)
class ExactBlock:
    """Rows held as float32 for scanning.

    Attributes:
        vectors: float32 (n, d).
        rows: int64 (n), rising: the number each vector is known by.
        source: What gives the scores of rows, where vectors are decoded and depend a little on what is decoded with
            them; None: the vectors do.
    """

    vectors: NDArray[np.float32]
    rows: NDArray[np.int64]
    source: RowVectors | None = None

    @cached_property
    def largest_norm(self) -> float:
        """The largest Euclidean norm of a row, 0 when there is none."""
        squares = np.einsum("nd,nd->n", self.vectors, self.vectors)
        return float(np.sqrt(squares.max(initial=0.0)))

    def search(self, queries: NDArray[np.float32], k: int) -> Found:
        """Search the k best rows of each query float32 (m, d)."""
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        rows = np.full((len(queries), k), -1, dtype=np.int64)
        n = len(self.rows)
        if n == 0:
            return Found(scores, rows)
        products = queries @ self.vectors.T  # (m, n)
        margins = (2 * _ROUNDING * self.largest_norm) * np.linalg.norm(queries, axis=1)
        for index, query in enumerate(queries):
            if n > k:
                bound = np.partition(products[index], n - k)[n - k] - margins[index]
                candidates = np.flatnonzero(products[index] >= bound)
            else:
                candidates = np.arange(n)
            if self.source is None:
                exact = score_rows(self.vectors[candidates], query)
            else:
                exact = self.source.inner_products(self.rows[candidates], query[:, None])[:, 0]
            # Candidates rise, so a stable sort leaves the lower of equal rows first.
            best = np.argsort(-exact, kind="stable")[:k]
            scores[index, : len(best)] = exact[best]
            rows[index, : len(best)] = self.rows[candidates[best]]
        return Found(scores, rows)


def score_rows(vectors: NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the inner products float32 (n) of rows float32 (n, d) with one query, each summed in the same order."""
    scores: NDArray[np.float32] = np.einsum("nd,d->n", vectors, query)
    return scores


def multiply_rows(vectors: NDArray[np.float32], targets: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """Write the inner products of rows float32 (n, d) with targets float32 (t, d) to `out`, float32 (t, n).

    Each is summed in the same order, so that a row's products do not depend on the rows beside it: those of a matrix
    product do (and for the two targets of a query it takes more than twice as long).
    """
    for target, products in zip(targets, out, strict=True):
        np.einsum("nd,d->n", vectors, target, out=products)


def search_rows(
    source: RowVectors,
    queries: NDArray[np.float32],
    k: int,
    *,
    live: NDArray[np.bool_] | None = None,
    is_decoded: bool = False,
) -> Found:
    """Search all rows of the source exactly, in bounded memory, for the k best of each query.

    Args:
        source: Where the vectors are.
        queries: float32 (m, d).
        k: How many.
        live: bool (n), which rows may be returned; None allows all.
        is_decoded: Whether the vectors are decoded.
    """
    found = empty_found(len(queries), k)
    all_rows = np.arange(source.n_rows) if live is None else np.flatnonzero(live)
    for start in range(0, len(all_rows), _CHUNK_ROWS):
        rows = all_rows[start : start + _CHUNK_ROWS]
        block = ExactBlock(source.vectors(rows), rows, source if is_decoded else None)
        found = best_of([found, block.search(queries, k)], k)
    return found


def may_lack_equals(scores: NDArray[np.float32], is_live: NDArray[np.bool_], k: int) -> NDArray[np.bool_]:
    """Return for which queries a row that was not fetched may be as good as the last of the k best, bool (m).

    FAISS gives any of several rows with the same score. Where the last row fetched is about as good as the k-th best,
    others are too, and more have to be fetched before the lowest of them can be told.

    Args:
        scores: float32 (m, n), FAISS's scores of the rows fetched, falling.
        is_live: bool (m, n), which of the rows count.
        k: How many are wanted.
    """
    counts = np.cumsum(is_live, axis=1)
    has_enough = counts[:, -1] >= k
    at = np.argmax(counts >= k, axis=1)
    # FAISS fills up with the least float32 number, from which nothing could be taken away.
    wanted = np.take_along_axis(scores, at[:, None], axis=1)[:, 0].astype(np.float64)
    margins = _ALIKE * np.maximum(np.abs(scores[:, 0]), np.abs(wanted))
    doubtful: NDArray[np.bool_] = has_enough & (scores[:, -1] >= wanted - margins)
    return doubtful


def best_of(parts: Sequence[Found], k: int) -> Found:
    """Return the k best of several results for the same queries, whose rows do not overlap."""
    scores = np.concatenate([part.scores for part in parts], axis=1)
    rows = np.concatenate([part.rows for part in parts], axis=1)
    if len(parts) > 1 or rows.shape[1] > k:
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        scores = np.take_along_axis(scores, order, axis=1)
        rows = np.take_along_axis(rows, order, axis=1)
    return Found(scores, rows)


def empty_found(m: int, k: int) -> Found:
    """Return a result without any row."""
    return Found(np.full((m, k), -np.inf, dtype=np.float32), np.full((m, k), -1, dtype=np.int64))


def check_queries(queries: NDArray[np.float32], k: int, *, d: int) -> NDArray[np.float32]:
    """Return the queries as contiguous float32 (m, d); an error when they, or k, cannot be searched with."""
    if queries.ndim != 2 or queries.shape[1] != d:
        raise UsageError(
            f"queries have shape {queries.shape}, the index holds vectors of dimension {d}, expected (m, {d}); "
            "encode with the knowledge base's encoder"
        )
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    if not np.isfinite(queries).all():
        raise UsageError("queries hold values that are not finite, expected numbers; check the encoder")
    if k < 1:
        raise InvalidOptionError(f"k is {k}, expected at least 1")
    return queries
