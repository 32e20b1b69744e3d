"""Where a phrase may begin and end: stray punctuation left out, whole words of one sentence, more than stop words.

Every phrase that is shown has been through here, whoever found it, so that all doors show the same characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from kbengine.corpus.sentences import sentence_spans
from kbengine.span import Span
from storage.languages import ENGLISH
from storage.terms import STOP_WORDS, names_of_title, plain_words

ANSWERING_WORDS = frozenset({"no"})
"""Stop words that answer by themselves all the same."""

_PLAIN = re.compile(r"[\w ,'’\-–&()]*")
"""What ends no sentence: most phrases, so that the sentences of most passages need not be found."""
# Thai, Lao, Tibetan, Myanmar, Khmer, Hangul, kana, Han: words without blanks between them, or with endings joined on.
_WITHOUT_BLANKS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_CLOSING = {close: opening for opening, close in _BRACKETS.items()}
_QUOTES = {'"': '"', "“": "”", "„": "“", "‘": "’", "'": "'", "«": "»"}
_ALWAYS_LEADING = frozenset(",;:!?…–—»”’)]}")
_ALWAYS_TRAILING = frozenset(",;:…–—-([{“‘«„'’")
_ABBREVIATIONS = frozenset(
    ("jr", "sr", "inc", "ltd", "co", "corp", "bros", "st", "dr", "mr", "mrs", "ms", "no", "mt", "ft", "gen", "col")
)


class Place(NamedTuple):
    """Characters of a passage that may be a phrase, and the title and the language of the document."""

    title: str
    text: str
    span: Span
    language: str = ENGLISH

    @property
    def sentences(self) -> Sequence[Span]:
        """The sentences of the passage."""
        return sentence_spans(self.text, self.language)


class NameLookUp(Protocol):
    """What knows names: a knowledge base's reader, or all shards of one."""

    def known_names(self, names: Collection[str]) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter."""
        ...


def bounded_spans(records: NameLookUp, places: Sequence[Place]) -> list[Span | None]:
    """Return the characters of each place that may be shown as a phrase, None where there are none.

    Stray punctuation is left out. A phrase that goes on beyond the end of a sentence is cut to the sentence that holds
    most of it. One of stop words alone is no answer, and neither is a piece of a word. What is a title or an alias of a
    live document, letter for letter, stays whole, and is an answer whatever its words are.
    """
    spans = [trimmed_span(place.text, place.span) for place in places]
    trimmed = [place._replace(span=span) for place, span in zip(places, spans, strict=True)]
    wrong = [i for i, place in enumerate(trimmed) if not may_be_shown(place)]
    names = names_among(records, [trimmed[i] for i in wrong])
    found: list[Span | None] = list(spans)
    for i, is_name in zip(wrong, names, strict=True):
        if not is_name:
            text, span = trimmed[i].text, trimmed[i].span
            cut = trimmed_span(text, _most_of(trimmed[i].sentences, span))
            found[i] = cut if says_something(text[cut.start : cut.end]) and is_of_whole_words(text, cut) else None
    return found


def names_among(records: NameLookUp, places: Sequence[Place]) -> list[bool]:
    """Tell of each place whether it is a name: a title or an alias of a live document, letter for letter.

    "It" at the start of a sentence is the pronoun, but in the document called so; elsewhere its capital tells. The
    "Java" of "Javanese" is none.
    """
    asked = names_asked(places)
    return are_names(places, records.known_names(asked) if asked else frozenset())


def names_asked(places: Sequence[Place]) -> set[str]:
    """Return the texts of places that are names if a document is called so."""
    return {
        _text(place) for place in places if is_of_whole_words(place.text, place.span) and _is_written_as_name(place)
    }


def are_names(places: Sequence[Place], known: Collection[str]) -> list[bool]:
    """Tell of each place whether it is a name, given which of `names_asked` a document is called."""
    return [
        is_of_whole_words(place.text, place.span)
        and (_text(place) in names_of_title(place.title) or (_text(place) in known and _is_written_as_name(place)))
        for place in places
    ]


def may_be_shown(place: Place) -> bool:
    """Tell whether a trimmed place is whole words of one sentence that say something; names are not looked up."""
    phrase = _text(place)
    if not is_of_whole_words(place.text, place.span) or not says_something(phrase):
        return False
    return _PLAIN.fullmatch(phrase) is not None or _is_in_one(place.sentences, place.span)


def is_of_whole_words(text: str, span: Span) -> bool:
    """Tell whether the characters begin and end where words do: not the "saki" of "Nagasaki".

    A number may leave its unit behind ("500" of "500km"). Scripts without blanks between words have no such places.
    """
    return begins_word(text, span.start) and ends_word(text, span.end)


def begins_word(text: str, start: int) -> bool:
    """Tell whether a phrase may begin at this character: it does not go on with a word."""
    if not 0 < start < len(text) or text[start - 1] == " ":
        return True
    if not (_is_of_word(text[start - 1]) and _is_of_word(text[start])):
        return True
    return _has_no_blanks(text[start - 1 : start + 1])


def ends_word(text: str, end: int) -> bool:
    """Tell whether a phrase may end before this character: the word does not go on."""
    if not 0 < end < len(text) or text[end] == " ":
        return True
    if not (_is_of_word(text[end - 1]) and _is_of_word(text[end])):
        return True
    return (text[end - 1].isdigit() and not text[end].isdigit()) or _has_no_blanks(text[end - 1 : end + 1])


def says_something(phrase: str) -> bool:
    """Tell whether a phrase, trimmed, has words beside stop words; signs without any word ("+=") count as one."""
    if not phrase or not any(character.isalnum() for character in phrase):
        return bool(phrase)
    return any(word not in STOP_WORDS or word in ANSWERING_WORDS for word in plain_words(phrase))


def trimmed_span(text: str, span: Span) -> Span:
    """Return the span without white space, stray punctuation and wrapping quotes or brackets at its ends.

    What belongs to a name or a number stays: "U.S.", "Jr.", "Yahoo!", "'s-Hertogenbosch", "-40 °C", "Java (island)".
    A span of nothing but punctuation becomes empty.
    """
    start, end = span.start, span.end
    if start < end and text[start].isalnum() and text[end - 1].isalnum():
        return span  # most phrases: nothing that is left out begins or ends with a letter or a digit
    while start < end:
        piece = text[start:end]
        if _is_wrapped(piece):
            start, end = start + 1, end - 1
        elif _is_stray_at_start(piece):
            start += 1
        elif _is_stray_at_end(piece):
            end -= 1
        else:
            break
    return Span(start, end)


def _text(place: Place) -> str:
    return place.text[place.span.start : place.span.end]


def _is_of_word(character: str) -> bool:
    return character.isalnum() or (not character.isascii() and unicodedata.category(character).startswith("M"))


def _has_no_blanks(pair: str) -> bool:
    return not pair.isascii() and _WITHOUT_BLANKS.search(pair) is not None


def _is_written_as_name(place: Place) -> bool:
    """Tell whether the place has a capital that is not just that of a sentence's first word."""
    text = _text(place)
    begins = any(sentence.start == place.span.start for sentence in place.sentences)
    return any(character.isupper() for character in text[1 if begins else 0 :])


