"""How far a mean over rows may be off by chance, when rows of one page rise and fall together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from adapters.kilt.records import TaskRecord


def clustered_standard_error(values: Sequence[float], clusters: Sequence[Hashable]) -> float | None:
    """Return the standard error of the mean of values whose clusters are independent; None for fewer than two clusters.

    It is `sqrt(G / (G - 1) · Σ_g (Σ_{i in g} (x_i - mean))²) / n` for n values in G clusters: with one value a cluster
    the usual one, and larger where those of a cluster are alike.

    >>> clustered_standard_error([1.0, 1.0, 0.0, 0.0], "aabb")
    0.5
    """
    numbers: dict[Hashable, int] = {}
    of_value = [numbers.setdefault(cluster, len(numbers)) for cluster in clusters]
    n, n_clusters = len(values), len(numbers)
    if n_clusters < 2:
        return None
    off: NDArray[np.float64] = np.asarray(values, dtype=np.float64)
    sums = np.bincount(of_value, weights=off - off.mean(), minlength=n_clusters)
    return float(np.sqrt(n_clusters / (n_clusters - 1) * (sums**2).sum()) / n)


def first_page(record: TaskRecord) -> str:
    """Return the id of the row's first gold page, its cluster; the row's own id where it names none."""
    for output in record.outputs:
        for place in output.provenance:
            page = place.fields.get("wikipedia_id")
            if page is not None:
                return str(page)
    return record.id


def cluster_of_slot(record: TaskRecord) -> str:
    """Return the relation of a slot, its cluster where a set has few of them: "Ulm [SEP] country" has "country"."""
    return record.input.rpartition("[SEP]")[2].strip()
