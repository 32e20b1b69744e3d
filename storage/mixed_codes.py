"""Codes of several widths: each dimension in 8, 4, 2 or no bits, as its variance deserves, in uniform steps.

Where dimensions are the principal axes of vectors, few of them vary much and most of them little. With as many bits
for each, the first would make nearly all of the error; dealt out by variance, the same bytes make half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.compiled import compiled
from storage.errors import UsageError

__all__ = ["WIDTHS", "MixedCodes", "MixedTargets"]

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

WIDTHS = (8, 4, 2, 0)
"""Bits that a dimension may have, in the order in which dimensions stand in a code."""


class MixedTargets(NamedTuple):
    """Vectors that codes are multiplied with.

    Attributes:
        stepped: float32 (t, levels), steps multiplied into them, with zeros for levels that are no dimension's.
        constants: float32 (t), what is added to each product.
    """

    stepped: Float32
    constants: Float32


class _Field(NamedTuple):
    """Dimensions that stand at the same bits of adjacent bytes."""

    dimensions: slice
    places: slice
    shift: int
    mask: int


@dataclass(frozen=True, eq=False)
class MixedCodes:
    """How numbers become codes and codes numbers; immutable and safe to share between threads.

    Attributes:
        bits: uint8 (d), the bits of each dimension, one of `WIDTHS`, never rising.
        ranges: float32 (2, d), least value and step of each dimension; value = least + (code + ½) · step.
    """

    bits: NDArray[np.uint8]
    ranges: Float32

    def __post_init__(self) -> None:
        known = bool(np.isin(self.bits, WIDTHS).all())
        if self.bits.ndim != 1 or not known or (np.diff(self.bits.astype(np.int64)) > 0).any():
            raise UsageError(f"bits of dimensions are {self.bits.tolist()}, expected falling ones of {WIDTHS}")
        if self.ranges.shape != (2, len(self.bits)) or not np.isfinite(self.ranges).all():
            raise UsageError(f"ranges have shape {self.ranges.shape}, expected finite (2, {len(self.bits)})")
        if (self.ranges[1][self.bits > 0] <= 0).any():
            raise UsageError("a dimension has bits but no step; expected a positive one")

    @property
    def d(self) -> int:
        """How many dimensions there are."""
        return len(self.bits)

    @cached_property
    def code_bytes(self) -> int:
        """Bytes of a code."""
        return max((field.places.stop for field in self._fields), default=0)

    @cached_property
    def _n_places(self) -> tuple[int, int, int]:
        """Bytes of a code with dimensions of 8, of 4 and of 2 bits."""
        n_8, n_4, n_2 = (int(np.count_nonzero(self.bits == width)) for width in WIDTHS[:-1])
        return n_8, -(-n_4 // 2), -(-n_2 // 4)

    @cached_property
    def _levels_with_room(self) -> tuple[int, Int64]:
        """How many levels the bytes have room for, and the number of each dimension's among them, int64 (n)."""
        numbers, room = [np.zeros(0, dtype=np.int64)], 0
        for width, n_places in zip(WIDTHS, self._n_places, strict=False):
            numbers.append(room + np.arange(np.count_nonzero(self.bits == width)))
            room += n_places * 8 // width
        return room, np.concatenate(numbers)

    @cached_property
    def _fields(self) -> list[_Field]:
        fields: list[_Field] = []
        first_dimension = first_place = 0
        for width in WIDTHS[:-1]:
            n = int(np.count_nonzero(self.bits == width))
            in_byte = 8 // width
            n_places = -(-n // in_byte)
            for number in range(in_byte):
                begin, end = min(n, number * n_places), min(n, (number + 1) * n_places)
                if begin < end:
                    dimensions = slice(first_dimension + begin, first_dimension + end)
                    places = slice(first_place, first_place + end - begin)
                    fields.append(_Field(dimensions, places, width * number, (1 << width) - 1))
            first_dimension += n
            first_place += n_places
        return fields

    def compute_codes(self, values: Float32) -> NDArray[np.uint8]:
        """Return the codes uint8 (n, code_bytes) of numbers float32 (n, d); out of range it is the nearest in range."""
        codes = np.zeros((len(values), self.code_bytes), dtype=np.uint8)
        least, step = self.ranges
        for dimensions, places, shift, mask in self._fields:
            levels = np.floor((values[:, dimensions] - least[dimensions]) / step[dimensions])
            codes[:, places] |= np.clip(levels, 0, mask).astype(np.uint8) << shift
        return codes

    def levels(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the level of each dimension as a byte of its own, uint8 (n, d); 0 for dimensions without bits."""
        levels = np.zeros((len(codes), self.d), dtype=np.uint8)
        self._unpack(codes, levels)
        return levels

    def decode(self, codes: NDArray[np.uint8]) -> Float32:
        """Return the numbers float32 (n, d) that codes uint8 (n, code_bytes) stand for."""
        values = np.zeros((len(codes), self.d), dtype=np.float32)
        self._unpack(codes, values)
        least, step = self.ranges
        values += np.float32(0.5)
        values *= step
        values += least
        return values

    def targets(self, vectors: Float32) -> MixedTargets:
        """Return what codes are multiplied with for their inner products with vectors float32 (t, d)."""
        least, step = self.ranges
        room, numbers = self._levels_with_room
        stepped = np.zeros((len(vectors), room), dtype=np.float32)
        stepped[:, numbers] = vectors[:, : len(numbers)] * step[: len(numbers)]
        return MixedTargets(stepped, vectors @ (least + step / 2))

    def inner_products(self, codes: NDArray[np.uint8], rows: Int64, targets: MixedTargets) -> Float32:
        """Return the inner products float32 (n, t) of decoded numbers with targets.

        The codes are multiplied as they are, with targets that the steps have been multiplied into. A row's products
        do not depend on the rows beside it, nor on how many targets there are.

        Args:
            codes: uint8 (m, code_bytes).
            rows: int64 (n), which of them.
            targets: t of them.

        Raises:
            UsageError: a row is not there.
        """
        if codes.ndim != 2 or codes.shape[1] != self.code_bytes:
            raise UsageError(f"codes have shape {codes.shape}, expected (n, {self.code_bytes})")
        products = np.empty((len(rows), len(targets.stepped)), dtype=np.float32)
        if not _multiply(codes, rows, *self._n_places, targets.stepped, targets.constants, products):
            raise UsageError(f"rows run from {rows.min()} to {rows.max()}, there are codes of {len(codes)}")
        return products

    def _unpack(self, codes: NDArray[np.uint8], levels: NDArray[Any]) -> None:
        """Write the level of each dimension to (n, d); dimensions without bits are left as they are."""
        for dimensions, places, shift, mask in self._fields:
            part: NDArray[Any] = codes[:, places]
            if shift:
                part = part >> shift
            levels[:, dimensions] = part if shift + mask.bit_length() == 8 else part & mask


@compiled(free_sums=True)
def _multiply(
    codes: NDArray[np.uint8],
    rows: Int64,
    n_8: int,
    n_4: int,
    n_2: int,
    stepped: Float32,
    constants: Float32,
    products: Float32,
) -> bool:
    """Write levels · stepped + constants of rows to `products`, float32 (n, t), from bytes of 8, 4 and 2 bits.

    Return whether all rows are there.
    """
    room = stepped.shape[1]
    levels = np.empty(room, dtype=np.float32)
    # Views of fixed length, so that the compiler knows of no index that could count from the end.
    of_8, low, high = levels[:n_8], levels[n_8 : n_8 + n_4], levels[n_8 + n_4 : n_8 + 2 * n_4]
    of_2 = levels[n_8 + 2 * n_4 :]
    first, second, third, fourth = of_2[:n_2], of_2[n_2 : 2 * n_2], of_2[2 * n_2 : 3 * n_2], of_2[3 * n_2 :]
    for i in range(len(rows)):
        if not 0 <= rows[i] < len(codes):
            return False
        code = codes[rows[i]]
        for j in range(n_8):
            of_8[j] = np.float32(code[j])
        halves = code[n_8 : n_8 + n_4]
        for j in range(n_4):
            low[j] = np.float32(halves[j] & np.uint8(15))
            high[j] = np.float32(halves[j] >> np.uint8(4))
        quarters = code[n_8 + n_4 :]
        for j in range(n_2):
            first[j] = np.float32(quarters[j] & np.uint8(3))
            second[j] = np.float32((quarters[j] >> np.uint8(2)) & np.uint8(3))
            third[j] = np.float32((quarters[j] >> np.uint8(4)) & np.uint8(3))
            fourth[j] = np.float32(quarters[j] >> np.uint8(6))
        for target in range(len(stepped)):
            factors = stepped[target]
            total = np.float32(0)
            for j in range(room):
                total += levels[j] * factors[j]
            products[i, target] = total + constants[target]
    return True
