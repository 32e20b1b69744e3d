"""How many lists a query has to look into: measured when a quantiser is trained, not a share of the lists."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from storage.ann_lists import assign
from storage.exact import ExactBlock
from storage.quantiser import Quantiser

__all__ = ["TARGET_RECALL", "Probing", "measure_probing"]

Float32 = NDArray[np.float32]

TARGET_RECALL = 0.95
"""Share of the nearest tokens that are to lie in the lists looked into."""

_NEAREST = 100
_QUERIES = 512
_MAX_ROWS = 1 << 17
# However few measurements say that fewer would do.
_LEAST = 16


@dataclass(frozen=True)
class Probing:
    """How many lists a query looks into.

    Attributes:
        nprobe: How many.
        recall: Share of the nearest tokens that lay in so many lists when it was measured.
    """

    nprobe: int
    recall: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self | None:
        """Return what a record of a quantiser says; None where nothing was measured."""
        nprobe, recall = record.get("nprobe"), record.get("recall")
        if not isinstance(nprobe, int) or not isinstance(recall, int | float) or nprobe < 1:
            return None
        return cls(nprobe, float(recall))


def measure_probing(sample: Float32, quantiser: Quantiser, n_rows: int, *, target: float = TARGET_RECALL) -> Probing:
    """Return how many lists hold this share of the 100 nearest tokens, or passages, of a query.

    Tokens of the sample are the queries, and the others what is sought among: of fewer rows proportionally fewer
    nearest ones. Tokens are harder to find than questions: over 971,795 vectors in 4,000 lists the 96 that hold 95.7 %
    of what is nearest to tokens hold 97.7 % of what is nearest to real questions.

    Args:
        sample: float32 (n, d), of the vectors that are indexed, in random order.
        quantiser: Whose lists.
        n_rows: How many vectors are indexed.
        target: The share.
    """
    n_queries = min(_QUERIES, len(sample) // 4)
    nlist = quantiser.nlist
    if not n_queries:
        return Probing(min(_LEAST, nlist), 1.0)
    queries, rows = sample[:n_queries], sample[n_queries : n_queries + _MAX_ROWS]
    k = max(1, round(_NEAREST * len(rows) / n_rows))
    lists = assign(len(rows), lambda block: rows[block], quantiser.centroids, lambda _: None)
    nearest = ExactBlock(rows, np.arange(len(rows))).search(queries, min(k, len(rows))).rows
    products = queries @ quantiser.centroids.T  # (n_queries, nlist)
    wanted = np.take_along_axis(products, lists[nearest], axis=1)
    # How many lists are better than the one that a neighbour lies in.
    ranks = np.stack([(own > of[:, None]).sum(axis=1) for own, of in zip(products, wanted, strict=True)])
    ordered = np.sort(ranks, axis=None)
    nprobe = int(ordered[math.ceil(target * len(ordered)) - 1]) + 1
    nprobe = min(max(nprobe, _LEAST), nlist)
    return Probing(nprobe, round(float(np.mean(ranks < nprobe)), 4))
