"""A place in a passage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """A half-open range of characters of the stored passage text."""

    start: int
    end: int
