"""The text of a file of prose, as its readers hand it on: a title and paragraphs under headings."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph and the heading it stands under, or None."""

    text: str
    section: str | None = None


@dataclass(frozen=True, slots=True)
class Prose:
    """The paragraphs of one file, and its title where the file names one."""

    title: str | None
    paragraphs: tuple[Paragraph, ...]


_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


def plain_text(text: str) -> Prose:
    """The paragraphs of plain text, separated by blank lines; line breaks inside are kept."""
    blocks = (block.strip("\n") for block in _BLANK_LINES.split(text))
    return Prose(None, tuple(Paragraph(block) for block in blocks if block.strip()))
