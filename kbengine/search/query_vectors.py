"""What a query is scored with in one shard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kbengine.search.shard_requests import NameScores
from storage.sparse_scores import SparseQuery

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class LexicalScores:
    """One query's lexical scores of all passages of a shard.

    Attributes:
        scores: float32 (n_passages,), what counts in the score of a passage.
        own: float32 (n_passages,), the same without what whole documents add; the same array where they add nothing.
        documents: float32 (n_documents,), of whole documents; None where they are not asked for.
        factor: What a gate multiplies `scores` by when they count; None where nothing decides about it.
    """

    scores: Float32
    own: Float32
    documents: Float32 | None = None
    factor: float | None = None

    def of(self, passages: NDArray[np.int64]) -> Float32:
        """Return what counts in the scores of passages (n), float32 (n)."""
        found = self.scores[passages]
        return found if self.factor is None else found * np.float32(self.factor)


@dataclass(frozen=True)
class QueryVectors:
    """One query's vectors float32 (d,), its lexical scores, sparse vectors and name scores: None if not counted."""

    start: Float32
    end: Float32
    passage: Float32
    lexical: LexicalScores | None
    sparse: SparseQuery | None
    name: NameScores | None = None
