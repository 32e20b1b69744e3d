"""FAISS's inverted lists, filled when a search first looks into them: opening fills none.

A list of a large segment has a thousand rows, and a query looks into a hundred lists: a few milliseconds, while filling
all of them takes the longer the larger the segment is.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.stored_array import Stored

__all__ = ["ListFilling"]

_FILL_ROWS = 1 << 16
# So many rows after one another the memory of what they were read from is given back: it is mapped, and read once.
_RELEASE_ROWS = 1 << 18

Add = Callable[[Any, int, int, NDArray[np.int64], NDArray[np.uint8]], None]


class ListFilling:
    """Fills the lists of a FAISS index with rows and their bytes; safe to share between threads."""

    def __init__(
        self,
        index: Any,
        order: Stored[np.uint32],
        starts: NDArray[np.int64],
        raw_of: Callable[[NDArray[np.int64]], NDArray[np.uint8]],
        grouped: Stored[np.uint8] | None = None,
        *,
        add: Add,
        release: Callable[[], None] | None = None,
    ) -> None:
        """Take an index whose lists are empty; it counts all rows from now on.

        Args:
            index: The FAISS index.
            order: uint32 (n), the rows, list after list.
            starts: int64 (nlist + 1), where each list begins there.
            raw_of: Gives the bytes of rows, uint8 (rows, bytes).
            grouped: uint8 (n, bytes), the bytes of all rows in the order of the lists, where they are stored so.
            add: Adds rows and their bytes to a list.
            release: Gives back the memory of what the bytes were read from.
        """
        self._index, self._order, self._starts = index, order, starts
        self._raw_of, self._grouped, self._add, self._release = raw_of, grouped, add, release
        self._is_filled = np.diff(starts) == 0
        self._is_whole = bool(self._is_filled.all())
        self._unreleased = 0
        self._lock = threading.Lock()
        index.ntotal = len(order)

    def need(self, lists: NDArray[np.int64]) -> None:
        """Fill those of these lists, of any shape, that are not filled yet.

        Raises:
            CorruptError: What their rows are read from is not what was written.
        """
        if self._is_whole or self._is_filled[lists].all():
            return
        with self._lock:
            wanted = np.unique(lists)
            for some in self._batches(wanted[~self._is_filled[wanted]].tolist()):
                self._fill(some)
            self._is_whole = bool(self._is_filled.all())
            if self._release is not None and (self._is_whole or self._unreleased > _RELEASE_ROWS):
                self._release()
                self._unreleased = 0

    def need_all(self) -> None:
        """Fill all lists."""
        self.need(np.arange(len(self._is_filled)))

    def _batches(self, lists: list[int]) -> Iterator[list[int]]:
        """Yield the lists, so many at once that their bytes are read together and take bounded memory."""
        batch: list[int] = []
        n_rows = 0
        for number in lists:
            batch.append(number)
            n_rows += int(self._starts[number + 1] - self._starts[number])
            if n_rows >= _FILL_ROWS:
                yield batch
                batch, n_rows = [], 0
        if batch:
            yield batch

    def _fill(self, lists: list[int]) -> None:
        places = [slice(int(self._starts[number]), int(self._starts[number + 1])) for number in lists]
        parts = [self._order[each] for each in places]
        rows = np.concatenate(parts).astype(np.int64)
        raw = self._raw_of(rows) if self._grouped is None else np.concatenate([self._grouped[each] for each in places])
        ends = np.cumsum([0, *map(len, parts)]).tolist()
        for number, (begin, end) in zip(lists, itertools.pairwise(ends), strict=True):
            self._add(self._index, number, end - begin, rows[begin:end], raw[begin:end])
            self._is_filled[number] = True  # only now may others search it
        self._unreleased += len(rows)