def _is_in_one(sentences: Sequence[Span], span: Span) -> bool:
    return any(sentence.start <= span.start and span.end <= sentence.end for sentence in sentences)


def _most_of(sentences: Sequence[Span], span: Span) -> Span:
    """Return the part of the span in the sentence that holds most of it, the first of equal ones."""
    parts = [Span(max(each.start, span.start), min(each.end, span.end)) for each in sentences]
    parts = [part for part in parts if part.start < part.end]
    return max(parts, key=lambda part: part.end - part.start) if parts else span


def _is_wrapped(piece: str) -> bool:
    close = _BRACKETS.get(piece[0]) or _QUOTES.get(piece[0])
    inside = piece[1:-1]
    return len(piece) > 1 and piece[-1] == close and piece[0] not in inside and close not in inside


def _is_stray_at_start(piece: str) -> bool:
    first, following = piece[0], piece[1:2]
    if first.isspace() or first in _ALWAYS_LEADING:
        return True
    if first in _BRACKETS:
        return _BRACKETS[first] not in piece
    if first in "-.":  # "-40 °C", ".com"
        return not following.isalnum()
    if first == "'":  # "'s-Hertogenbosch"
        return not following.isalpha()
    return first in _QUOTES and piece.count(_QUOTES[first]) == (1 if _QUOTES[first] == first else 0)


def _is_stray_at_end(piece: str) -> bool:
    last = piece[-1]
    if last.isspace() or last in _ALWAYS_TRAILING:
        return True
    if last in _CLOSING:
        return _CLOSING[last] not in piece
    if last == ".":
        return not _is_abbreviation(piece.split()[-1])
    if last == '"':
        return piece.count('"') == 1
    return last in "”»" and not any(opening in piece for opening in "“„«")


def _is_abbreviation(word: str) -> bool:
    """Tell whether the word's last dot is its own: "U.S.", "Ph.D.", "Jr."; of "Malcolm X." it is the sentence's."""
    stem = word[:-1]
    return "." in stem.strip(".") or stem.lower() in _ABBREVIATIONS
