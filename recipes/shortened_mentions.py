"""Mentions that are ambiguous, and whose meaning is known: full names in running text, cut to what is shared.

Where a page says "Freddie Mercury" in full, the page meant is certain. Said as "Mercury" alone the same sentence is
about the same page, and only the text around the name tells it from the planet. So pages without any links give
examples of what linking finds hardest. Pages that may not be trained on give neither text nor meaning.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kbengine.corpus.document import CorpusDocument
from kbengine.inputs import Mention
from kbengine.learning.data.examples import TrainingExample
from kbengine.span import Span

SOURCE = "shortened"
_WORD = re.compile(r"[^\W_][\w'’.\-]*[\w]|\w")
_MAX_WORDS = 4
_AROUND_CHARS = 700
_COMMON = 10
"""A word that so many passages write in lower case is no name."""


@dataclass(frozen=True)
class ShortenedOptions:
    """How many are made.

    Attributes:
        per_page: Of the text of one page at most.
        per_meaning: That mean the same page at most.
        whole_share: Share of mentions that keep the whole name, where other pages have it too, so that a page called
            by nothing but the shared name is still what it mostly means.
        seed: Of what is drawn.
    """

    per_page: int = 3
    per_meaning: int = 3
    whole_share: float = 0.25
    seed: int = 0


@dataclass(frozen=True, slots=True)
class _Meaning:
    """A page, and what of its title is shared with other pages."""

    document: CorpusDocument
    short: str


def shortened_mentions(
    documents: Iterable[CorpusDocument],
    *,
    exclude: frozenset[str] = frozenset(),
    options: ShortenedOptions | None = None,
) -> list[TrainingExample]:
    """Return the mentions of a corpus, in the order of its pages.

    Args:
        documents: the corpus.
        exclude: ids of pages that may not be trained on.
        options: how many are made.

    >>> page = lambda title, text: CorpusDocument(title, title, passages=(CorpusPassage(0, text),))
    >>> from kbengine.corpus.document import CorpusPassage
    >>> pages = [page("Paris, Texas", "A town."), page("Paris", "A city."), page("Dallas", "Near Paris, Texas.")]
    >>> [(each.query.text, each.title) for each in shortened_mentions(pages)]
    [('Near Paris.', 'Paris, Texas')]
    """
    options = options or ShortenedOptions()
    pages = list(documents)
    meanings, shared = _meanings(pages), _shared(pages)
    usable = {title: each for title, each in meanings.items() if each.document.doc_id not in exclude}
    rng, counts = random.Random(options.seed), Counter[str]()
    found: list[TrainingExample] = []
    for page in pages:
        if page.doc_id in exclude:
            continue
        places = [each for each in _places(page, usable, shared) if each.meaning.document.doc_id != page.doc_id]
        rng.shuffle(places)
        taken: set[str] = set()
        for place in places:
            meaning = place.meaning.document
            is_whole = place.meaning.short == meaning.title
            if is_whole and rng.random() >= options.whole_share:
                continue
            if (
                len(taken) < options.per_page
                and meaning.doc_id not in taken
                and counts[meaning.doc_id] < options.per_meaning
            ):
                taken.add(meaning.doc_id)
                counts[meaning.doc_id] += 1
                found.append(_example(place, len(found)))
    return found


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a full name stands in a passage."""

    meaning: _Meaning
    text: str
    span: Span


def _short_of(title: str) -> str | None:
    """Return the part of a title that stands for the whole in running text: a surname, a place without its state."""
    if "(" in title:
        return None
    place, comma, _ = title.partition(", ")
    if comma:
        return place
    words = title.split()
    is_name = 2 <= len(words) <= 3 and all(word[0].isupper() and word.isalpha() for word in words)
    return words[-1] if is_name else title if len(words) == 1 and title[0].isupper() else None


def _meanings(pages: Sequence[CorpusDocument]) -> dict[str, _Meaning]:
    """Return by their titles the pages that have text, a title of their own, and a short form of it."""
    counts, words = Counter(page.title for page in pages), _written_small(pages)
    found = {}
    for page in pages:
        short = _short_of(page.title)
        if short is None or len(short) < 3 or short.isupper() or words[short.lower()] >= _COMMON:
            continue
        if counts[page.title] == 1 and page.passages:
            found[page.title] = _Meaning(page, short)
    return found


def _written_small(pages: Sequence[CorpusDocument]) -> Counter[str]:
    """Return how many passages have each word in lower case: a "Bridge" or a "Day" is rarely short for anything."""
    found = Counter[str]()
    for page in pages:
        for passage in page.passages:
            found.update({word for word in _WORD.findall(passage.text) if word.islower()})
    return found


def _shared(pages: Iterable[CorpusDocument]) -> frozenset[str]:
    """Return the names that several pages can be called by."""
    by_name: defaultdict[str, int] = defaultdict(int)
    for page in pages:
        bare = re.sub(r"\s*\([^)]*\)$", "", page.title)
        for name in {bare, _short_of(bare) or bare}:
            by_name[name] += 1
    return frozenset(name for name, n in by_name.items() if n > 1)


def _places(page: CorpusDocument, meanings: dict[str, _Meaning], shared: frozenset[str]) -> Iterator[_Place]:
    """Find the full names in a page's text, the longest at each place, those whose short form is shared."""
    for passage in page.passages:
        words = [(match.start(), match.end()) for match in _WORD.finditer(passage.text)]
        at = 0
        while at < len(words):
            step = 1
            if passage.text[words[at][0]].isupper():
                for n in range(min(_MAX_WORDS, len(words) - at), 0, -1):
                    begin, end = words[at][0], words[at + n - 1][1]
                    meaning = meanings.get(passage.text[begin:end])
                    if meaning is not None:
                        step = n
                        if meaning.short in shared and not _goes_on(passage.text, begin, end):
                            yield _Place(meaning, passage.text, Span(begin, end))
                        break
            at += step


def _goes_on(text: str, begin: int, end: int) -> bool:
    """Return whether a name seems to begin before or end behind a place: "New" before "York City", "Jr." behind it."""
    before, behind = text[:begin].rstrip().rpartition(" ")[2], text[end:].lstrip(" ,")[:1]
    is_name_before = before[:1].isupper() and before.isalpha() and text[begin - 1 : begin] == " "
    starts_sentence = len(text[:begin].rstrip().rpartition(" ")[0]) == 0 or text[:begin].rstrip()[-1:] in ".!?"
    return (is_name_before and not starts_sentence) or (
        (behind.isupper() or behind.isdigit()) and text[end : end + 1] in " ,"
    )


def _example(place: _Place, number: int) -> TrainingExample:
    short, target = place.meaning.short, place.meaning.document
    title = target.title
    left = place.text[max(0, place.span.start - _AROUND_CHARS) : place.span.start]
    right = place.text[place.span.end : place.span.end + _AROUND_CHARS]
    # Where the full name comes again it is cut as well: it would give the answer away.
    full = re.compile(rf"\b{re.escape(title)}\b")
    left, right = (full.sub(lambda _: short, part) for part in (left, right))
    mention = Mention(left + short + right, Span(len(left), len(left) + len(short)))
    first = target.passages[0].text
    return TrainingExample(f"{SOURCE}-{number}", mention, title, first, (), source=SOURCE, doc_id=target.doc_id)
