"""The words of a text with what is seen of each: where it stands, how it is written, whether it begins a sentence."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kbengine.span import Span
from storage.terms import STOP_WORDS, plain_words

_WORD = re.compile(r"(?:[^\W\d_]\.){2,}|[^\W_]+(?:['’](?!s\b|S\b)[^\W_]+)*")
"""Letters and digits; initials with their full stops ("U.S.") are one word, and so is what an apostrophe joins."""
_JOINT = re.compile(r"[ \u00a0]|, |-|–|/|&| & |\. |\.|['’]s |\n")
"""What may stand between two words of one name."""
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)]*\s|\n\s*\n|[\"“”]\s*$|\n[\W_]*$")
SURELY_NO_NAMES = STOP_WORDS | {"mr", "mrs", "ms", "dr", "said", "says"}


@dataclass(frozen=True)
class Word:
    """One word of a text.

    Attributes:
        span: Where it stands.
        text: As it stands there.
        begins: Whether it begins a sentence, a line or a quotation: a capital letter then says little.
        joins: Whether it may be of one name with the word before it.
    """

    span: Span
    text: str
    begins: bool
    joins: bool

    @property
    def is_capitalised(self) -> bool:
        """Return whether it begins with a capital letter, or with a digit before one ("3M")."""
        return self.text[0].isupper() or (self.text[0].isdigit() and any(map(str.isupper, self.text)))

    @property
    def is_shouted(self) -> bool:
        """Return whether it has several letters, all of them capital."""
        return len(self.text) > 1 and self.text.isupper()

    @property
    def is_stop_word(self) -> bool:
        """Return whether it says nothing by itself."""
        return self.text.lower() in SURELY_NO_NAMES or not plain_words(self.text)


def words_of(text: str) -> list[Word]:
    """Return the words of a text in order.

    >>> [(word.text, word.begins) for word in words_of("It rained. The U.S. won.")]
    [('It', True), ('rained', False), ('The', True), ('U.S.', False), ('won', False)]
    """
    words: list[Word] = []
    end = 0
    for match in _WORD.finditer(text):
        between = text[end : match.start()]
        begins = not words or bool(_SENTENCE_END.search(between))
        if begins and words and between == ". " and _is_abbreviated(words[-1].text):
            begins = False
        joins = bool(words) and _JOINT.fullmatch(between) is not None and not begins
        words.append(Word(Span(match.start(), match.end()), match.group(), begins, joins))
        end = match.end()
    return words


_ABBREVIATED = frozenset(
    """
    mr mrs ms dr st sen rep gov gen col prof jr sr inc corp co ltd no vs
    """.split()  # noqa: SIM905
)


def _is_abbreviated(word: str) -> bool:
    """Tell whether a full stop after the word rather belongs to it than ends a sentence."""
    return len(word) == 1 or word.lower() in _ABBREVIATED
