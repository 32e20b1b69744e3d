"""BM25 over all segments of a snapshot: passages and whole documents scored by the words of a query."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.posting_sums import add_up_documents, add_up_passages, find_terms
from storage.postings import Bm25Options, Postings, merge_postings
from storage.stored_array import seen_between
from storage.terms import term_hash
from storage.text_scores import TextScores

__all__ = ["LexicalView"]

# Segments up to this many passages are merged in memory: a look-up per segment and term costs more than it reads.
_SMALL_SEGMENT_PASSAGES = 1024


class _Slices(NamedTuple):
    """Where the postings of some terms are in a part.

    Attributes:
        places: int64 (t), the number of each term in the part; 0 for one that it lacks.
        slices: int64 (2, t), start and end of each one's postings; the same for one that it lacks.
        n_postings: How many postings these are.
    """

    places: NDArray[np.int64]
    slices: NDArray[np.int64]
    n_postings: int

    def postings(self, part: Postings) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
        """Return all passages and counts of the part, of which only what the slices name may be read."""
        return seen_between(part.posting_passages, *self.slices), seen_between(part.posting_counts, *self.slices)


class _Sums:
    """Scores of texts, part after part."""

    def __init__(self, most: Sequence[int]) -> None:
        """Make room for so many texts of each part."""
        self._numbers = np.empty(sum(most), dtype=np.int64)
        self._scores = np.empty(sum(most), dtype=np.float32)
        self._n = 0

    def add(self, add_up: Callable[..., int], *arguments: Any) -> None:
        """Add what is found in the next part."""
        self._n += add_up(*arguments, self._numbers[self._n :], self._scores[self._n :])

    @property
    def found(self) -> TextScores:
        """What was found in all of them."""
        return TextScores(self._numbers[: self._n], self._scores[: self._n])


class LexicalView:
    """BM25 over the passages of several postings, numbered through; immutable and safe to share between threads.

    What is rare and what is long is said by whoever asks (`storage.live_words`): in a part of a generation alike in
    all of it.
    """

    def __init__(self, parts: Sequence[Postings], options: Bm25Options | None = None) -> None:
        self.options = options or Bm25Options()
        self.n_passages = sum(part.n_passages for part in parts)
        self._parts = _grouped(parts)
        self._norms: tuple[float, list[NDArray[np.float32]]] = (-1.0, [])

    @cached_property
    def passage_lengths(self) -> NDArray[np.int64]:
        """How many terms each passage has, int64 (n_passages)."""
        return np.concatenate([np.empty(0, np.int64), *(part.passage_lengths for part in self._parts)]).astype(np.int64)

    def frequencies(self, hashes: NDArray[np.uint64], dead: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many passages have each term, int64 (t).

        Args:
            hashes: uint64 (t), of terms.
            dead: int64, rising: passages that do not count.
        """
        found = np.zeros(len(hashes), dtype=np.int64)
        first = 0
        for part in self._parts:
            starts, ends = _slices_of(part, hashes).slices
            found += ends - starts
            own = dead[np.searchsorted(dead, first) : np.searchsorted(dead, first + part.n_passages)] - first
            first += part.n_passages
            if len(own):
                gone = [len(each) for each in _dead_postings(part, starts, ends, own)]
                found -= np.array(gone, dtype=np.int64)
        return found

    def scores(
        self,
        hashes: NDArray[np.uint64],
        is_title: NDArray[np.bool_],
        factors: NDArray[np.float32],
        average_length: float,
    ) -> TextScores:
        """Return the scores of the passages that have any of the terms.

        Args:
            hashes: uint64 (t), of terms.
            is_title: bool (t), terms of which it does not count how often they occur.
            factors: float32 (t), weight times idf of each.
            average_length: Of passages, in terms.
        """
        found = [_slices_of(part, hashes) for part in self._parts]
        sums = _Sums([min(each.n_postings, part.n_passages) for each, part in zip(found, self._parts, strict=True)])
        is_title, factors = np.array(is_title, dtype=np.bool_), np.array(factors, dtype=np.float32)
        first = 0
        for part, own, norms in zip(self._parts, found, self._length_norms(average_length), strict=True):
            if own.n_postings:
                sums.add(add_up_passages, *own.postings(part), own.slices, is_title, factors, norms, first)
            first += part.n_passages
        return sums.found

    def passages_with_term(self, term: str) -> NDArray[np.int64]:
        """Return the passages that have the term, numbered through, rising: int64 (n)."""
        hashes = np.array([term_hash(term)], dtype=np.uint64)
        found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        first = 0
        for part in self._parts:
            starts, ends = _slices_of(part, hashes).slices
            found.append(part.posting_passages[int(starts[0]) : int(ends[0])].astype(np.int64) + first)
            first += part.n_passages
        return np.concatenate(found)

    def document_frequencies(
        self, hashes: NDArray[np.uint64], document_numbers: NDArray[np.int64], dead: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Return how many documents have each term, int64 (t).

        Args:
            hashes: uint64 (t), of terms.
            document_numbers: int64 (n_passages), the document of each passage, numbered from 0 and rising.
            dead: int64, rising: passages that do not count, all or none of each document's.
        """
        found = np.zeros(len(hashes), dtype=np.int64)
        first = 0
        for part in self._parts:
            numbers = document_numbers[first : first + part.n_passages]
            own = dead[np.searchsorted(dead, first) : np.searchsorted(dead, first + part.n_passages)] - first
            first += part.n_passages
            places, (starts, ends), _ = _slices_of(part, hashes)
            if part.document_frequencies is not None and len(part.terms):
                found += np.where(starts < ends, part.document_frequencies[places], 0)
            dead_ones = _dead_postings(part, starts, ends, own) if len(own) else itertools.repeat(own)
            for number, (start, end, gone) in enumerate(zip(starts.tolist(), ends.tolist(), dead_ones, strict=False)):
                if part.document_frequencies is None and start < end:
                    found[number] += _n_distinct(numbers[part.posting_passages[start:end].astype(np.intp)])
                if len(gone):
                    found[number] -= _n_distinct(numbers[gone])
        return found

    def document_scores(
        self,
        hashes: NDArray[np.uint64],
        factors: NDArray[np.float32],
        norms: NDArray[np.float32],
        document_numbers: NDArray[np.int64],
    ) -> TextScores:
        """Return the scores of the documents that have any of the terms, each document's passages taken as one text.

        Args:
            hashes: uint64 (t), of terms.
            factors: float32 (t), weight times idf of each.
            norms: float32 (n_documents), what its length adds to the denominator.
            document_numbers: int64 (n_passages), the document of each passage, numbered from 0 and rising; those of a
                document are in one part.
        """
        found = [_slices_of(part, hashes) for part in self._parts]
        sums = _Sums([min(each.n_postings, part.n_passages) for each, part in zip(found, self._parts, strict=True)])
        factors = np.array(factors, dtype=np.float32)
        first = 0
        for part, own in zip(self._parts, found, strict=True):
            if own.n_postings:
                numbers = document_numbers[first : first + part.n_passages]
                sums.add(add_up_documents, *own.postings(part), own.slices, factors, norms, numbers)
            first += part.n_passages
        return sums.found

    def _length_norms(self, average_length: float) -> list[NDArray[np.float32]]:
        known, norms = self._norms
        if known != average_length:
            k1, b = self.options.k1, self.options.b
            norms = [
                (k1 * (1 - b) + (k1 * b / max(average_length, 1e-9)) * part.passage_lengths.astype(np.float32)).astype(
                    np.float32
                )
                for part in self._parts
            ]
            self._norms = average_length, norms
        return norms


def _dead_postings(
    part: Postings, starts: NDArray[np.int64], ends: NDArray[np.int64], dead: NDArray[np.int64]
) -> Iterator[NDArray[np.int64]]:
    """Yield for each term which of a part's dead passages, int64, rising, have it."""
    mask: NDArray[np.bool_] | None = None
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        passages = part.posting_passages[start:end]
        if not len(passages):
            yield dead[:0]
        elif 16 * len(dead) < end - start:  # looking for each is faster than looking at each
            at = np.minimum(np.searchsorted(passages, dead), end - start - 1)
            yield dead[passages[at] == dead]
        else:
            if mask is None:
                mask = np.zeros(part.n_passages, dtype=np.bool_)
                mask[dead] = True
            yield passages[mask[passages.astype(np.intp)]].astype(np.int64)


def _n_distinct(rising: NDArray[np.int64]) -> int:
    return int(np.count_nonzero(rising[1:] != rising[:-1])) + min(len(rising), 1)


def _slices_of(part: Postings, hashes: NDArray[np.uint64]) -> _Slices:
    places, slices = np.empty(len(hashes), dtype=np.int64), np.empty((2, len(hashes)), dtype=np.int64)
    n_postings = find_terms(part.terms, part.posting_starts, np.array(hashes, dtype=np.uint64), places, slices)
    return _Slices(places, slices, n_postings)


def _grouped(parts: Sequence[Postings]) -> list[Postings]:
    """Return the same passages in the same order, runs of small parts merged into one."""
    grouped: list[Postings] = []
    run: list[Postings] = []
    for part in [*parts, None]:
        if part is not None and part.n_passages <= _SMALL_SEGMENT_PASSAGES:
            run.append(part)
            continue
        if run:
            grouped.append(run[0] if len(run) == 1 else _merge_all(run))
            run = []
        if part is not None:
            grouped.append(part)
    return grouped


def _merge_all(parts: Sequence[Postings]) -> Postings:
    return merge_postings(parts, [np.ones(part.n_passages, dtype=np.bool_) for part in parts])
