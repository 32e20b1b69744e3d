"""The lexical index: which terms each passage has.

Arrays are kept sorted by term, so a merge copies and a query reads a handful of slices. The title's terms count
in each of its passages. `storage.lexical_view` scores passages by them.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, UsageError
from storage.languages import ENGLISH
from storage.stored_array import Stored
from storage.terms import LANGUAGE_TERMS, term_hash, terms_of, title_terms

__all__ = [
    "Bm25Options",
    "Postings",
    "build_postings",
    "checked_terms",
    "merge_postings",
    "term_weights",
    "terms_of",
]

_MAX_COUNT = 255


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
