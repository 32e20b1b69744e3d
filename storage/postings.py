"""The lexical index: which terms each passage has, and BM25 over all segments of a snapshot.

Arrays are kept sorted by term, so a merge copies and a query reads a handful of slices. The title's terms count
in each of its passages.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, UsageError
from storage.languages import ENGLISH
from storage.stored_array import Stored
from storage.terms import LANGUAGE_TERMS, term_hash, terms_of, title_terms

__all__ = [
    "Bm25Options",
    "LexicalView",
    "Postings",
    "build_postings",
    "checked_terms",
    "merge_postings",
    "term_weights",
    "terms_of",
]

_MAX_COUNT = 255
# Segments up to this many passages are merged in memory: a look-up per segment and term costs more than it reads.
_SMALL_SEGMENT_PASSAGES = 1024


@dataclass(frozen=True)
class Postings:
    """The terms of p passages, inverted.

    Attributes:
        terms: uint64 (t), hashes, strictly rising.
        posting_starts: int64 (t + 1), where each term's postings start.
        posting_passages: uint32, passage indices, rising within a term.
        posting_counts: uint8, how often the term occurs there; 255 stands for "255 or more".
        passage_lengths: uint32 (p), terms per passage, title included.
        document_frequencies: uint32 (t), documents that have each term; None where it was not counted.
    """

    terms: NDArray[np.uint64]
    posting_starts: NDArray[np.int64]
    posting_passages: Stored[np.uint32]
    posting_counts: Stored[np.uint8]
    passage_lengths: NDArray[np.uint32]
    document_frequencies: NDArray[np.uint32] | None = None

    @property
    def n_passages(self) -> int:
        """How many passages the postings are about."""
        return len(self.passage_lengths)


@dataclass(frozen=True)
class Bm25Options:
    """The two constants of BM25: `k1` saturates repetitions, `b` normalises by length.

    The defaults are those of Anserini. With the textbook's 1.5 and 0.75 short paragraphs win by their length, which
    costs 5 points of R-precision on questions and 4 on slot filling (docs/decisions/0009-fusion-weights.md).
    """

    k1: float = 0.9
    b: float = 0.4

    def __post_init__(self) -> None:
        if not (self.k1 >= 0 and math.isfinite(self.k1)):
            raise InvalidOptionError(f"k1 is {self.k1}, expected a finite number of at least 0")
        if not 0 <= self.b <= 1:
            raise InvalidOptionError(f"b is {self.b}, expected 0 to 1")


def build_postings(passages: Iterable[tuple[str, str]], languages: Iterable[str] | None = None) -> Postings:
    """Return the postings of passages given as (title, text), in order.

    A title's words count in the passage, and its `title_terms` beside them; these, and the term of the language, do not
    count in the length.

    Args:
        passages: Titles and texts.
        languages: The language code of each passage; None where all are in English.
    """
    terms: list[int] = []
    indices: list[int] = []
    counts: list[int] = []
    lengths: list[int] = []
    last: tuple[str, str] | None = None
    title_words: list[str] = []
    title_hashes: list[int] = []
    for index, ((title, text), language) in enumerate(
        zip(passages, itertools.repeat(ENGLISH) if languages is None else languages, strict=False)
    ):
        if (title, language) != last:
            last, title_words = (title, language), terms_of(title, language)
            title_hashes = [term_hash(term) for term in title_terms(title, language)]
            if language in LANGUAGE_TERMS:
                title_hashes.append(term_hash(LANGUAGE_TERMS[language]))
        passage_terms = title_words + terms_of(text, language)
        counter = Counter(map(term_hash, passage_terms))
        counter.update(title_hashes)
        terms += counter.keys()
        counts += counter.values()
        indices += [index] * len(counter)
        lengths.append(len(passage_terms))
    hashes = np.array(terms, dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    unique, first = np.unique(hashes[order], return_index=True)
    return Postings(
        terms=unique,
        posting_starts=np.append(first, len(hashes)).astype(np.int64),
        posting_passages=np.array(indices, dtype=np.uint32)[order],
        posting_counts=np.minimum(np.array(counts, dtype=np.int64), _MAX_COUNT).astype(np.uint8)[order],
        passage_lengths=np.array(lengths, dtype=np.uint32),
    )


def merge_postings(parts: Sequence[Postings], keep: Sequence[NDArray[np.bool_]]) -> Postings:
    """Return the postings of the kept passages of all parts, in order, renumbered from 0.

    Args:
        parts: What to merge; passages of a later part come later.
        keep: For each part, bool (n_passages): which passages stay.
    """
    kept_parts = [_keep_passages(part, mask) for part, mask in zip(parts, keep, strict=True)]
    terms = np.unique(np.concatenate([part.terms for part in kept_parts]))
    positions = [np.searchsorted(terms, part.terms) for part in kept_parts]
    sizes = np.zeros(len(terms), dtype=np.int64)
    for part, where in zip(kept_parts, positions, strict=True):
        sizes[where] += np.diff(part.posting_starts)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    passages = np.empty(int(starts[-1]), dtype=np.uint32)
    counts = np.empty(int(starts[-1]), dtype=np.uint8)
    free = starts[:-1].copy()
    first_passage = 0
    for part, where in zip(kept_parts, positions, strict=True):
        lengths = np.diff(part.posting_starts)
        # Each term's slice moves as a whole: one shift per term, repeated over its postings.
        target = np.repeat(free[where] - part.posting_starts[:-1], lengths)
        target += np.arange(len(target))
        passages[target] = np.asarray(part.posting_passages) + np.uint32(first_passage)
        counts[target] = part.posting_counts
        free[where] += lengths
        first_passage += part.n_passages
    return Postings(
        terms=terms,
        posting_starts=starts,
        posting_passages=passages,
        posting_counts=counts,
        passage_lengths=np.concatenate([part.passage_lengths for part in kept_parts]),
    )


def term_weights(text: str, languages: Sequence[str] = ()) -> dict[str, float]:
    """Return the weights of a query text's terms in English and some other languages: how often each occurs."""
    weights = {term: float(count) for term, count in Counter(terms_of(text)).items()}
    for language in languages:
        weights = {term: float(count) for term, count in Counter(terms_of(text, language)).items()} | weights
    return weights


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
            starts, ends = _slices_of(part, hashes)
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
    ) -> NDArray[np.float32]:
        """Return the passages' scores float32 (n_passages), 0 where no term occurs.

        Args:
            hashes: uint64 (t), of terms.
            is_title: bool (t), terms of which it does not count how often they occur.
            factors: float32 (t), weight times idf of each.
            average_length: Of passages, in terms.
        """
        scores = np.zeros(self.n_passages, dtype=np.float32)
        if not len(hashes) or not self.n_passages:
            return scores
        first = 0
        for part, norms in zip(self._parts, self._length_norms(average_length), strict=True):
            starts, ends = _slices_of(part, hashes)
            part_scores = scores[first : first + part.n_passages]
            first += part.n_passages
            for factor, of_title, start, end in zip(factors, is_title, starts.tolist(), ends.tolist(), strict=True):
                if start == end:
                    continue
                if of_title:
                    part_scores[part.posting_passages[start:end].astype(np.intp)] += factor
                    continue
                # numpy gathers with its own index type; converted once instead of at each use.
                indices = part.posting_passages[start:end].astype(np.intp)
                shares = part.posting_counts[start:end].astype(np.float32)
                shares /= shares + norms.take(indices)
                shares *= factor
                shares += part_scores.take(indices)
                # A passage occurs once per term, so plain assignment loses nothing.
                part_scores[indices] = shares
        return scores

    def passages_with_term(self, term: str) -> NDArray[np.int64]:
        """Return the passages that have the term, numbered through, rising: int64 (n)."""
        hashes = np.array([term_hash(term)], dtype=np.uint64)
        found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
        first = 0
        for part in self._parts:
            starts, ends = _slices_of(part, hashes)
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
            places, starts, ends = _places_of(part, hashes)
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
    ) -> NDArray[np.float32]:
        """Return the documents' scores float32 (n_documents), each document's passages taken as one text.

        Args:
            hashes: uint64 (t), of terms.
            factors: float32 (t), weight times idf of each.
            norms: float32 (n_documents), what its length adds to the denominator.
            document_numbers: int64 (n_passages), the document of each passage, numbered from 0 and rising.
        """
        scores = np.zeros(len(norms), dtype=np.float32)
        slices = [_slices_of(part, hashes) for part in self._parts]
        for number, factor in enumerate(factors):
            found = []
            first = 0
            for part, (starts, ends) in zip(self._parts, slices, strict=True):
                where = slice(int(starts[number]), int(ends[number]))
                if where.start < where.stop:
                    documents = document_numbers[part.posting_passages[where].astype(np.intp) + first]
                    found.append((documents, part.posting_counts[where]))
                first += part.n_passages
            if not found:
                continue
            documents = np.concatenate([part_documents for part_documents, _ in found])
            counts = np.concatenate([part_counts for _, part_counts in found])
            # Passages rise within a term and documents with them, so a document's postings stand side by side.
            begins = np.flatnonzero(np.append(True, documents[1:] != documents[:-1]))
            documents = documents[begins]
            frequencies = np.add.reduceat(counts.astype(np.float32), begins)
            scores[documents] += factor * frequencies / (frequencies + norms[documents])
        return scores

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


