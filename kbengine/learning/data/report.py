"""What came of the rows of a file: examples, and rows that could not be used, counted by reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SHOWN_ROWS = 3
"""Rows named for each reason; the rest are counted."""


class UnusableRowError(Exception):
    """A row gives no example; the reason is short and the same for rows of one kind, so that they can be counted."""

    def __init__(self, reason: str, row: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


@dataclass
class FileReport:
    """The counts of one file.

    Attributes:
        file: Its name as given.
        format: How it was read.
        rows: Rows seen.
        examples: Training examples made of them.
        unusable: Rows without an example, by reason.
        notes: Examples that lost something, by what (a phrase that could not be found: passage loss alone).
        rows_of: The first rows of each reason.
    """

    file: str
    format: str
    rows: int = 0
    examples: int = 0
    unusable: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    rows_of: dict[str, list[str]] = field(default_factory=dict)

    def refuse(self, error: UnusableRowError) -> None:
        """Count a row that gives no example."""
        self.unusable[error.reason] += 1
        self._name(error.reason, error.row)

    def note(self, what: str, row: str) -> None:
        """Count an example that lost something."""
        self.notes[what] += 1
        self._name(what, row)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        counts = {name: dict(getattr(self, name).most_common()) for name in ("unusable", "notes")}
        return {**vars(self), **counts}

    def _name(self, reason: str, row: str) -> None:
        named = self.rows_of.setdefault(reason, [])
        if len(named) < SHOWN_ROWS:
            named.append(row)


@dataclass
class DataReport:
    """The counts of all files."""

    files: list[FileReport] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Return how many rows were seen."""
        return sum(each.rows for each in self.files)

    @property
    def examples(self) -> int:
        """Return how many examples were made."""
        return sum(each.examples for each in self.files)

    @property
    def unusable(self) -> Counter[str]:
        """Return the rows without an example, by reason."""
        return sum((each.unusable for each in self.files), Counter[str]())

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"rows": self.rows, "examples": self.examples, "files": [each.to_json() for each in self.files]}
