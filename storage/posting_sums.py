"""What the postings of a query's terms add up to, passage by passage or document by document.

Passages are taken in windows that fit a processor's cache: every term's postings in one are added up, in the order of
the terms, then those of the next window that has any. Time and room follow from the postings that are read, not from
how many passages there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from storage.compiled import compiled

__all__ = ["add_up_documents", "add_up_passages", "find_terms"]

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

_WINDOW = 4096
# The product of this number with a power of two has the exponent's mark in its upper six bits.
_DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_NUMBERS = np.zeros(64, dtype=np.uint8)
_BIT_NUMBERS[[((0x03F79D71B4CB0A89 << bit) & (2**64 - 1)) >> 58 for bit in range(64)]] = np.arange(64)


@compiled()
def find_terms(
    terms: NDArray[np.uint64], posting_starts: Int64, hashes: NDArray[np.uint64], places: Int64, slices: Int64
) -> int:
    """Write where each term stands, and where its postings start and end; return how many postings these are.

    Args:
        terms: uint64 (t), rising.
        posting_starts: int64 (t + 1).
        hashes: uint64 (n), the terms that are looked for, in any order.
        places: int64 (n), gets the number of each among `terms`; 0 for one that is not there.
        slices: int64 (2, n), gets start and end; both 0 for one that is not there.
    """
    n_postings = 0
    for i in range(len(hashes)):
        low, high = 0, len(terms)
        while low < high:
            middle = (low + high) // 2
            if terms[middle] < hashes[i]:
                low = middle + 1
            else:
                high = middle
        if low < len(terms) and terms[low] == hashes[i]:
            places[i], slices[0, i], slices[1, i] = low, posting_starts[low], posting_starts[low + 1]
            n_postings += slices[1, i] - slices[0, i]
        else:
            places[i] = slices[0, i] = slices[1, i] = 0
    return n_postings


@compiled()
def add_up_passages(
    posting_passages: NDArray[np.uint32],
    posting_counts: NDArray[np.uint8],
    slices: Int64,
    is_title: NDArray[np.bool_],
    factors: Float32,
    norms: Float32,
    first_number: int,
    numbers: Int64,
    scores: Float32,
) -> int:
    """Write the passages that have any of the terms, rising, and their BM25 scores; return how many there are.

    Args:
        posting_passages: uint32, of a part; likewise `posting_counts`.
        posting_counts: uint8.
        slices: int64 (2, t), start and end of each term's postings.
        is_title: bool (t), terms of which it does not count how often they occur.
        factors: float32 (t).
        norms: float32 (n_passages), what its length adds to the denominator.
        first_number: What the part's first passage is numbered.
        numbers: int64, gets the passages; long enough for all postings or all passages.
        scores: float32, gets their scores; as long.
    """
    next_ones, ends = slices[0].copy(), slices[1]
    sums = np.zeros(_WINDOW, dtype=np.float32)
    touched = np.zeros(_WINDOW // 64, dtype=np.uint64)  # a bit for each passage that has a term
    one, n_found = np.uint64(1), 0
    while True:
        begin = np.int64(-1)
        for term in range(len(factors)):
            if next_ones[term] < ends[term]:
                first = np.int64(posting_passages[next_ones[term]])
                if begin < 0 or first < begin:
                    begin = first
        if begin < 0:
            return n_found
        begin = np.int64(begin - begin % _WINDOW)
        stop = begin + _WINDOW
        for term in range(len(factors)):
            at, end, factor = next_ones[term], ends[term], factors[term]
            while at < end:
                passage = np.uint64(posting_passages[at])
                if passage >= np.uint64(stop):
                    break
                place = passage - np.uint64(begin)
                if is_title[term]:
                    sums[place] += factor
                else:
                    count = np.float32(posting_counts[at])
                    sums[place] = count / (count + norms[passage]) * factor + sums[place]
                touched[place >> np.uint64(6)] |= one << (place & np.uint64(63))
                at += 1
            next_ones[term] = at
        for word in range(len(touched)):
            bits = touched[word]
            touched[word] = 0
            while bits != 0:
                lowest = bits & (~bits + one)
                place = np.uint64(64 * word) + np.uint64(_BIT_NUMBERS[(lowest * _DE_BRUIJN) >> np.uint64(58)])
                numbers[n_found] = first_number + begin + np.int64(place)
                scores[n_found] = sums[place]
                n_found += 1
                sums[place] = 0
                bits ^= lowest


@compiled()
def add_up_documents(
    posting_passages: NDArray[np.uint32],
    posting_counts: NDArray[np.uint8],
    slices: Int64,
    factors: Float32,
    norms: Float32,
    document_numbers: Int64,
    numbers: Int64,
    scores: Float32,
) -> int:
    """Write the documents that have any of the terms, rising, and their BM25 scores; return how many there are.

    Arguments as of `add_up_passages`, but for norms, which are those of all documents, and `document_numbers`, int64
    (n_passages), the document of each passage of the part, rising.
    """
    next_ones, ends = slices[0].copy(), slices[1]
    sums = np.zeros(_WINDOW, dtype=np.float32)
    touched = np.zeros(_WINDOW // 64, dtype=np.uint64)  # a bit for each document that has a term
    one, n_found = np.uint64(1), 0
    while True:
        begin = np.int64(-1)
        for term in range(len(factors)):
            if next_ones[term] < ends[term]:
                first = document_numbers[posting_passages[next_ones[term]]]
                if begin < 0 or first < begin:
                    begin = first
        if begin < 0:
            return n_found
        for term in range(len(factors)):
            at, end, factor = next_ones[term], ends[term], factors[term]
            while at < end:
                document = document_numbers[posting_passages[at]]
                if document >= begin + _WINDOW:
                    break
                # A document's passages stand side by side, and so do their postings.
                count = np.float32(0)
                while at < end and document_numbers[posting_passages[at]] == document:
                    count += np.float32(posting_counts[at])
                    at += 1
                place = np.uint64(document - begin)
                sums[place] += factor * count / (count + norms[document])
                touched[place >> np.uint64(6)] |= one << (place & np.uint64(63))
            next_ones[term] = at
        for word in range(len(touched)):
            bits = touched[word]
            touched[word] = 0
            while bits != 0:
                lowest = bits & (~bits + one)
                place = np.uint64(64 * word) + np.uint64(_BIT_NUMBERS[(lowest * _DE_BRUIJN) >> np.uint64(58)])
                numbers[n_found] = begin + np.int64(place)
                scores[n_found] = sums[place]
                n_found += 1
                sums[place] = 0
                bits ^= lowest
