"""How often a word that may be a name is one where a knowledge base's texts say it.

Counted from the texts of links where there are some, else from capital letters in the middle of sentences: "reading" is
mostly written small, "Turku" never.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from storage.terms import STOP_WORDS, terms_of

if TYPE_CHECKING:
    from kbengine.search.records import Records

READ_PASSAGES = 24
"""Passages in which is looked how a word is written."""
UNSEEN = 0.5
"""The share of a word that no passage says in the middle of a sentence."""


class Usage:
    """Shares of names among the occurrences of words, each counted once."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._shares: dict[str, float] = {}

    def share(self, word: str) -> float:
        """Return the share of the word's occurrences that name something, 0 to 1."""
        key = word.lower()
        if key not in self._shares:
            self._shares[key] = self._counted(key)
        return self._shares[key]

    def of_name(self, words: Iterable[str]) -> float:
        """Return the largest share of a name's words, stop words left out: "New York" names by "York"."""
        return max((self.share(word) for word in words if word.lower() not in STOP_WORDS), default=1.0)

    def _counted(self, word: str) -> float:
        terms = terms_of(word)
        if len(terms) != 1:
            return UNSEEN
        n_passages = self._records.n_passages_with(terms[0])
        anchors = [
            record.uses
            for record in self._records.list_aliases(prefix=word, source="anchor", limit=20)
            if record.alias.lower() == word
        ]
        if anchors:
            return min(1.0, sum(anchors) / max(1, n_passages))
        step = max(1, n_passages // READ_PASSAGES)
        ids = self._records.passages_with(terms[0], range(0, n_passages, step)[:READ_PASSAGES])
        pattern = re.compile(rf"(?<=[\w,;] )({re.escape(word)})(?!\w)", re.IGNORECASE)
        seen = [found for text in self._records.passage_texts(ids).values() for found in pattern.findall(text)]
        if not seen:
            return UNSEEN
        return sum(not found[0].islower() for found in seen) / len(seen)
