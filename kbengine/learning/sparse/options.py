"""How sparse encoders are trained. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kbengine.learning.loop.options import require


@dataclass(frozen=True)
class SparseOptions:
    """What sparse training does beside the loop's own options.

    Attributes:
        train_encoder: Whether the phrase and query encoders are trained as well, or stay as they are.
        dense_scale: What dense scores are multiplied by beside sparse ones. Below 1 for an encoder that was trained on
            the same rows: its dense scores are surer of these than of others, and leave sparse ones nothing to learn.
        in_batch: Share of the combined loss that compares the answer with all tokens of all passages of the batch; the
            rest compares it with those of its own passage and its negative.
        page_rows: Rows of one page that come in one batch where there are so many: its passages are alike, and telling
            them apart is what is to be learned. Counts for `in_batch` alone.
        as_stored: Whether only the heaviest n-grams of each token count in training too, as many as will be stored.
        dense_weight: Of the auxiliary loss on dense scores alone; it moves nothing but the encoders.
        negatives: Whether each question gets the passage of a similar question to tell its own from, as in the paper.
            Off by default: with `in_batch` there are such passages in the batch, and half as many to encode.
        mining_pool: Questions among which the similar one is looked for, a random sample where there are more.
        noise_share: Share of the negative passages that are disturbed.
        noise_rate: Share of a disturbed passage's tokens that are cut, replaced or shuffled.
        bonus: Weight of the tf-idf cosine between question and negative passage, added to its tokens' logits.
    """

    train_encoder: bool = False
    dense_scale: float = 0.5
    in_batch: float = 0.5
    page_rows: int = 4
    as_stored: bool = True
    dense_weight: float = 1.0
    negatives: bool = False
    mining_pool: int = 20_000
    noise_share: float = 0.2
    noise_rate: float = 0.1
    bonus: float = 5.0

    def __post_init__(self) -> None:
        for name in ("dense_scale", "dense_weight", "bonus"):
            value = getattr(self, name)
            require(math.isfinite(value) and value >= 0, name, value, "a finite number from 0 up")
        for name in ("in_batch", "noise_share", "noise_rate"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share from 0 to 1")
        require(self.page_rows >= 1, "page_rows", self.page_rows, "1 or more")
        require(self.mining_pool >= 2, "mining_pool", self.mining_pool, "2 or more")
