"""How a phrase is written: how many words it has, whether they are a name's, and whether the name goes on beside it."""

from __future__ import annotations

import re

from kbengine.span import Span

_BEFORE = re.compile(r"(?<=[^\s.!?:;\"“(]) (\w[\w'’-]*) $")
_AFTER = re.compile(r"^ (\w[\w'’-]*)")
_SMALL = 3
"""Words without a capital letter of so many letters stand in names as well: "of", "da", "the"."""


def n_words(text: str) -> int:
    """Return how many words a phrase has: numbers count only where there is no other word.

    Example:
        >>> n_words("7 November 1867"), n_words("1867"), n_words("Albert Einstein")
        (1, 1, 2)
    """
    words = text.split()
    return sum(not any(each.isdigit() for each in word) for word in words) or len(words)


def proper_share(text: str) -> float:
    """Return which share of the words of a phrase, 0 to 1, are written as those of a name or number.

    Small words count only where there are no others; what is written without letter case counts as a name.

    Example:
        >>> proper_share("University of Paris"), proper_share("a leaky shed"), proper_share("7 November 1867")
        (1.0, 0.0, 1.0)
    """
    words = text.split()
    counted = [each for each in words if len(each) > _SMALL or not each[0].islower()] or words
    return sum(not each[0].islower() for each in counted) / max(1, len(counted))


def is_cut(text: str, span: Span) -> bool:
    """Tell whether a name or number seems to go on beside a span: a word that begins with a capital or a digit.

    A word that begins a sentence has its capital from there and does not count.

    Example:
        >>> text = "In 1895 she married Pierre Curie."
        >>> is_cut(text, Span(20, 26)), is_cut(text, Span(20, 32)), is_cut(text, Span(3, 7))
        (True, False, False)
    """
    before, after = _BEFORE.search(text, max(0, span.start - 60), span.start), _AFTER.search(text[span.end :][:60])
    return any(match is not None and not match[1][0].islower() for match in (before, after))
