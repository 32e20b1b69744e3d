"""Which runs of words in a text are names that a knowledge base knows: titles, aliases and texts of links.

No index of its own is built: titles stand in the postings as wholes (`storage.terms.name_term`) and other names in a
table that is sorted by name, so each run of words is looked up there. Both are in step with every commit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbengine.search.records import Records


class KnownNames:
    """The names of a knowledge base.

    What was looked up is remembered, so that a long text asks for each of its names once.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        self._titles: dict[str, bool] = {}
        self._others: dict[str, bool] = {}

    def titled(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that a document has as its title, with or without its qualifier."""
        names = set(names)
        new = sorted(names - self._titles.keys())
        self._titles |= {name: bool(found) for name, found in zip(new, self._records.titled(new, limit=1), strict=True)}
        return {name for name in names if self._titles[name]}

    def aliased(self, names: Iterable[str]) -> set[str]:
        """Return those of the names that a document has as another name."""
        names = set(names)
        new = sorted(names - self._others.keys())
        self._others |= {
            name: bool(found) for name, found in zip(new, self._records.alias_matches(new, limit=1), strict=True)
        }
        return {name for name in names if self._others[name]}
