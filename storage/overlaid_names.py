"""Names that documents were given or lost since their shard was made: what its own table of aliases does not say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from storage.alias_records import AliasSource, AliasUse, Spelling, alias_problem
from storage.folding import accent_key

__all__ = ["NameChange", "OverlaidNames"]


@dataclass(frozen=True)
class NameChange:
    """A name that a document was given from a source, or lost.

    Attributes:
        document_id: The document.
        alias: The name, as it is compared exactly.
        source: Where it is from.
        uses: How often the source has the name for the document.
        prior: The prior that was given with it, None without one.
        is_removed: Whether it was lost.
    """

    document_id: int
    alias: str
    source: AliasSource
    uses: int = 0
    prior: float | None = None
    is_removed: bool = False


class OverlaidNames:
    """Changes of names, each put over the rows that are stored for its name; later changes win."""

    def __init__(self, changes: Iterable[NameChange] = ()) -> None:
        self._last = {(each.document_id, each.alias, each.source): each for each in changes}
        self._keys = {accent_key(each.alias) for each in self._last.values()}
        self._documents = {each.document_id for each in self._last.values()}

    def __len__(self) -> int:
        """Return how many rows are given or lost."""
        return len(self._last)

    def changes(self, name: str) -> bool:
        """Return whether a name, or one that differs in case and accents, was given or lost."""
        return bool(self._keys) and alias_problem(name) is None and accent_key(name) in self._keys

    def touches(self, document_id: int) -> bool:
        """Return whether a document was given or lost a name."""
        return document_id in self._documents

    @property
    def documents(self) -> frozenset[int]:
        """The documents that were given or lost a name."""
        return frozenset(self._documents)

    @property
    def given(self) -> list[NameChange]:
        """What was given."""
        return [each for each in self._last.values() if not each.is_removed]

    def has_lost(self, document_id: int, alias: str, source: AliasSource) -> bool:
        """Return whether a document lost a name of a source."""
        found = self._last.get((document_id, alias, source))
        return found is not None and found.is_removed

    def over(self, spellings: Sequence[Spelling], names: Sequence[str], *, limit: int) -> list[Spelling]:
        """Return what is under each spelling of the names with the changes.

        Args:
            spellings: Of these names, all rows of each.
            names: Names.
            limit: How many rows stay of a spelling that has more.
        """
        rows: dict[tuple[str, str], dict[tuple[int, str], AliasUse]] = {}
        for spelt in spellings:
            rows[spelt.folded, spelt.alias] = {(use.document_id, use.source): use for use in spelt.rows}
        keys = {accent_key(name) for name in names if alias_problem(name) is None}
        for each in self._last.values():
            if (folded := accent_key(each.alias)) in keys:
                own = rows.setdefault((folded, each.alias), {})
                own.pop((each.document_id, each.source), None)
                if not each.is_removed:
                    use = AliasUse(each.document_id, each.source, each.uses, each.prior)
                    own[each.document_id, each.source] = use
        return [_spelling(folded, alias, list(own.values()), limit) for (folded, alias), own in rows.items() if own]

    def aliases_of(self, document_id: int, uses: Sequence[tuple[str, AliasUse]]) -> list[str]:
        """Return the names of a document with the changes, those with the most uses first.

        Args:
            document_id: The document.
            uses: Its stored names and their rows.
        """
        rows = {(alias, use.source): use.uses for alias, use in uses}
        for each in self._last.values():
            if each.document_id == document_id:
                rows.pop((each.alias, each.source), None)
                if not each.is_removed:
                    rows[each.alias, each.source] = each.uses
        most: dict[str, int] = {}
        for (alias, _), n in rows.items():
            most[alias] = max(most.get(alias, 0), n)
        return sorted(most, key=lambda alias: (-most[alias], alias.encode()))


def _spelling(folded: str, alias: str, rows: list[AliasUse], limit: int) -> Spelling:
    rows.sort(key=lambda row: (row.document_id, row.source))
    of_documents: dict[int, int] = {}
    for row in rows:
        of_documents[row.document_id] = of_documents.get(row.document_id, 0) + row.uses
    weight = sum(uses or 1 for uses in of_documents.values())
    kept = rows
    if len(rows) > limit:
        kept = sorted(rows, key=lambda row: (row.prior is None, -row.uses, row.document_id, row.source))[:limit]
    return Spelling(folded, alias, len(rows), weight, tuple(kept))
