"""The code that all token vectors are stored in: 4 bits a dimension on the average, along their principal axes.

It is measured once for an encoder, on text like any other, and is then the same for every knowledge base made with
that encoder: for a hundred documents as for six million, with nothing to be trained in a build. For encoders that come
without one it is measured on the first vectors that are added.
"""

from __future__ import annotations

import heapq
import uuid

import numpy as np
from numpy.typing import NDArray

from storage.errors import UsageError
from storage.index_kind import STORED_KIND, IndexKind
from storage.mixed_codes import WIDTHS
from storage.quantiser import Quantiser

__all__ = ["MEASURED_ROWS", "measure_stored_code"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

MEASURED_ROWS = 200_000
"""Vectors that are enough to measure a code on."""

_BITS = 4
# Half the range, in standard deviations, that makes the least error in so many bits of a normal distribution.
_NORMAL_WIDTHS = {8: 4.2, 4: 2.8, 2: 2.0}
_WIDTH_FACTORS = np.linspace(0.6, 1.7, 23)
# Vectors a dimension from which their own distribution tells more than the assumption that all axes are alike.
_TRUSTED_ROWS = 4
# And from which the widths that suit these very vectors suit others.
_FITTED_ROWS = 32
_MAX_FITTED_ROWS = 32_768
# Until then ranges are this much wider: what is out of range is worse off than what is coded a little more coarsely.
_HEADROOM = 1.3


def measure_stored_code(vectors: Float32, *, name: str | None = None) -> Quantiser:
    """Return the code that makes the least squared error of vectors like these in half a byte a dimension.

    The principal axes get 8, 4, 2 or no bits each, one after the other where bits lower the error most; few vectors
    are not trusted about axes, which then are all alike.

    Args:
        vectors: float32 (n, d), n > 0, drawn at random.
        name: Of the code; None draws one.
    """
    n, d = vectors.shape
    if not n:
        raise UsageError("the code of stored vectors is to be measured on none, expected at least one")
    prior = _TRUSTED_ROWS * d
    mean = (vectors.mean(axis=0, dtype=np.float64) * (n / (n + prior))).astype(np.float16).astype(np.float64)
    centred = vectors.astype(np.float64) - mean
    moments = centred.T @ centred
    alike = np.trace(moments) / (n * d)
    variances, axes = np.linalg.eigh((moments + prior * alike * np.eye(d)) / (n + prior))
    variances = np.maximum(variances[::-1], 1e-12)
    rotation = np.ascontiguousarray(axes[:, ::-1].T.astype(np.float16).astype(np.float32))
    sample = centred[:_MAX_FITTED_ROWS].astype(np.float32) @ rotation.T if n >= _FITTED_ROWS * d else None
    steps, errors = _steps(np.sqrt(variances), sample)
    bits = _dealt_bits(variances, errors)
    order = np.argsort(-bits.astype(np.int64), kind="stable")
    step = np.array([steps[int(width)][axis] if width else 0.0 for axis, width in enumerate(bits)])
    least = -step * (1 << bits.astype(np.int64)) / 2 * (bits > 0)
    return Quantiser(
        name or uuid.uuid4().hex,
        IndexKind.of(STORED_KIND),
        mean.astype(np.float32)[None, :],
        rotation=np.ascontiguousarray(rotation[order]),
        ranges=np.stack([least, step]).astype(np.float32)[:, order],
        bits=bits[order],
    )


def _steps(deviations: Float64, sample: Float32 | None) -> tuple[dict[int, Float64], dict[int, Float64]]:
    """Return the step, and the squared error with it, of each dimension in each width, both float64 (d).

    Args:
        deviations: float64 (d), standard deviation along each axis.
        sample: float32 (n, d), vectors along the axes; None where there are too few to say more than deviations.
    """
    steps: dict[int, Float64] = {}
    errors: dict[int, Float64] = {}
    for width, half in _NORMAL_WIDTHS.items():
        levels = 1 << width
        if sample is None:
            steps[width] = 2 * half * _HEADROOM * deviations / levels
            errors[width] = steps[width] ** 2 / 12
            continue
        best = np.full(len(deviations), np.inf)
        chosen = np.zeros(len(deviations))
        for factor in _WIDTH_FACTORS:
            step = (2 * half * factor * deviations / levels).astype(np.float32)
            coded = np.clip(np.floor(sample / step), -levels // 2, levels // 2 - 1)
            seen = ((sample - (coded + np.float32(0.5)) * step) ** 2).mean(axis=0, dtype=np.float64)
            is_better = seen < best
            best[is_better], chosen[is_better] = seen[is_better], step[is_better]
        steps[width], errors[width] = chosen, best
    return steps, errors


def _dealt_bits(variances: Float64, errors: dict[int, Float64]) -> NDArray[np.uint8]:
    """Return the bits of each axis, uint8 (d): from none upwards where a bit lowers the error most, `_BITS` a mean."""
    widths = sorted(WIDTHS)
    of_width = {**errors, 0: variances}
    bits = np.zeros(len(variances), dtype=np.uint8)
    left = _BITS * len(variances)

    def offer(axis: int, level: int) -> tuple[float, int, int]:
        gained = of_width[widths[level]][axis] - of_width[widths[level + 1]][axis]
        return -gained / (widths[level + 1] - widths[level]), axis, level

    offers = [offer(axis, 0) for axis in range(len(variances))]
    heapq.heapify(offers)
    while offers:
        _, axis, level = heapq.heappop(offers)
        cost = widths[level + 1] - widths[level]
        if cost > left:
            continue
        left -= cost
        bits[axis] = widths[level + 1]
        if level + 2 < len(widths):
            heapq.heappush(offers, offer(axis, level + 1))
    return bits
