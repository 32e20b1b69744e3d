"""How sparse encoders are trained. No torch here."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from kbengine.errors import InvalidOptionError


@dataclass(frozen=True)
class SparseOptions:
    """What sparse training does beside the loop's own options.

    Attributes:
        train_encoder: Whether the phrase and query encoders are trained as well, or stay as they are.
        dense_weight: Of the auxiliary loss on dense scores alone; it moves nothing but the encoders.
        negatives: Whether each question gets the passage of a similar question to tell its own from.
        mining_pool: Questions among which the similar one is looked for, a random sample where there are more.
        noise_share: Share of the negative passages that are disturbed.
        noise_rate: Share of a disturbed passage's tokens that are cut, replaced or shuffled.
        bonus: Weight of the tf-idf cosine between question and negative passage, added to its tokens' logits.
    """

    train_encoder: bool = False
    dense_weight: float = 1.0
    negatives: bool = True
    mining_pool: int = 20_000
    noise_share: float = 0.2
    noise_rate: float = 0.1
    bonus: float = 5.0

    def __post_init__(self) -> None:
        for name in ("dense_weight", "bonus"):
            value = getattr(self, name)
            if not math.isfinite(value) or value < 0:
                raise InvalidOptionError(f"{name} is {value}, wanted a finite number from 0 up")
        for name in ("noise_share", "noise_rate"):
            if not 0 <= getattr(self, name) <= 1:
                raise InvalidOptionError(f"{name} is {getattr(self, name)}, wanted a share from 0 to 1")
        if self.mining_pool < 2:
            raise InvalidOptionError(f"mining_pool is {self.mining_pool}, wanted 2 or more")

    def to_json(self) -> dict[str, Any]:
        """Return the options as plain values."""
        return asdict(self)
