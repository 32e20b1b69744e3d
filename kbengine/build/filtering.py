"""Which tokens of a passage are indexed: by a threshold on the filter head's logits, or by a kept fraction.

A search starts from these. Whether the others are stored beside them, `kbengine.build.storing` says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import InvalidOptionError

Float32 = NDArray[np.float32]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class FilterOptions:
    """Keep tokens whose larger filter logit exceeds `threshold`, or the best `keep_fraction` of them; neither: all.

    With a fraction, the threshold is the quantile over the passages that are encoded together (about 250 in a
    build), so a build keeps that fraction whatever its corpus looks like. The mean of these thresholds is kept
    with the knowledge base and used for later additions, which are too small to have a quantile of their own.
    """

    threshold: float | None = None
    keep_fraction: float | None = None

    def __post_init__(self) -> None:
        if self.threshold is not None and self.keep_fraction is not None:
            raise InvalidOptionError(
                f"both a filter threshold ({self.threshold}) and a kept fraction ({self.keep_fraction}) were given; "
                "give one"
            )
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InvalidOptionError(f"the filter threshold is {self.threshold}, wanted a finite number")
        if self.keep_fraction is not None and not 0 < self.keep_fraction <= 1:
            raise InvalidOptionError(f"the kept fraction is {self.keep_fraction}, wanted more than 0 and at most 1")

    def to_json(self) -> dict[str, Any]:
        """Return the options as stored in the knowledge base's settings."""
        return {"threshold": self.threshold, "keep_fraction": self.keep_fraction}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> FilterOptions:
        """Return the options that were stored."""
        return cls(threshold=record.get("threshold"), keep_fraction=record.get("keep_fraction"))


def resolve_threshold(logits: Sequence[Float32], options: FilterOptions) -> float:
    """Return the threshold for passages encoded together: the options' own, or the quantile that keeps the fraction.

    Args:
        logits: one float32 (t, 2) array of start and end logits per passage.
        options: the filter's options.
    """
    if options.threshold is not None:
        return options.threshold
    if options.keep_fraction is None or options.keep_fraction == 1 or not logits:
        return -math.inf
    best = np.concatenate([passage.max(axis=1) for passage in logits if len(passage)] or [np.zeros(1, np.float32)])
    return float(np.quantile(best, 1 - options.keep_fraction))


def kept_tokens(logits: Float32, threshold: float) -> Bool:
    """Return a bool (t,) mask of the tokens to index; at least one where the passage has any.

    A token is kept if its start or its end logit reaches the threshold; if none does, the best one is kept, so that
    every passage can be found.
    """
    if len(logits) == 0:
        return np.zeros(0, dtype=np.bool_)
    best = logits.max(axis=1)
    keep: Bool = best >= threshold
    if not keep.any():
        keep[int(np.argmax(best))] = True
    return keep


DEFAULT_FILTER = FilterOptions(keep_fraction=0.5)
"""What a build indexes when nothing is said (measured in docs/decisions)."""
