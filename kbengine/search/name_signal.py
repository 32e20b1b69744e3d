"""The name signal of a query: how surely the thing asked about is named by a passage or by its document, from 0 to 1.

Unlike BM25 it knows no statistics of the collection: a name that means one document says as much among a hundred
documents as among six million.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.search.naming import FORM_FACTORS, find_names
from kbengine.search.query import Query, Weights
from storage.terms import name_term

if TYPE_CHECKING:
    from kbengine.search.naming import Matches
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

PASSAGES_OF_A_DOCUMENT = 8
"""Passages of a named document that are candidates by its name alone: the first, which say what it is."""


@dataclass(frozen=True)
class NameSignal:
    """One query's name scores, of the passages that have one.

    Attributes:
        passages: int64 (n,), snapshot passage indices, rising.
        scores: float32 (n,), each above 0 and at most 1.
    """

    passages: Int64
    scores: Float32

    def of(self, passages: Int64) -> Float32:
        """Return the scores of passages (n), float32 (n,); 0 for those without one."""
        if not len(self.passages):
            return np.zeros(len(passages), dtype=np.float32)
        at = np.minimum(np.searchsorted(self.passages, passages), len(self.passages) - 1)
        found: Float32 = np.where(self.passages[at] == passages, self.scores[at], np.float32(0.0))
        return found

    def candidates(self, snapshot: Snapshot, k: int) -> Int64:
        """Return up to k passages, the best first, of each document the first few."""
        documents = snapshot.document_ids[self.passages]
        begins = np.flatnonzero(np.append(True, documents[1:] != documents[:-1])[: len(documents)])
        lengths = np.diff(np.append(begins, len(documents)))
        first_few = np.arange(len(documents)) - np.repeat(begins, lengths) < PASSAGES_OF_A_DOCUMENT
        few = np.flatnonzero(first_few & snapshot.live_passages[self.passages])
        best: Int64 = self.passages[few[np.lexsort((few, -self.scores[few]))][:k]]
        return best


def name_signals(
    reader: KBReader, snapshot: Snapshot, queries: Sequence[Query], weights: Sequence[Weights]
) -> list[NameSignal | None]:
    """Return each query's signal, None where it does not count."""
    asked = [query for query, weight in zip(queries, weights, strict=True) if weight.name > 0 and query.names]
    matches = find_names(reader, [name for query in asked for name, _ in query.names])
    return [
        _signal(snapshot, query, matches) if weight.name > 0 and query.names else None
        for query, weight in zip(queries, weights, strict=True)
    ]


def _signal(snapshot: Snapshot, query: Query, matches: Matches) -> NameSignal:
    scores: dict[int, float] = {}
    for name, weight in query.names:
        titled = snapshot.passages_with_term(name_term(name))
        for passage in titled.tolist():
            scores[passage] = max(scores.get(passage, 0.0), weight)
        for match in matches.get(name, ()):
            value = weight * match.prior * FORM_FACTORS[match.form]
            for passage in snapshot.passages_of_document(match.document_id):
                scores[passage] = max(scores.get(passage, 0.0), value)
    passages = np.sort(np.fromiter(scores, dtype=np.int64, count=len(scores)))
    values = np.asarray([scores[passage] for passage in passages.tolist()], dtype=np.float32)
    return NameSignal(passages, np.minimum(values, np.float32(1.0)))
