"""Long texts in windows: whole paragraphs as far as they go, else sentences; names of one are linked together."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

WINDOW_CHARS = 4000
"""Characters of a window at most: a news article is one."""
_CUTS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"[.!?]\s"), re.compile(r"\s"))
"""Where a window may end, the best place first."""


@dataclass(frozen=True)
class Window:
    """A part of a text: the parts follow each other and leave nothing out."""

    start: int
    text: str


def windows_of(text: str, *, max_chars: int = WINDOW_CHARS) -> Iterator[Window]:
    """Yield the windows of a text in order.

    >>> [window.text for window in windows_of("One two. Three four.", max_chars=12)]
    ['One two. ', 'Three four.']
    """
    start = 0
    while start < len(text):
        end = min(start + max_chars, len(text))
        if end < len(text):
            end = _cut(text, start, end)
        yield Window(start, text[start:end])
        start = end


def _cut(text: str, start: int, end: int) -> int:
    """Return the end of the last whole paragraph, line, sentence or word of the second half, in this order."""
    middle = start + (end - start) // 2
    for pattern in _CUTS:
        ends = [found.end() for found in pattern.finditer(text, middle, end)]
        if ends:
            return ends[-1]
    return end
