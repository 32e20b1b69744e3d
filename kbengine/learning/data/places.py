"""Where a text says something: exact offsets checked, answers found by string, titles found in their page."""

from __future__ import annotations

import re

from kbengine.corpus.normalise import norm
from kbengine.span import Span

_DISAMBIGUATION = re.compile(r"\s+\([^()]*\)$|,\s[^,]+$")
_NEAR_CHARS = 16


def checked_span(text: str, start: int, end: int, answer: str | None) -> Span | None:
    """Return the characters meant by offsets, or None when the text there is not the answer.

    Offsets of data sets are now and then off by blanks or by an inclusive end; the answer is then looked for within a
    few characters. Without an answer to compare with, the offsets are taken as they are.

    Args:
        text: the passage.
        start: first character.
        end: the character after the last.
        answer: what should stand there, or None.
    """
    inside = 0 <= start < end <= len(text)
    if answer is None:
        return _stripped(text, start, end) if inside else None
    if not (inside and text[start:end] == answer) and 0 <= start <= len(text):
        found = text.find(answer, max(0, start - _NEAR_CHARS), start + len(answer) + _NEAR_CHARS)
        if found >= 0:
            start, end = found, found + len(answer)
            inside = True
    return _stripped(text, start, end) if inside and norm(text[start:end]) == norm(answer) else None


def occurrences(text: str, phrase: str) -> list[Span]:
    """Return every place where the phrase stands as whole words, case as written or else in any case, in order."""
    phrase = phrase.strip()
    if not phrase:
        return []
    pattern = re.escape(phrase)
    pattern = re.sub(r"(\\\s|\s)+", r"\\s+", pattern)
    before = r"(?<!\w)" if re.match(r"\w", phrase) else ""
    after = r"(?!\w)" if re.search(r"\w$", phrase) else ""
    for flags in (0, re.IGNORECASE):
        found = [Span(*match.span()) for match in re.finditer(before + pattern + after, text, flags)]
        if found:
            return found
    return []


def title_occurrences(text: str, title: str) -> list[Span]:
    """Return where a page's title stands in a text; without its disambiguation when it does not stand there whole."""
    found = occurrences(text, title)
    bare = _DISAMBIGUATION.sub("", title.strip())
    return found or (occurrences(text, bare) if bare != title.strip() else [])


def _stripped(text: str, start: int, end: int) -> Span | None:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return Span(start, end) if start < end else None
