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
    """

    vectors: NDArray[np.float32]
    rows: NDArray[np.int64]

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
            exact = score_rows(self.vectors[candidates], query)
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

    With a single target equal rows get equal products, each being summed in the same order.
    """
    if len(targets) == 1:
        np.einsum("nd,d->n", vectors, targets[0], out=out[0])
    else:
        np.matmul(targets, vectors.T, out=out)


def search_rows(
    source: RowVectors,
    queries: NDArray[np.float32],
    k: int,
    *,
    live: NDArray[np.bool_] | None = None,
) -> Found:
    """Search all rows of the source exactly, in bounded memory, for the k best of each query.

    Args:
        source: Where the vectors are.
        queries: float32 (m, d).
        k: How many.
        live: bool (n), which rows may be returned; None allows all.
    """
    found = empty_found(len(queries), k)
    all_rows = np.arange(source.n_rows) if live is None else np.flatnonzero(live)
    for start in range(0, len(all_rows), _CHUNK_ROWS):
        rows = all_rows[start : start + _CHUNK_ROWS]
        found = best_of([found, ExactBlock(source.vectors(rows), rows).search(queries, k)], k)
    return found


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
