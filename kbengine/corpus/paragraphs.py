"""The text of a file of prose, as its readers hand it on: a title and paragraphs under headings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from storage.records import JSON


@dataclass(frozen=True, slots=True)
class Paragraph:
    """One paragraph and the heading it stands under, or None."""

    text: str
    section: str | None = None


@dataclass(frozen=True, slots=True)
class Prose:
    """The paragraphs of one file, and what the file says of itself: title, address, facts, other names."""

    title: str | None
    paragraphs: tuple[Paragraph, ...]
    url: str | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()


_BLANK_LINES = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


def plain_text(text: str) -> Prose:
    """Return the paragraphs of plain text, separated by blank lines; line breaks inside are kept."""
    blocks = (block.strip("\n") for block in _BLANK_LINES.split(text))
    return Prose(None, tuple(Paragraph(block) for block in blocks if block.strip()))
