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

from storage.errors import UsageError
from storage.exact import multiply_rows

__all__ = ["WIDTHS", "MixedCodes"]

Float32 = NDArray[np.float32]

WIDTHS = (8, 4, 2, 0)
"""Bits that a dimension may have, in the order in which dimensions stand in a code."""
# Unpacked at once: they stay in the processor's cache.
_BLOCK_ROWS = 512


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

    def inner_products(self, codes: NDArray[np.uint8], targets: Float32) -> Float32:
        """Return the inner products float32 (t, n) of decoded numbers with targets float32 (t, d).

        The codes are multiplied as they are, with targets that the steps have been multiplied into.
        """
        least, step = self.ranges
        products = np.empty((len(targets), len(codes)), dtype=np.float32)
        stepped = np.ascontiguousarray(targets * step)
        levels = np.zeros((min(_BLOCK_ROWS, len(codes)), self.d), dtype=np.float32)
        for start in range(0, len(codes), _BLOCK_ROWS):
            block = codes[start : start + _BLOCK_ROWS]
            some = levels[: len(block)]
            self._unpack(block, some)
            multiply_rows(some, stepped, products[:, start : start + len(block)])
        products += (targets @ (least + step / 2))[:, None]
        return products

    def _unpack(self, codes: NDArray[np.uint8], levels: NDArray[Any]) -> None:
        """Write the level of each dimension to (n, d); dimensions without bits are left as they are."""
        for dimensions, places, shift, mask in self._fields:
            part: NDArray[Any] = codes[:, places]
            if shift:
                part = part >> shift
            levels[:, dimensions] = part if shift + mask.bit_length() == 8 else part & mask
