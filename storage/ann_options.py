"""The options of the ANN index, as they are stored with a knowledge base."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from storage.errors import InvalidOptionError
from storage.index_kind import DEFAULT_KIND, IndexKind

__all__ = ["AnnOptions"]


@dataclass(frozen=True)
class AnnOptions:
    """How approximate search is built and asked.

    Attributes:
        exact_below_rows: Segments with fewer rows are scanned instead.
        nlist: Lists per segment; None takes 2·√rows.
        nprobe: Lists read per query; None takes nlist / 48, at least 64 (recall@100 of 0.95 and more, 20,000 to
            4 million rows).
        seed: Seed of the sample and of k-means.
        sample_per_list: Rows per centroid that k-means sees.
        iterations: Rounds of k-means.
        kind: See `storage.index_kind`.
        refine: Candidates rescored from the int8 vectors for each row wanted; None takes the kind's own number.
        exact_passages: Scan all passage vectors however many there are, so that what is found does not depend on how
            they are dealt out to segments and shards.
    """

    exact_below_rows: int = 10_000
    nlist: int | None = None
    nprobe: int | None = None
    seed: int = 1
    sample_per_list: int = 40
    iterations: int = 6
    kind: str = DEFAULT_KIND
    refine: int | None = None
    exact_passages: bool = False

    def __post_init__(self) -> None:
        IndexKind.of(self.kind)
        least = {"exact_below_rows": 0, "seed": 0}
        for name, value in asdict(self).items():
            if isinstance(value, int) and not isinstance(value, bool) and value < least.get(name, 1):
                raise InvalidOptionError(f"ANN option {name} is {value}, expected at least {least.get(name, 1)}")

    def is_exact(self, kind: str) -> bool:
        """Return whether all vectors of this kind, "tokens" or "passages", are scanned."""
        return self.kind == "exact" or (kind == "passages" and self.exact_passages)

    @property
    def index_kind(self) -> IndexKind:
        """The kind of index."""
        return IndexKind.of(self.kind)

    def lists_for(self, n_rows: int) -> int:
        """Return how many lists a segment of this many rows gets."""
        return max(1, min(n_rows, self.nlist if self.nlist is not None else round(2 * math.sqrt(n_rows))))

    def probes_for(self, nlist: int) -> int:
        """Return how many of `nlist` lists a query reads."""
        return max(1, min(nlist, self.nprobe if self.nprobe is not None else max(64, nlist // 48)))
