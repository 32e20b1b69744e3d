"""The languages of documents, and the stems of their words.

English is the language of what names none. Words of the others are stemmed as they are spelt and folded afterwards:
the endings that stemmers know have their accents.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import lru_cache

import Stemmer

__all__ = ["ENGLISH", "STEMMED", "language_of", "stem"]

ENGLISH = "en"
STEMMED = frozenset(
    (
        *("ar", "ca", "cs", "da", "de", "el", "en", "eo", "es", "et", "eu", "fa", "fi", "fr", "ga", "hi", "hu", "hy"),
        *("id", "it", "lt", "ne", "nl", "no", "pl", "pt", "ro", "ru", "sr", "st", "sv", "ta", "tr", "yi"),
    )
)
"""Languages whose words are stemmed by rules of their own (Snowball); those of others by the English ones."""
_CODE = re.compile("[a-z]{2,3}")
_SAME = {"nb": "no", "nn": "no"}
_stemmers = threading.local()  # a stemmer object is not safe in two threads at once


def language_of(meta: Mapping[str, object]) -> str:
    """Return the language code that a document's fields name as `language`, without its region; English without one.

    >>> language_of({"language": "de-AT"}), language_of({})
    ('de', 'en')
    """
    named = meta.get("language")
    code = named.replace("_", "-").partition("-")[0].strip().lower() if isinstance(named, str) else ""
    code = _SAME.get(code, code)
    return code if _CODE.fullmatch(code) else ENGLISH


@lru_cache(maxsize=200_000)
def stem(word: str, language: str = ENGLISH) -> str:
    """Return the stem of a word in small letters, by the rules of one of the `STEMMED` languages.

    >>> stem("composers"), stem("häusern", "de")
    ('compos', 'haus')
    """
    known: dict[str, Stemmer.Stemmer] | None = getattr(_stemmers, "known", None)
    if known is None:
        known = _stemmers.known = {}
    if language not in known:
        known[language] = Stemmer.Stemmer(language, 0)
    found: str = known[language].stemWord(word)
    return found
