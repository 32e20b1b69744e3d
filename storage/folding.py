"""Names as keys: what makes two spellings the same name, exactly, in other letters' case, or without accents.

Each form is coarser than the one before, so equal exact forms have equal case keys, and equal case keys have equal
accent keys: one index over accent keys finds all three, and comparing tells which it was.

Case keys are Unicode's own: NFKC and full case folding, so that "STRASSE" is "straße" and full-width letters are
ordinary ones. Accent keys leave out the marks of Latin, Greek, Cyrillic, Hebrew and Arabic letters, never those that
make another letter (the vowel signs of Indic scripts, the voicing marks of Japanese), and write letters that Unicode
does not decompose by their base letter: those called "letter X with …" (ø, ł, đ, ħ) by rule, the rest by the table
below. Other scripts are not transliterated: that would make one name of many.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Literal

__all__ = ["FORMS", "Form", "accent_key", "case_key", "folded_text", "matching_form", "spelling"]

Form = Literal["exact", "case", "accent"]
FORMS: tuple[Form, ...] = ("exact", "case", "accent")
"""How a name can match, the best first."""

# Combining marks that are accents or vowel points; `storage.terms` drops the same ones.
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]")
_LETTER_WITH = re.compile(r"LATIN SMALL LETTER ([A-Z]) WITH ")
# Lower-case letters and signs without a decomposition, as people write them who have not got them on the keyboard.
_SUBSTITUTES = (
    {"æ": "ae", "œ": "oe", "ß": "ss", "þ": "th", "ð": "d", "ı": "i", "ȷ": "j", "ŋ": "ng", "ĸ": "k", "ə": "a"}
    | dict.fromkeys("‘’‚‛′ʹʻʼʽˈʾʿ", "'")
    | dict.fromkeys("“”„‟″«»", '"')
    | dict.fromkeys("‐‑‒–—―−", "-")
    | {"\u00ad": ""}  # a hyphen that is only seen at the end of a line
)


class _Letters(dict[int, str]):
    """What `str.translate` writes for a character, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        found = _LETTER_WITH.match(unicodedata.name(letter, ""))
        self[code] = found[1].lower() if found else letter
        return self[code]


_LETTERS = _Letters({ord(letter): written for letter, written in _SUBSTITUTES.items()})


def spelling(text: str) -> str:
    """Return the text as it is compared exactly: composed (NFC), blanks at the ends dropped, others one space each."""
    return " ".join(text.split()) if text.isascii() else " ".join(unicodedata.normalize("NFC", text).split())


@lru_cache(maxsize=50_000)
def case_key(text: str) -> str:
    """Return the text with differences of case, width and other compatibility forms folded; empty for a blank one."""
    return _case_folded(text)


@lru_cache(maxsize=50_000)
def accent_key(text: str) -> str:
    """Return the case key with accents folded, too."""
    return folded_text(text)


def folded_text(text: str) -> str:
    """Return what `accent_key` does, for whole texts: nothing of them is kept in memory."""
    key = _case_folded(text)
    if key.isascii():
        return key
    plain = _MARKS.sub("", unicodedata.normalize("NFD", key)).translate(_LETTERS)
    return " ".join(unicodedata.normalize("NFC", plain).split())


def _case_folded(text: str) -> str:
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def matching_form(name: str, alias: str) -> Form | None:
    """Return the best form in which both are the same name, None when in none."""
    if spelling(name) == spelling(alias):
        return "exact"
    if case_key(name) == case_key(alias):
        return "case"
    return "accent" if accent_key(name) == accent_key(alias) else None
