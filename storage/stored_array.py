"""Arrays of a file with block checksums that are checked where they are read, and not before.

Opening a file then costs nothing that grows with it, and yet no byte is looked at that is not what was written: a
block of `storage.container.BLOCK_BYTES` is checked once, when something in it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from storage.compiled import compiled
from storage.container import BLOCK_BYTES, Container
from storage.errors import CorruptError

__all__ = ["BlockChecks", "MendedArray", "RearrangedArray", "Stored", "StoredArray", "seen_at", "seen_between"]

T = TypeVar("T", bound=np.generic)

_SHIFT = BLOCK_BYTES.bit_length() - 1  # a block is a power of two; shifting takes a fraction of dividing


class BlockChecks:
    """Which blocks of an opened file were found to be what was written; safe to share between threads."""

    def __init__(self, container: Container) -> None:
        """Take a file that has block checksums and whose root is checked already."""
        assert container.checksums is not None
        self._container = container
        # Two threads may check one block twice; neither reads it before one of them has.
        self._checked = np.zeros(len(container.checksums), dtype=np.bool_)

    def check_range(self, begin: int, end: int) -> None:
        """Check the bytes from `begin` to before `end`; CorruptError unless they are what was written."""
        first, stop = begin // BLOCK_BYTES, -(-end // BLOCK_BYTES)
        if begin < end and not self._checked[first:stop].all():
            self._check(first + np.flatnonzero(~self._checked[first:stop]))

    def check_ranges(self, begins: NDArray[np.int64], ends: NDArray[np.int64]) -> None:
        """Check the bytes of several ranges, as `check_range` does those of one."""
        if not _are_ranges_checked(begins, ends, _SHIFT, self._checked):
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                self.check_range(begin, end)

    def check_items(self, offsets: NDArray[np.int64], n_bytes: int) -> None:
        """Check `n_bytes` from each of the offsets (n) on; CorruptError unless they are what was written."""
        if not n_bytes or not len(offsets):
            return
        first, last = offsets >> _SHIFT, (offsets + (n_bytes - 1)) >> _SHIFT
        if n_bytes > BLOCK_BYTES:  # blocks between the first and the last, too
            for begin, stop in zip(first.tolist(), last.tolist(), strict=True):
                self.check_range(begin * BLOCK_BYTES, (stop + 1) * BLOCK_BYTES)
        elif not (self._checked[first].all() and self._checked[last].all()):
            touched = np.unique(np.concatenate([first, last]))
            self._check(touched[~self._checked[touched]])

    def are_checked(self, places: NDArray[np.int64], n: int, offset: int, n_bytes: int) -> bool:
        """Tell whether all of an array's items at `places` were checked before; false where one is not in range.

        Args:
            places: int64 (m).
            n: How many items there are.
            offset: Where the first begins.
            n_bytes: Bytes of each.
        """
        return n_bytes <= BLOCK_BYTES and _are_checked(places, n, offset, n_bytes, _SHIFT, self._checked)

    def _check(self, numbers: NDArray[np.int64]) -> None:
        for number in numbers.tolist():
            self._container.check_block(number)
            self._checked[number] = True


class StoredArray(Generic[T]):
    """An array in a file, of which what is asked for is checked first.

    It is no numpy array, so that nothing reads it unseen: an index gives a numpy array of what it names, and numpy's
    functions get the whole of it. `CorruptError` comes from either when the bytes are not what was written.
    """

    def __init__(self, array: NDArray[T], checks: BlockChecks, offset: int) -> None:
        """Wrap a view of the mapped file; `offset` is where its bytes begin there."""
        self._array = array
        self._checks = checks
        self._offset = offset
        self._item_bytes = array.nbytes // len(array) if len(array) else 0
        self._is_checked = False

    @property
    def dtype(self) -> np.dtype[T]:
        """The type of its elements."""
        return self._array.dtype

    @property
    def nbytes(self) -> int:
        """Size of its bytes."""
        return self._array.nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._array.shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return self._array.ndim

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> NDArray[T]:
        if not self._is_checked:
            self._check(index)
        chosen: NDArray[T] = self._array[index]
        return chosen

    def seen_at(self, index: NDArray[np.int64]) -> NDArray[T]:
        """Return all of the array, of which only what the index names was checked and may be read."""
        if not self._is_checked:
            self._check(index)
        return self._array

    def seen_between(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[T]:
        """Return all of the array, of which only what is between each start and its end was checked and may be read."""
        if not self._is_checked:
            begins, stops = self._offset + starts * self._item_bytes, self._offset + ends * self._item_bytes
            self._checks.check_ranges(begins, stops)
        return self._array

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        self._check(slice(None))
        self._is_checked = True
        return np.array(self._array, dtype=dtype, copy=copy)

    def _check(self, index: Any) -> None:
        n = len(self)
        if isinstance(index, int | np.integer):
            index = slice(int(index) % max(n, 1), int(index) % max(n, 1) + 1)
        if isinstance(index, slice):
            places = range(n)[index]
            if len(places):
                low, high = min(places[0], places[-1]), max(places[0], places[-1])
                self._checks.check_range(
                    self._offset + low * self._item_bytes, self._offset + (high + 1) * self._item_bytes
                )
        elif isinstance(index, np.ndarray) and index.dtype.kind in "iu":
            if not index.size:
                return
            places_of = index.astype(np.int64, copy=False).ravel()
            if self._checks.are_checked(places_of, n, self._offset, self._item_bytes):
                return
            if int(places_of.max()) >= n:
                return  # numpy refuses it
            if int(places_of.min()) < 0:
                places_of = places_of % n
            self._checks.check_items(self._offset + places_of * self._item_bytes, self._item_bytes)
        else:  # masks and what else numpy takes
            self._check(slice(None))


class MendedArray(StoredArray[T]):
    """An array in a derived file: where its bytes are not what was written, all of it is made anew."""

    def __init__(
        self, array: NDArray[T], checks: BlockChecks, offset: int, made: Callable[[CorruptError], NDArray[T]]
    ) -> None:
        """Wrap a view of the mapped file; `made` gives the same array from what the file was derived from."""
        super().__init__(array, checks, offset)
        self._made = made

    def _check(self, index: Any) -> None:
        try:
            super()._check(index)
        except CorruptError as error:
            self._array = self._made(error)
            self._is_checked = True

    def seen_between(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[T]:
        """Return all of the array, of which only what is between each start and its end may be read."""
        self._check(slice(int(starts.min(initial=0)), int(ends.max(initial=0))))
        return self._array


class RearrangedArray(StoredArray[T]):
    """Rows that are stored in another order, by their own numbers."""

    def __init__(self, array: Stored[T], order: Stored[np.uint32]) -> None:
        """Wrap an array (n, …) whose i-th row has the number `order[i]`."""
        self._stored, self._order = array, order

    @cached_property
    def _places(self) -> NDArray[np.int64]:
        """Where each row is stored, int64 (n): made when a row is first asked for."""
        places = np.empty(len(self._order), dtype=np.int64)
        places[np.asarray(self._order)] = np.arange(len(places))
        return places

    @property
    def dtype(self) -> np.dtype[T]:
        """The type of its elements."""
        return self._stored.dtype

    @property
    def nbytes(self) -> int:
        """Size of its bytes."""
        return self._stored.nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return self._stored.shape

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return self._stored.ndim

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, index: Any) -> NDArray[T]:
        rows: NDArray[T] = self._stored[self._places[index]]
        return rows

    def seen_at(self, index: NDArray[np.int64]) -> NDArray[T]:  # noqa: ARG002 - the same for any rows
        """Return all of the array."""
        return self[:]

    def seen_between(self, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[T]:  # noqa: ARG002 - likewise
        """Return all of the array."""
        return self[:]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self[:], dtype=dtype)


Stored = NDArray[T] | StoredArray[T]
"""An array in memory, or one in a file that is checked where it is read."""


def seen_at(array: Stored[T], index: NDArray[np.int64]) -> NDArray[T]:
    """Return all of an array, of which only what the index names may be read."""
    return array.seen_at(index) if isinstance(array, StoredArray) else array


def seen_between(array: Stored[T], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[T]:
    """Return all of an array, read-only, of which only what is between each start and its end may be read.

    Args:
        array: Of any length.
        starts: int64 (m).
        ends: int64 (m), at least their starts.
    """
    seen = (array.seen_between(starts, ends) if isinstance(array, StoredArray) else array).view()
    seen.flags.writeable = False
    return seen


@compiled()
def _are_ranges_checked(
    begins: NDArray[np.int64], ends: NDArray[np.int64], shift: int, checked: NDArray[np.bool_]
) -> bool:
    for i in range(len(begins)):
        if begins[i] < ends[i]:
            for block in range(begins[i] >> shift, ((ends[i] - 1) >> shift) + 1):
                if not checked[block]:
                    return False
    return True


@compiled()
def _are_checked(
    places: NDArray[np.int64], n: int, offset: int, n_bytes: int, shift: int, checked: NDArray[np.bool_]
) -> bool:
    for place in places:
        if not 0 <= place < n:
            return False
        begin = offset + place * n_bytes
        if not (checked[begin >> shift] and checked[(begin + n_bytes - 1) >> shift]):
            return False
    return True
