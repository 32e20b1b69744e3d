"""What a query is scored with in one shard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.search.shard_requests import NameScores
from storage.sparse_scores import SparseQuery
from storage.text_scores import TextScores, first_best

if TYPE_CHECKING:
    from storage.live_words import LiveWords

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LexicalScores:
    """One query's lexical scores of the passages of a shard that can be found.

    Attributes:
        own: Of passages by their own words.
        documents: Of whole documents by theirs, which counts in each of their passages too; None where they are not
            asked for.
        words: Which passages documents have.
        factor: What a gate multiplies scores by when they count; None where nothing decides about it.
    """

    own: TextScores
    documents: TextScores | None
    words: LiveWords
    factor: float | None = None

    @property
    def nbytes(self) -> int:
        """Size of the scores."""
        return self.own.nbytes + (0 if self.documents is None else self.documents.nbytes)

    def of(self, passages: Int64) -> Float32:
        """Return what counts in the scores of passages (n), float32 (n)."""
        found = self.before_gate(passages)
        return found if self.factor is None else found * np.float32(self.factor)

    def before_gate(self, passages: Int64) -> Float32:
        """Return the scores of passages (n) by their own words and those of their documents, float32 (n)."""
        found = self.own.of(passages)
        if self.documents is not None:
            found += self.documents.of(self.words.document_numbers[passages])
        return found

    def best(self, k: int) -> Int64:
        """Return the k best passages with a score above 0, best first, ties by index, before a gate; int64 (≤ k)."""
        if self.documents is None or k <= 0:
            return self.own.best(k)
        numbers, documents = self.own.numbers, self.documents
        totals = self.own.scores + documents.of(self.words.document_numbers[numbers])
        # A passage without a word of its own scores as its document does: one of the k best documents, each of which
        # has a passage that scores as much, or is it none of the k best passages.
        can_lessen = bool(len(totals)) and float(self.own.scores.min()) < 0
        of_documents = self.words.passages_of(documents.numbers if can_lessen else np.sort(documents.best(k)))
        candidates = np.union1d(numbers[first_best(totals, k)], of_documents)
        return candidates[first_best(self.before_gate(candidates), k)]


@dataclass(frozen=True)
class QueryVectors:
    """One query's vectors float32 (d,), its lexical scores, sparse vectors and name scores: None if not counted."""

    start: Float32
    end: Float32
    passage: Float32
    lexical: LexicalScores | None
    sparse: SparseQuery | None
    name: NameScores | None = None
