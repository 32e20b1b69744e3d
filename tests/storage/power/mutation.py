"""A change of the code that would break a promise, with the check that notices it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutation:
    """Texts of storage's files that are replaced, each there exactly once, and the check that has to fail then."""

    name: str
    check: Callable[[Path], object]
    edits: Sequence[tuple[str, str, str]]


def module_of(name: str) -> str:
    """The module that an edit names: one of storage's by its last part, any other by its whole name."""
    return name if "." in name else f"storage.{name}"
