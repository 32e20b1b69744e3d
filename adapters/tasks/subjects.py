"""Relations asked backwards: which places can speak for a subject, given the object."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kbengine.corpus.normalise import norm

if TYPE_CHECKING:
    from kbengine.search.results import Hit


@dataclass(frozen=True)
class WantedObject:
    """The object of a relation asked backwards, by its names after KILT's normalisation; none allows every place."""

    names: Set[str] = frozenset()

    @classmethod
    def of(cls, name: str, titles: Iterable[str] = ()) -> WantedObject:
        """Return the object with this name, which is also called as the titles of the documents that it names."""
        bare = (title.partition(" (")[0] for title in titles)
        return cls(frozenset(filter(None, map(norm, (name, *bare)))))

    def allows(self, hit: Hit) -> bool:
        """Tell whether one of the names stands in the hit's passage, and its document is not about the object."""
        if not self.names:
            return True
        if norm(hit.document.title) in self.names:
            return False
        text = f" {norm(hit.passage.text)} "
        return any(f" {name} " in text for name in self.names)
