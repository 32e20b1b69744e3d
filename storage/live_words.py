"""The words of a snapshot's live documents: how often they occur, and BM25 of passages and of whole documents.

What is counted is what is live, whether or not a compaction has forgotten the rest: so answers do not change when one
does, and parts of a generation can be added up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from storage.lexical_view import LexicalView
from storage.postings import checked_terms
from storage.terms import LANGUAGE_TERMS, is_title_term, term_hash
from storage.text_scores import NO_SCORES, TextScores

__all__ = ["LiveWords", "WordCounts", "idf"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]


@dataclass(frozen=True)
class WordCounts:
    """How much text there is.

    Attributes:
        n_documents: Documents.
        n_passages: Their passages.
        n_terms: The lengths of these, summed up.
    """

    n_documents: int
    n_passages: int
    n_terms: int


def idf(n: int, frequencies: Int64) -> Float64:
    """Return how much terms that so many of n texts have say about a text, float64 (t), at least 0."""
    found: Float64 = np.log1p((n - frequencies + 0.5) / (frequencies + 0.5))
    return found


class LiveWords:
    """The words of the live documents of a snapshot; immutable and safe to share between threads.

    Scores are of live and dead passages alike: `Snapshot.found` leaves out what cannot be found.
    """

    def __init__(self, view: LexicalView, document_ids: Int64, live: NDArray[np.bool_]) -> None:
        """Count the words of the live passages.

        Args:
            view: Of all passages.
            document_ids: int64 (n_passages), the document of each, rising.
            live: bool (n_passages), which are live.
        """
        self._view = view
        self._live = live
        self._dead = np.flatnonzero(~live)
        changes = np.append(False, document_ids[1:] != document_ids[:-1])[: len(document_ids)]
        self.document_numbers: Int64 = np.cumsum(changes, dtype=np.int64)
        """The document of each passage, numbered from 0 in order, int64 (n_passages)."""
        self._document_norms: tuple[float, Float32] = (-1.0, np.empty(0, np.float32))

    @cached_property
    def counts(self) -> WordCounts:
        """How much text is live."""
        lengths = self._view.passage_lengths
        n_terms = int(lengths.sum()) - int(lengths[self._dead].sum())
        n_documents = int(np.count_nonzero(self._live_documents))
        return WordCounts(n_documents, self._view.n_passages - len(self._dead), n_terms)

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages other than English by whose rules words of some documents are stemmed."""
        hashes = np.array([term_hash(term) for term in LANGUAGE_TERMS.values()], dtype=np.uint64)
        return tuple(np.array(list(LANGUAGE_TERMS))[self.frequencies(hashes) > 0].tolist())

    @cached_property
    def first_passages(self) -> Int64:
        """The first passage of each document, int64 (n_documents)."""
        return np.flatnonzero(np.diff(self.document_numbers, prepend=-1))

    @cached_property
    def _live_documents(self) -> NDArray[np.bool_]:
        """Which documents are live, bool (n_documents)."""
        n = int(self.document_numbers[-1]) + 1 if len(self.document_numbers) else 0
        live = np.zeros(n, dtype=np.bool_)
        live[self.document_numbers[self._live]] = True
        return live

    @cached_property
    def _document_lengths(self) -> Float64:
        n = len(self._live_documents)
        return np.bincount(self.document_numbers, weights=self._view.passage_lengths, minlength=n).astype(np.float64)

    def frequencies(self, hashes: UInt64) -> Int64:
        """Return how many live passages have each term, int64 (t)."""
        return self._view.frequencies(hashes, self._dead)

    def document_frequencies(self, hashes: UInt64) -> Int64:
        """Return how many live documents have each term, int64 (t)."""
        return self._view.document_frequencies(hashes, self.document_numbers, self._dead)

    def passages_of(self, documents: Int64) -> Int64:
        """Return the passages of documents, rising numbers int64 (n), rising."""
        ends = np.append(self.first_passages[1:], len(self.document_numbers))
        parts = [np.arange(self.first_passages[each], ends[each], dtype=np.int64) for each in documents.tolist()]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def scores(
        self, hashes: UInt64, is_title: NDArray[np.bool_], factors: Float32, average_length: float
    ) -> TextScores:
        """Return the BM25 scores of passages that have any of the terms; arguments as of `LexicalView.scores`."""
        return self._view.scores(hashes, is_title, factors, average_length)

    def document_scores(self, hashes: UInt64, factors: Float32, average_length: float) -> TextScores:
        """Return the BM25 scores of documents that have any of the terms, their passages taken as one text.

        A document's own score says what a long text is about where no passage of it does: a talk that touches many
        parts of one page, a relation told a paragraph after the subject.

        Args:
            hashes: uint64 (t), of terms.
            factors: float32 (t), weight times idf of each.
            average_length: Of documents, in terms.
        """
        if not len(hashes):
            return NO_SCORES
        return self._view.document_scores(hashes, factors, self._norms(average_length), self.document_numbers)

    def _norms(self, average_length: float) -> Float32:
        known, norms = self._document_norms
        if known != average_length:
            k1, b = self._view.options.k1, self._view.options.b
            lengths = self._document_lengths / max(average_length, 1e-9)
            norms = (k1 * (1 - b) + k1 * b * lengths).astype(np.float32)
            self._document_norms = average_length, norms
        return norms

    def own_scores(self, query: Mapping[str, float] | str) -> Float32:
        """Return all passages' scores of a text or weighted terms by these documents' own statistics, float32 (n)."""
        weights, hashes = checked_terms(query, self.languages)
        counts = self.counts
        factors = (idf(counts.n_passages, self.frequencies(hashes)) * np.array(list(weights.values()))).astype(
            np.float32
        )
        of_titles = np.array([is_title_term(term) for term in weights], dtype=np.bool_)
        found = self.scores(hashes, of_titles, factors, counts.n_terms / max(counts.n_passages, 1))
        return found.dense(self._view.n_passages)

    def own_document_scores(self, query: Mapping[str, float] | str) -> Float32:
        """Return all documents' scores of a text or weighted terms by these documents' own statistics, float32 (n)."""
        weights, hashes = checked_terms(query, self.languages)
        counts = self.counts
        factors = idf(counts.n_documents, self.document_frequencies(hashes)) * np.array(list(weights.values()))
        found = self.document_scores(hashes, factors.astype(np.float32), counts.n_terms / max(counts.n_documents, 1))
        return found.dense(len(self._live_documents))

    def passages_with_term(self, term: str) -> Int64:
        """Return the passages that have a term (see `storage.terms`), live or not, rising, int64 (n)."""
        return self._view.passages_with_term(term)
