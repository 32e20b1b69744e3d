"""Text as lexical terms: lower case, accents folded, English stop words dropped, stemmed; hashed to 64 bits.

Passages and queries go through the same functions, so what is indexed is what is asked for. Changing anything
here changes what stored segments mean: count `TERMS_VERSION` up then.

Words are stemmed by the rules of the document's language. A query has none: it is asked with the stems of English and
of each language that documents have (`LANGUAGE_TERMS` tells which).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from storage.languages import ENGLISH, STEMMED, stem

TERMS_VERSION = "1"
SPOTTED_NAME_WORDS = 5
"""Longest title, in words, that is spotted in running text."""

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between both but
    by can could did do does doing down during each few for from further had has have having he her here hers him
    his how i if in into is it its itself just me more most my no nor not of off on once only or other our ours out
    over own same she should so some such than that the their theirs them then there these they this those through
    to too under until up us very was we were what when where which while who whom whose why will with would you
    your yours
    """.split()  # noqa: SIM905 - a list of 150 quoted words is unreadable
)
"""English words that say nothing by themselves, as `plain_words` writes them."""
# Vowel points and accents: Latin, Greek and Cyrillic combining marks, Hebrew points, Arabic harakat.
_MARKS = re.compile("[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f\u0670]")
_CONTRACTION = re.compile(r"n?'(?:s|t|d|m|ll|re|ve)\b")
# Scripts written without spaces between words (Hangul has spaces, but agglutinates): indexed as character pairs.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\U00020000-\U000323af"
)
# Indic vowel signs are no \w of Python's, yet belong to the word.
_WORDS = re.compile(f"(?P<unspaced>[{_UNSPACED}]+)|(?:(?![{_UNSPACED}])(?:[^\\W_]|[\u0900-\u0dff]))+")
_ASCII_WORDS = re.compile("[a-z0-9]+")
_TITLE_WORD = "\x01title:"
_TITLE_NAME = "\x01name:"
_QUALIFIER = re.compile(r"(?:\s*\([^()]*\)|,\s[^,]*)$")
LANGUAGE_TERMS = {code: f"\x01language:{code}" for code in sorted(STEMMED - {ENGLISH})}
"""The term that each passage in a language other than English has, so that it is known which there are."""


def terms_of(text: str, language: str = ENGLISH) -> list[str]:
    """Return the text's terms in order, with repetitions; a text of stop words only keeps them ("The Who").

    Args:
        text: Any.
        language: By whose rules its words are stemmed; by the English ones where it has none of its own.
    """
    if language == ENGLISH or language not in STEMMED:
        words = plain_words(text)
        kept = [word for word in words if word not in STOP_WORDS]
        return [stem(word) for word in kept or words]
    composed = unicodedata.normalize("NFKC", text.lower()).lower()
    spelt = [(word, _folded(word)) for word in _split(_without_contractions(composed))]
    return [_folded(stem(word, language)) for word, plain in spelt if plain not in STOP_WORDS] or [
        _folded(stem(word, language)) for word, _ in spelt
    ]


def query_terms(text: str, languages: Sequence[str] = ()) -> list[str]:
    """Return the terms that find a text in documents in English and in some other languages, each once."""
    found = dict.fromkeys(terms_of(text))
    for language in languages:
        found |= dict.fromkeys(terms_of(text, language))
    return list(found)


def title_terms(title: str, language: str = ENGLISH) -> list[str]:
    """Return the terms under which a title is indexed as a title: one for each distinct word, and its names as wholes.

    The names are the whole title and the title without a trailing qualifier: "Mercury (element)" and
    "Lincoln, Nebraska" are also "mercury" and "lincoln". They are no words of the text: other queries never meet them.
    """
    words = [_TITLE_WORD + term for term in dict.fromkeys(terms_of(title, language))]
    names = [name_term(name) for name in names_of_title(title) if plain_words(name)]
    return words + list(dict.fromkeys(names))


def names_of_title(title: str) -> list[str]:
    """Return the whole title and, where it has a qualifier at its end, the title without it."""
    return list(dict.fromkeys((title, _QUALIFIER.sub("", title))))


def title_word_terms(text: str, languages: Sequence[str] = ()) -> list[str]:
    """Return the terms that find titles with words of the text, in English and in some other languages, each once."""
    return [_TITLE_WORD + term for term in query_terms(text, languages)]


def name_term(name: str) -> str:
    """Return the term that finds titles which are this name as a whole; case, accents and punctuation do not count."""
    return _TITLE_NAME + " ".join(plain_words(name))


def spotted_name_terms(text: str) -> list[str]:
    """Return the terms that find titles which stand in a text as a whole: one for each run of up to five of its words.

    Runs of stop words alone are left out ("It", "Her"): as titles they are rare, as words they are everywhere.
    """
    words = plain_words(text)
    is_content = [word not in STOP_WORDS for word in words]
    runs = dict.fromkeys(
        " ".join(words[start : start + n])
        for n in range(1, SPOTTED_NAME_WORDS + 1)
        for start in range(len(words) - n + 1)
        if any(is_content[start : start + n])
    )
    return [_TITLE_NAME + run for run in runs]


def is_title_term(term: str) -> bool:
    """Return whether a term is about titles: those count fully or not at all, whatever the passage's length."""
    return term.startswith((_TITLE_WORD, _TITLE_NAME))


@lru_cache(maxsize=200_000)
def term_hash(term: str) -> int:
    """Return the term's 64-bit hash (blake2b), under which it is stored."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def plain_words(text: str) -> list[str]:
    """Return the text's words as terms are made of them: lower case, accents and contractions ("'s") left out."""
    text = text.lower()
    if not text.isascii():
        text = _folded(text)
    return _split(_without_contractions(text))


def _folded(text: str) -> str:
    """Return a text in small letters without accents."""
    if text.isascii():
        return text
    folded = _MARKS.sub("", unicodedata.normalize("NFKD", text))
    # Lowered again: compatibility forms such as "™" become capitals.
    return unicodedata.normalize("NFC", folded).lower()


def _without_contractions(text: str) -> str:
    """Return a text in small letters without what contractions add to words."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text).replace("’", "'")
    return _CONTRACTION.sub(" ", text) if "'" in text else text


def _split(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    if text.isascii():
        return _ASCII_WORDS.findall(text)
    words: list[str] = []
    for match in _WORDS.finditer(text):
        word = match.group()
        if match.lastgroup == "unspaced" and len(word) > 2:
            words += [word[start : start + 2] for start in range(len(word) - 1)]
        else:
            words.append(word)
    return words
