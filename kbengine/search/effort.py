"""How much is looked at in each round of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbengine.search.query import Effort, SearchOptions

TOKENS_PER_SEARCH = 100
"""Nearest start tokens, and as many end tokens, taken per query (the papers' top-k of query-side training)."""
PASSAGES_PER_SEARCH = 50
"""Passages taken per query from passage vectors, and as many from lexical search."""
EFFORT_FACTORS: Mapping[Effort, float] = {"low": 0.25, "normal": 1.0, "high": 4.0, "exact": 1.0}


@dataclass(frozen=True)
class Reach:
    """How much one round looks at.

    Attributes:
        n_tokens: Nearest start tokens, and as many end tokens.
        n_passages: Nearest passages.
        n_lexical: Passages by words, and as many by names.
        nprobe: Lists looked into; None takes the default times `nprobe_factor`.
        nprobe_factor: Multiplies the default.
        is_exact: Whether every row is looked at.
    """

    n_tokens: int
    n_passages: int
    n_lexical: int
    nprobe: int | None
    nprobe_factor: float
    is_exact: bool

    @classmethod
    def of(cls, options: SearchOptions, growth: int) -> Reach:
        """Return how much a round looks at that is to look at `growth` times as much as the first."""
        return cls(
            TOKENS_PER_SEARCH * growth,
            PASSAGES_PER_SEARCH * growth,
            PASSAGES_PER_SEARCH * growth,
            None if options.nprobe is None else options.nprobe * growth,
            EFFORT_FACTORS[options.effort] * growth,
            options.effort == "exact",
        )
