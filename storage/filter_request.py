"""What filtering is asked for, and whether what is stored allows it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from storage.errors import InvalidOptionError

__all__ = ["FilterRequest", "check_available"]

# Fractions are told rounded, and what is stored is a little more or less than was asked for.
_SLACK = 0.005


@dataclass(frozen=True)
class FilterRequest:
    """Which of the stored tokens to keep: a share of all, or those whose larger filter logit reaches a threshold.

    Attributes:
        keep_fraction: Of all tokens of the live documents, not of the stored ones.
        threshold: Instead of a share.
    """

    keep_fraction: float | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if (self.keep_fraction is None) == (self.threshold is None):
            raise InvalidOptionError(
                f"kept fraction {self.keep_fraction}, filter threshold {self.threshold}; wanted one of the two"
            )
        if self.keep_fraction is not None and not 0 < self.keep_fraction <= 1:
            raise InvalidOptionError(f"the kept fraction is {self.keep_fraction}; wanted more than 0 and at most 1")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InvalidOptionError(f"the filter threshold is {self.threshold}; wanted a finite number")


def check_available(request: FilterRequest, *, n_tokens: int, n_stored: int, stored_threshold: float | None) -> None:
    """Raise InvalidOptionError when more tokens are asked for than are stored.

    Args:
        request: What is asked for.
        n_tokens: All tokens of the live documents.
        n_stored: Those of them that are stored.
        stored_threshold: The threshold by which these were chosen; None when all were.
    """
    share = n_stored / n_tokens if n_tokens else 1.0
    if request.keep_fraction is not None and request.keep_fraction > share + _SLACK:
        raise InvalidOptionError(
            f"a kept fraction of {request.keep_fraction} was asked for, only {share:.4f} of the tokens are stored; "
            "vectors that were not stored must be encoded: build anew from the corpus ('kbengine export' writes one) "
            f"with --keep-fraction {request.keep_fraction}"
        )
    if request.threshold is not None and stored_threshold is not None and request.threshold < stored_threshold:
        raise InvalidOptionError(
            f"a filter threshold of {request.threshold} was asked for, tokens below {stored_threshold:.4f} are not "
            "stored; vectors that were not stored must be encoded: build anew from the corpus ('kbengine export' "
            f"writes one) with --filter-threshold {request.threshold}"
        )
