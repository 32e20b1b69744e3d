"""Words of a text with their places, in any script, and which of them only hold a sentence together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from storage.terms import STOP_WORDS

# Scripts written without spaces: one character counts as one word there (Han, kana, Thai, Lao, Khmer, Burmese).
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1780-\u17ff\u1000-\u109f"
_WORD: Final = re.compile(rf"[{_UNSPACED}]|(?:(?![{_UNSPACED}])\w)+(?:['’\-.](?:(?![{_UNSPACED}])\w)+)*")


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text separated by blanks."""
    return frozenset(words.split())


_ENGLISH: Final = """
    against along although among another around became become behind beneath either else even ever every however least
    less like made make many may might much must near neither now one onto per quite rather several shall since
    themselves though thus together toward towards upon used via well whether within without yet
"""

FUNCTION_WORDS: Final[dict[str, frozenset[str]]] = {"en": STOP_WORDS | word_set(_ENGLISH)}
"""Function words by language: what search leaves out, and more; elsewhere words of fewer than four letters."""

_SHORT_CHARS: Final = 4


class Word(NamedTuple):
    """One word of a text: half-open character offsets."""

    start: int
    end: int


def words_of(text: str, start: int = 0, end: int | None = None) -> list[Word]:
    """Return the words of `text[start:end]`, in order, with offsets into `text`.

    A word is letters and digits, with inner apostrophes, hyphens and points; in scripts without spaces, a character.
    """
    return [Word(*match.span()) for match in _WORD.finditer(text, start, len(text) if end is None else end)]


def is_function_word(word: str, language: str) -> bool:
    """Return whether a word says little by itself: from the language's list, else by being short."""
    known = FUNCTION_WORDS.get(language)
    if known is not None:
        return word.lower() in known
    return len(word) < _SHORT_CHARS and word.isalpha() and not is_unspaced(word)


def is_unspaced(word: str) -> bool:
    """Return whether the word is a character of a script without spaces."""
    return re.fullmatch(f"[{_UNSPACED}]+", word) is not None


def is_capitalised(word: str) -> bool:
    """Return whether the word begins with a capital; always false in scripts without case."""
    return word[:1].isupper() or word[:1].istitle()


def joined(text: str, words: Sequence[Word]) -> str:
    """Return the words as one text: a space between them, none where the text itself has nothing between them."""
    parts: list[str] = []
    before: Word | None = None
    for word in words:
        if before is not None and not (before.end == word.start and is_unspaced(text[word.start : word.end])):
            parts.append(" ")
        parts.append(text[word.start : word.end])
        before = word
    return "".join(parts)


def context_around(text: str, start: int, end: int, n_chars: int) -> tuple[str, str]:
    """Return the text before `start` and after `end`, at most `n_chars` characters each, cut at blanks."""
    begin = max(0, start - n_chars)
    if begin > 0 and not text[begin - 1].isspace():
        begin = text.find(" ", begin, start) + 1 or begin
    stop = min(len(text), end + n_chars)
    if stop < len(text) and not text[stop].isspace():
        cut = text.rfind(" ", end, stop)
        stop = cut if cut >= 0 else stop
    return text[begin:start], text[end:stop]
