"""Scores of the texts that have a word of a query: all others have 0, and take neither time nor room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.compiled import compiled

__all__ = ["NO_SCORES", "TextScores", "first_best"]

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TextScores:
    """Scores of passages or documents, by their numbers.

    >>> found = TextScores(np.array([2, 5, 9]), np.array([0.5, 2.0, 0.5], dtype=np.float32))
    >>> found.best(2).tolist(), found.of(np.array([5, 6])).tolist()
    ([5, 2], [2.0, 0.0])

    Attributes:
        numbers: int64 (n), rising.
        scores: float32 (n).
    """

    numbers: Int64
    scores: Float32

    @property
    def nbytes(self) -> int:
        """Size of the arrays."""
        return self.numbers.nbytes + self.scores.nbytes

    def of(self, numbers: Int64) -> Float32:
        """Return the scores float32 (m) of some numbers int64 (m), in any order; 0 for those that have none."""
        found = np.zeros(len(numbers), dtype=np.float32)
        _look_up(self.numbers, self.scores, np.ascontiguousarray(numbers), found)
        return found

    def best(self, k: int) -> Int64:
        """Return the numbers of the k best scores above 0, best first; of equal ones the lower number, int64 (≤ k)."""
        return self.numbers[first_best(self.scores, k)]

    def dense(self, n: int) -> Float32:
        """Return the scores of the numbers from 0 to before n, float32 (n)."""
        scores = np.zeros(n, dtype=np.float32)
        scores[self.numbers] = self.scores
        return scores

    def where(self, kept: NDArray[np.bool_]) -> TextScores:
        """Return those of them that are kept, bool (n)."""
        return TextScores(self.numbers[kept], self.scores[kept])

    def with_ranges(self, first: Int64, stop: Int64, scores: Float32) -> TextScores:
        """Return the scores with something added to those of ranges of numbers that do not overlap.

        Args:
            first: int64 (r), where each range begins.
            stop: int64 (r), before which it stops.
            scores: float32 (r), what is added.
        """
        if not len(first):
            return self
        added = [np.arange(begin, end, dtype=np.int64) for begin, end in zip(first, stop, strict=True)]
        numbers = np.union1d(self.numbers, np.concatenate(added))
        found = self.of(numbers)
        for own, score in zip(added, scores, strict=True):
            found[np.searchsorted(numbers, own)] += score
        return TextScores(numbers, found)


NO_SCORES = TextScores(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
"""Of a query without words that occur."""


def first_best(scores: Float32, k: int) -> Int64:
    """Return the places of the k best of scores float32 (n), those above 0, best first; of equal ones the first."""
    places = np.empty(max(0, min(k, len(scores))), dtype=np.int64)
    if not len(places):
        return places
    places = places[: _take_best(scores, places)]
    best: Int64 = places[np.lexsort((places, -scores[places]))]
    return best


@compiled()
def _look_up(numbers: Int64, scores: Float32, wanted: Int64, found: Float32) -> None:
    """Write the scores of the wanted numbers that there are; each is looked for from where the one before it was."""
    n = len(numbers)
    low = 0
    for i in range(len(wanted)):
        number = wanted[i]
        if low > 0 and numbers[low - 1] >= number:
            low = 0
        step = 1
        while low + step < n and numbers[low + step] < number:
            low += step
            step *= 2
        high = min(low + step, n)
        while low < high:
            middle = (low + high) // 2
            if numbers[middle] < number:
                low = middle + 1
            else:
                high = middle
        if low < n and numbers[low] == number:
            found[i] = scores[low]


@compiled()
def _take_best(scores: Float32, places: Int64) -> int:
    """Write the places of the best scores above 0 in any order; return how many there are.

    They are a heap: at its top is the one that gives way first, the lowest and of equal ones the last.
    """
    k, n = len(places), 0
    for i in range(len(scores)):
        score = scores[i]
        if score <= 0:
            continue
        if n < k:
            at = n
            n += 1
            while at > 0:
                above = (at - 1) // 2
                # A later one gives way before what is as good.
                if scores[places[above]] < score:
                    break
                places[at] = places[above]
                at = above
            places[at] = i
            continue
        if score <= scores[places[0]]:
            continue
        at = 0
        while 2 * at + 1 < k:
            below = 2 * at + 1
            if below + 1 < k:
                left, right = places[below], places[below + 1]
                if scores[right] < scores[left] or (scores[right] == scores[left] and right > left):
                    below += 1
            if scores[places[below]] >= score:
                break
            places[at] = places[below]
            at = below
        places[at] = i
    return n
