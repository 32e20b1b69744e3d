"""Text as lexical terms: lower case, accents folded, English stop words dropped, stemmed; hashed to 64 bits.

Passages and queries go through the same functions, so what is indexed is what is asked for. Changing anything
here changes what stored segments mean: count `TERMS_VERSION` up then.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from functools import lru_cache

import Stemmer

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
_stemmers = threading.local()  # a stemmer object is not safe in two threads at once


def terms_of(text: str) -> list[str]:
    """Return the text's terms in order, with repetitions; a text of stop words only keeps them ("The Who")."""
    words = plain_words(text)
    kept = [word for word in words if word not in STOP_WORDS]
    return [_stem(word) for word in kept or words]


def title_terms(title: str) -> list[str]:
    """Return the terms under which a title is indexed as a title: one for each distinct word, and its names as wholes.

    The names are the whole title and the title without a trailing qualifier: "Mercury (element)" and
    "Lincoln, Nebraska" are also "mercury" and "lincoln". They are no words of the text: other queries never meet them.
    """
    words = [_TITLE_WORD + term for term in dict.fromkeys(terms_of(title))]
    names = [name_term(name) for name in names_of_title(title) if plain_words(name)]
    return words + list(dict.fromkeys(names))


def names_of_title(title: str) -> list[str]:
    """Return the whole title and, where it has a qualifier at its end, the title without it."""
    return list(dict.fromkeys((title, _QUALIFIER.sub("", title))))


def title_word_terms(text: str) -> list[str]:
    """Return the terms that find titles with words of the text, one for each distinct word."""
    return [_TITLE_WORD + term for term in dict.fromkeys(terms_of(text))]


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
        folded = _MARKS.sub("", unicodedata.normalize("NFKD", text))
        # Lowered again: compatibility forms such as "™" become capitals.
        text = unicodedata.normalize("NFC", folded).lower().replace("’", "'")
    if "'" in text:
        text = _CONTRACTION.sub(" ", text)
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


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    stemmer = getattr(_stemmers, "english", None)
    if stemmer is None:
        stemmer = _stemmers.english = Stemmer.Stemmer("english", 0)
    stem: str = stemmer.stemWord(word)
    return stem
