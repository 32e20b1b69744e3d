"""The lexical index: which terms each passage has, and BM25 over all segments of a snapshot.

Arrays are kept sorted by term, so a merge copies and a query reads a handful of slices. The title's terms count
in each of its passages.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, UsageError
from storage.stored_array import Stored
from storage.terms import is_title_term, term_hash, terms_of, title_terms

__all__ = [
    "Bm25Options",
    "LexicalView",
    "Postings",
    "build_postings",
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
    """

    terms: NDArray[np.uint64]
    posting_starts: NDArray[np.int64]
    posting_passages: Stored[np.uint32]
    posting_counts: Stored[np.uint8]
    passage_lengths: NDArray[np.uint32]

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


def build_postings(passages: Iterable[tuple[str, str]]) -> Postings:
    """Return the postings of passages given as (title, text), in order.

    A title's words count in the passage, and its `title_terms` beside them; these do not count in the length.
    """
    terms: list[int] = []
    indices: list[int] = []
    counts: list[int] = []
    lengths: list[int] = []
    last_title: str | None = None
    title_words: list[str] = []
    title_hashes: list[int] = []
    for index, (title, text) in enumerate(passages):
        if title != last_title:
            last_title, title_words = title, terms_of(title)
            title_hashes = [term_hash(term) for term in title_terms(title)]
        passage_terms = title_words + terms_of(text)
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


def term_weights(text: str) -> dict[str, float]:
    """Return the weights of a query text's terms: how often each occurs."""
    return {term: float(count) for term, count in Counter(terms_of(text)).items()}


class LexicalView:
    """BM25 over the passages of several postings, numbered through; immutable and safe to share between threads.

    `idf` and the average length come from all passages given, dead ones included until they are compacted away
    (Lucene's rule too).
    """

    def __init__(self, parts: Sequence[Postings], options: Bm25Options | None = None) -> None:
        self.options = options or Bm25Options()
        self.n_passages = sum(part.n_passages for part in parts)
        total = sum(int(part.passage_lengths.sum(dtype=np.int64)) for part in parts)
        self.average_length = total / self.n_passages if self.n_passages else 0.0
        self._parts = _grouped(parts)

    def scores(self, weights: Mapping[str, float] | str) -> NDArray[np.float32]:
        """Return the passages' scores float32 (n_passages), 0 where no term occurs.

        Args:
            weights: The query's terms with their weights (see `terms_of`), or a text (see `term_weights`).
        """
        weights, hashes = _checked(weights)
        scores = np.zeros(self.n_passages, dtype=np.float32)
        if not len(hashes) or not self.n_passages:
            return scores
        slices = [_slices_of(part, hashes) for part in self._parts]
        frequencies = np.sum([ends - starts for starts, ends in slices], axis=0)
        n = self.n_passages
        idf = np.log1p((n - frequencies + 0.5) / (frequencies + 0.5))
        factors = (idf * np.array(list(weights.values()))).astype(np.float32)
        of_titles = [is_title_term(term) for term in weights]
        first = 0
        for part, norms, (starts, ends) in zip(self._parts, self._length_norms, slices, strict=True):
            part_scores = scores[first : first + part.n_passages]
            first += part.n_passages
            for factor, of_title, start, end in zip(factors, of_titles, starts.tolist(), ends.tolist(), strict=True):
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

    def document_scores(
        self, weights: Mapping[str, float] | str, document_numbers: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Return the documents' scores float32 (n_documents), each document's passages taken as one text.

        A document's own score says what a long text is about where no passage of it does: a talk that touches many
        parts of one page, a relation told a paragraph after the subject.

        Args:
            weights: As in `scores`.
            document_numbers: int64 (n_passages), the document of each passage, numbered from 0 and rising.
        """
        weights, hashes = _checked(weights)
        n = int(document_numbers[-1]) + 1 if len(document_numbers) else 0
        scores = np.zeros(n, dtype=np.float32)
        if not len(hashes) or not n:
            return scores
        lengths = np.bincount(document_numbers, weights=self._passage_lengths, minlength=n)
        k1, b = self.options.k1, self.options.b
        norms = (k1 * (1 - b) + k1 * b * lengths / max(float(lengths.mean()), 1e-9)).astype(np.float32)
        slices = [_slices_of(part, hashes) for part in self._parts]
        for number, weight in enumerate(weights.values()):
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
            idf = math.log1p((n - len(documents) + 0.5) / (len(documents) + 0.5))
            scores[documents] += np.float32(idf * weight) * frequencies / (frequencies + norms[documents])
        return scores

    @cached_property
    def _passage_lengths(self) -> NDArray[np.float64]:
        return np.concatenate([np.empty(0), *(part.passage_lengths for part in self._parts)])

    @cached_property
    def _length_norms(self) -> list[NDArray[np.float32]]:
        k1, b = self.options.k1, self.options.b
        average = max(self.average_length, 1e-9)
        return [
            (k1 * (1 - b) + (k1 * b / average) * part.passage_lengths.astype(np.float32)).astype(np.float32)
            for part in self._parts
        ]


def _checked(weights: Mapping[str, float] | str) -> tuple[Mapping[str, float], NDArray[np.uint64]]:
    """Return the terms with their weights, and the terms' hashes uint64; UsageError for a weight that is no number."""
    if isinstance(weights, str):
        weights = term_weights(weights)
    bad = next((term for term, weight in weights.items() if not math.isfinite(weight)), None)
    if bad is not None:
        raise UsageError(f"weight of term {bad!r} is {weights[bad]}, expected a finite number")
    return weights, np.array([term_hash(term) for term in weights], dtype=np.uint64)


def _slices_of(part: Postings, hashes: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    where = np.searchsorted(part.terms, hashes)
    found = where < len(part.terms)
    found[found] = part.terms[where[found]] == hashes[found]
    where = np.where(found, where, 0)
    starts = np.where(found, part.posting_starts[where], 0)
    ends = np.where(found, part.posting_starts[np.minimum(where + 1, len(part.terms))], 0)
    return starts, ends


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
