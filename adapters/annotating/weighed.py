"""A span of a text with what it may mean."""

from __future__ import annotations

from dataclasses import dataclass

from adapters.annotating.coherence import Described
from adapters.annotating.spotting import Spotted


@dataclass(frozen=True)
class Weighed:
    """A span with what it may mean: documents with their features, the more probable first."""

    spotted: Spotted
    options: tuple[tuple[Described, str | None, float, tuple[float, ...]], ...]

    @property
    def probability(self) -> float:
        """Return that of the best document."""
        return self.options[0][2] if self.options else 0.0
