"""Texts with mentions marked by people: the text as it reads without the marks, and where the mentions stand."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kbengine.errors import TaskInputError
from kbengine.inputs import END_MENTION, START_MENTION
from kbengine.span import Span

_MARK = re.compile(f"{re.escape(START_MENTION)}|{re.escape(END_MENTION)}")


@dataclass(frozen=True)
class MarkedText:
    """A text without its marks, and where the mentions stood: half-open character offsets, in order."""

    text: str
    mentions: tuple[Span, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the mentions' texts."""
        return tuple(self.text[span.start : span.end] for span in self.mentions)


def marked_text(text: str) -> MarkedText:
    """Return the text without `[START_ENT]` and `[END_ENT]`, and its mentions without the blanks at their ends.

    Raises:
        TaskInputError: a mark is not closed, not opened, nested, or has no word in it.
    """
    plain, mentions, end, opened = "", [], 0, -1
    for mark in _MARK.finditer(text):
        plain += text[end : mark.start()]
        end = mark.end()
        if mark[0] == START_MENTION:
            if opened >= 0:
                raise TaskInputError(f"{START_MENTION} stands inside a mention; close it with {END_MENTION} first")
            # The blanks inside the marks belong to the marks, unless the words around would run together.
            end += text[end : end + 1] == " " and not plain[-1:].isalnum()
            opened = len(plain)
        else:
            if opened < 0:
                raise TaskInputError(f"{END_MENTION} has no {START_MENTION} before it; put one before the mention")
            if plain.endswith(" ") and not text[end : end + 1].isalnum():
                plain = plain[:-1]
            start = opened + len(plain[opened:]) - len(plain[opened:].lstrip())
            stop = len(plain.rstrip())
            if start >= stop:
                raise TaskInputError(f"the mention between {START_MENTION} and {END_MENTION} is empty; mark a word")
            mentions.append(Span(start, stop))
            opened = -1
    if opened >= 0:
        raise TaskInputError(f"{START_MENTION} is not closed; put {END_MENTION} behind the mention")
    return MarkedText(plain + text[end:], tuple(mentions))