def checked_terms(
    weights: Mapping[str, float] | str, languages: Sequence[str] = ()
) -> tuple[Mapping[str, float], NDArray[np.uint64]]:
    """Return the terms of a text, or weighted ones, with their weights, and the terms' hashes uint64 (t).

    A text is taken to be in English or one of the languages.

    Raises:
        UsageError: A weight is no number.
    """
    if isinstance(weights, str):
        weights = term_weights(weights, languages)
    bad = next((term for term, weight in weights.items() if not math.isfinite(weight)), None)
    if bad is not None:
        raise UsageError(f"weight of term {bad!r} is {weights[bad]}, expected a finite number")
    return weights, np.array([term_hash(term) for term in weights], dtype=np.uint64)


def _slices_of(part: Postings, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    _, starts, ends = _places_of(part, hashes)
    return starts, ends


def _places_of(
    part: Postings, hashes: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return each term's number in a part, and where its postings start and end: at the same place without any."""
    where = np.searchsorted(part.terms, hashes)
    found = where < len(part.terms)
    found[found] = part.terms[where[found]] == hashes[found]
    where = np.where(found, where, 0)
    starts = np.where(found, part.posting_starts[where], 0)
    ends = np.where(found, part.posting_starts[np.minimum(where + 1, len(part.terms))], 0)
    return where, starts, ends


def _keep_passages(part: Postings, mask: NDArray[np.bool_]) -> Postings:
    if mask.all():
        return part
    kept = mask[np.asarray(part.posting_passages)]
    numbers = np.cumsum(mask, dtype=np.int64) - 1
    starts = np.concatenate([[0], np.cumsum(kept, dtype=np.int64)])[part.posting_starts]
    used = np.diff(starts) > 0
    return Postings(
        terms=part.terms[used],
        posting_starts=np.append(starts[:-1][used], starts[-1]),
        posting_passages=numbers[part.posting_passages[kept]].astype(np.uint32),
        posting_counts=part.posting_counts[kept],
        passage_lengths=part.passage_lengths[mask],
    )


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
