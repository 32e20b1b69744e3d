"""Vectors as int8 codes with one float16 scale per row: `x ≈ code · scale`.

Nearly all rows share one scale, the *common* scale of the knowledge base, so that an inner product with the
codes alone ranks rows; a row whose largest component does not fit gets a larger scale of its own. Nothing is
ever clipped.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, UsageError

_MAX_CODE = 127
_MIN_SCALE = float(np.finfo(np.float16).tiny)
_MAX_SCALE = float(np.finfo(np.float16).max)


def round_up_to_float16(values: NDArray[np.float32]) -> NDArray[np.float16]:
    """Return the smallest float16 values that are not below `values` (any shape, same shape back)."""
    with np.errstate(over="ignore"):
        rounded = values.astype(np.float16)
    too_small = rounded.astype(np.float32) < values
    rounded[too_small] = np.nextafter(rounded[too_small], np.float16(np.inf))
    return rounded


def check_scale(scale: float) -> float:
    """Return the common scale as the float that float16 holds; InvalidOptionError when it is no positive float16."""
    if not (math.isfinite(scale) and _MIN_SCALE <= scale <= _MAX_SCALE):
        raise InvalidOptionError(
            f"common scale is {scale}, expected {_MIN_SCALE:.3g} to {_MAX_SCALE:.0f}; take it from common_scale()"
        )
    return float(np.float16(scale))


def common_scale(vectors: NDArray[np.floating[Any]], *, coverage: float = 0.999) -> float:
    """Return the common scale with which the share `coverage` of these rows fits into int8, exact in float16.

    Args:
        vectors: float (n, d), n > 0, any norm; a sample of what will be stored (a few thousand rows do).
        coverage: Share of rows that get the common scale; the others get a larger one each.
    """
    vectors = _check_vectors(vectors)
    if len(vectors) == 0:
        raise UsageError("common_scale got no vectors, expected at least one; pass the vectors of the first add")
    return covering_scale(np.abs(vectors).max(axis=1), coverage=coverage)


def covering_scale(largest: NDArray[np.float32], *, coverage: float = 0.999) -> float:
    """Return the common scale of rows of which the largest absolute component is known, float32 (n), n > 0."""
    needed = np.quantile(largest, coverage, method="higher") / _MAX_CODE
    rounded = round_up_to_float16(np.array([max(float(needed), _MIN_SCALE)], dtype=np.float32))
    return check_scale(float(rounded[0]))


def quantise(vectors: NDArray[np.floating[Any]], common: float) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return the codes int8 (n, d), in −127…127, and scales float16 (n), each at least `common`.

    Args:
        vectors: float (n, d), any norm, finite.
        common: The knowledge base's common scale; rounded to float16.
    """
    common = check_scale(common)
    vectors = _check_vectors(vectors)
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    scales = round_up_to_float16(np.maximum(largest / _MAX_CODE, np.float32(common)).astype(np.float32))
    if not np.isfinite(scales).all():
        row = int(np.flatnonzero(~np.isfinite(scales))[0])
        raise UsageError(
            f"vector {row} has a component of {largest[row]:.3g}, expected at most {_MAX_SCALE * _MAX_CODE:.3g}; "
            "check the encoder"
        )
    codes = np.rint(vectors / scales.astype(np.float32)[:, None])
    return codes.astype(np.int8), scales


def dequantise(codes: NDArray[np.int8], scales: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Return the vectors float32 (n, d) that the codes int8 (n, d) and the scales (n) stand for."""
    vectors = codes.astype(np.float32)
    vectors *= scales.astype(np.float32)[:, None]
    return vectors


def _check_vectors(vectors: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    if vectors.ndim != 2:
        raise UsageError(f"vectors have shape {vectors.shape}, expected (n, d); reshape them")
    vectors = vectors.astype(np.float32, copy=False)
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        row = int(np.flatnonzero(~finite)[0])
        raise UsageError(f"vector {row} of {len(vectors)} is not finite, expected numbers; check the encoder")
    return vectors
