"""Spans of a text that may be mentions: names that the knowledge base knows, and runs of capitalised words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.annotating.words import Word
from kbengine.span import Span

if TYPE_CHECKING:
    from kbengine.search.known_names import KnownNames

LONGEST_NAME = 6
"""Words of the longest known name that is looked for."""
LONGEST_LOWER = 3
"""Words of the longest one that has no capital letter."""
LONGEST_RUN = 8
"""Words of the longest run of capitalised ones that is taken for an unknown name."""
_CONNECTING = frozenset(
    """
    of de la le du van von der den di da del al bin & and the
    """.split()  # noqa: SIM905
)
_LEGAL_FORMS = frozenset(
    """
    inc corp co ltd plc llc ag sa nv gmbh spa incorporated corporation company limited
    """.split()  # noqa: SIM905
)
_TITLES_OF_PEOPLE = frozenset(
    """
    president king queen prince princess pope saint sir lord lady chancellor premier minister senator governor
    mayor general colonel captain professor secretary chairman judge mr mrs ms dr
    """.split()  # noqa: SIM905
)
_NAME_JOINTS = frozenset((" ", "\u00a0", "-", "–", "&", " & ", ". ", "/", "."))


@dataclass(frozen=True)
class Spotted:
    """A span that may be a mention.

    Attributes:
        span: Where it stands in the text.
        name: What it is looked up by: without a company's legal form.
        words: Its words.
        is_known: Whether the knowledge base knows the name.
        is_inside: Whether it stands within a longer span that may be a mention.
    """

    span: Span
    name: str
    words: tuple[Word, ...]
    is_known: bool
    is_inside: bool = False

    @property
    def is_lower(self) -> bool:
        """Return whether none of its words has a capital letter."""
        return not any(word.is_capitalised for word in self.words)


def spot(text: str, words: Sequence[Word], names: KnownNames) -> list[Spotted]:
    """Return the spans of the text that may be mentions, by where they begin, the longer first; they may overlap."""
    ranges = [(i, j) for i in range(len(words)) for j in _ends(words, i) if _may_be_name(words[i:j])]
    spelt = {(i, j): text[words[i].span.start : words[j - 1].span.end] for i, j in ranges}
    known = names.titled(spelt.values())
    capital = {name for (i, j), name in spelt.items() if any(word.is_capitalised for word in words[i:j])}
    known |= names.aliased(capital - known)
    longest = _not_within([pair for pair in ranges if spelt[pair] in known])
    known_at = {(i, _with_legal_form(text, words, i, j)): spelt[i, j] for i, j in longest}
    runs = [(i, _with_legal_form(text, words, i, j)) for i, j in _runs(text, words)]
    variants = [each for run in runs for each in _variants(words, *run)]
    found = {
        pair: Spotted(_span(words, pair), name, tuple(words[slice(*pair)]), True) for pair, name in known_at.items()
    }
    for pair in (*runs, *variants):
        if not any(_holds(other, pair) for other in known_at):
            span = _span(words, pair)
            found.setdefault(pair, Spotted(span, text[span.start : span.end], tuple(words[slice(*pair)]), False))
    longer = [pair for pair in found if pair not in variants]
    ordered = sorted(found, key=lambda pair: (pair[0], -pair[1]))
    return [
        replace(
            found[pair],
            is_inside=pair not in variants and any(_holds(other, pair) for other in longer if other != pair),
        )
        for pair in ordered
    ]


def _span(words: Sequence[Word], pair: tuple[int, int]) -> Span:
    return Span(words[pair[0]].span.start, words[pair[1] - 1].span.end)


def _holds(outer: tuple[int, int], inner: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _ends(words: Sequence[Word], start: int) -> Iterable[int]:
    """Yield the ends of the runs of words from `start` that may be one name."""
    for end in range(start + 1, min(start + LONGEST_NAME, len(words)) + 1):
        if end > start + 1 and not words[end - 1].joins:
            return
        yield end


def _may_be_name(words: Sequence[Word]) -> bool:
    """Tell whether the words are worth looking up as a name."""
    first, last = words[0], words[-1]
    if not any(word.is_capitalised for word in words):
        return len(words) <= LONGEST_LOWER and not first.is_stop_word and not last.is_stop_word
    if all(word.is_stop_word for word in words):
        # "The Who" in the middle of a sentence, and "US" or "IT", but neither "It" nor "The" at its beginning.
        return all(word.is_capitalised and not word.begins for word in words) and (len(words) > 1 or last.is_shouted)
    return not (last.is_stop_word and not last.is_capitalised) and not (first.is_stop_word and not first.is_capitalised)


def _not_within(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges that do not lie within another one."""
    kept: list[tuple[int, int]] = []
    reach = 0
    for i, j in sorted(ranges, key=lambda each: (each[0], -each[1])):
        if j > reach:
            kept.append((i, j))
            reach = j
    return kept


def _runs(text: str, words: Sequence[Word]) -> Iterable[tuple[int, int]]:
    """Yield the runs of capitalised words, as long as they go; small words may stand within them."""
    i = 0
    while i < len(words):
        if not words[i].is_capitalised or words[i].is_stop_word:
            i += 1
            continue
        end = j = i + 1
        while j < len(words) and j - i < LONGEST_RUN and words[j].joins and _joins_names(text, words, j):
            if words[j].is_capitalised and not words[j].is_stop_word:
                end = j + 1
            elif words[j].text.lower() not in _CONNECTING or _is_lone_article(words, j):
                break
            j += 1
        if not (end == i + 1 and (len(words[i].text) == 1 or words[i].text.isdigit())):
            yield i, end
        i = end


def _variants(words: Sequence[Word], start: int, end: int) -> Iterable[tuple[int, int]]:
    """Yield what a run may be instead: without what somebody is called by, or one of two joined by "and".

    "President Reagan" is Reagan, and "Paris and London" are two, but "Morgan Stanley and Co" is one. The first word
    of a sentence has its capital letter from there: "Yesterday Reagan".
    """
    if end - start > 1 and (words[start].begins or words[start].text.lower() in _TITLES_OF_PEOPLE):
        yield start + 1, end
    ands = [at for at in range(start + 1, end - 1) if words[at].text.lower() == "and"]
    if ands:
        yield start, ands[0]
        yield ands[-1] + 1, end


def _is_lone_article(words: Sequence[Word], place: int) -> bool:
    """Tell whether an article does not follow another small word: "Bank of the West", but not "Yesterday the Bank"."""
    return words[place].text.lower() == "the" and words[place - 1].text.lower() not in _CONNECTING


def _joins_names(text: str, words: Sequence[Word], place: int) -> bool:
    return text[words[place - 1].span.end : words[place].span.start] in _NAME_JOINTS


def _with_legal_form(text: str, words: Sequence[Word], start: int, end: int) -> int:
    """Return the end of the name with a company's legal form after it: "Texaco" of "Texaco Inc"."""
    while (
        end < len(words)
        and words[start].is_capitalised
        and words[end].is_capitalised
        and words[end].joins
        and words[end].text.lower() in _LEGAL_FORMS
        and text[words[end - 1].span.end : words[end].span.start] in (" ", " & ", ", ")
    ):
        end += 1
    return end
