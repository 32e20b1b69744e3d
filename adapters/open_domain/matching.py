"""When a text holds an answer and when an answer is right, as DrQA and DPR decide it.

A passage holds an answer when the answer's tokens stand in it in a row, whatever their case; a token is a run of
letters, digits and marks, or any other visible character, of the text in Unicode's decomposed form (NFD). A regular
expression (CuratedTREC) has only to be found in the passage, and to match an answer from its first character.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence

import regex

from kbengine.learning.reading.answer_scores import exact_match

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")
_FLAGS = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
# No token holds it: it is a control character.
_BETWEEN = "\x1f"


class AnswerMatcher:
    """The right answers to one question, ready to be looked for.

    >>> AnswerMatcher(["Józef Piłsudski"]).is_in("It was led by JÓZEF PIŁSUDSKI.")
    True
    >>> AnswerMatcher([r"19\\d\\d"], is_pattern=True).is_right("1934 in Warsaw")
    True
    """

    def __init__(self, answers: Sequence[str], *, is_pattern: bool = False) -> None:
        """Take the answers; with `is_pattern` they are regular expressions.

        One that is no regular expression matches nothing, as in the published evaluations; `broken` names it.
        """
        self._answers = tuple(map(_decomposed, answers))
        self._patterns = tuple(map(_compiled, self._answers)) if is_pattern else None
        self._rows = () if is_pattern else tuple(map(_token_row, self._answers))

    @property
    def broken(self) -> tuple[str, ...]:
        """Return the answers that are no regular expressions though they should be."""
        patterns = self._patterns or ()
        return tuple(answer for answer, pattern in zip(self._answers, patterns, strict=False) if pattern is None)

    def is_in(self, text: str) -> bool:
        """Tell whether one of the answers stands in the text."""
        text = _decomposed(text)
        if self._patterns is not None:
            return any(pattern.search(text) is not None for pattern in self._patterns if pattern is not None)
        row = _token_row(text)
        return any(answer in row for answer in self._rows)

    def is_right(self, guess: str) -> bool:
        """Tell whether the guess is one of the answers (exact match), or matched by one from its beginning."""
        guess = _decomposed(guess)
        if self._patterns is not None:
            return any(pattern.match(guess) is not None for pattern in self._patterns if pattern is not None)
        return any(exact_match(guess, answer) for answer in self._answers)


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def _token_row(text: str) -> str:
    """Return the tokens of a decomposed text between separators, so that rows of tokens are substrings."""
    tokens = (token.lower() for token in _TOKEN.findall(text))
    return _BETWEEN + "".join(token + _BETWEEN for token in tokens)


@functools.lru_cache(maxsize=4096)
def _compiled(pattern: str) -> regex.Pattern[str] | None:
    try:
        return regex.compile(pattern, _FLAGS)
    except regex.error:
        return None
