"""Which relations things of a kind usually have, by how the first sentence about one says what it is.

"… was a Polish physicist and chemist" has a place of birth, "… is an album by …" a performer. The table that ships
holds counts: of relations, of the words of such sentences, and of both together, over the subjects of training rows
and, as far as these tell, over all pages of a knowledge base (`recipes.usual_relations`). No sentence is in it.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Self

from kbengine.corpus.sentences import sentence_spans

SHIPPED = "usual_relations.tsv"
"""In this package."""
LEAD_CHARS = 400
"""What is looked at of a first sentence."""
YEAR = "0000"
"""Stands for any year."""
SMOOTHING = 5.0
"""Subjects that a relation is taken to have had, with the words that all subjects have."""
MOST_FOR, MOST_AGAINST = 3.0, -1.0
"""What one word says at most for a relation and against it, in log odds."""
_LEAD_WORD = re.compile(r"(?<!\w)(?:[^\W\d_]{2,}|[12]\d{3})(?!\w)")


@dataclass(frozen=True)
class UsualRelations:
    """Counts of relations and of the words that say what a subject is.

    Attributes:
        subjects: How many subjects were counted.
        relations: How many of them have each relation, by its Wikidata id.
        words: How many of them are described with each word.
        together: How many are described with the word and have the relation; what is missing is too few to count.
    """

    subjects: float
    relations: Mapping[str, float]
    words: Mapping[str, float] = field(default_factory=dict)
    together: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @classmethod
    def parse(cls, lines: Iterable[str]) -> Self:
        """Return the table of these lines, as `lines()` gives them."""
        rows = [line.rstrip("\n").split("\t") for line in lines]
        words = {row[0]: float(row[1]) for row in rows[1:]}
        together = {row[0]: _counts(row[2]) for row in rows[1:]}
        return cls(float(rows[0][1]), _counts(rows[0][2]), words, together)

    def lines(self) -> Iterator[str]:
        """Yield the table as lines: a word, its count, and its counts with relations; the first is of all subjects."""
        yield f"\t{self.subjects:.10g}\t{_written(self.relations)}\n"
        for word in sorted(self.words):
            yield f"{word}\t{self.words[word]:.10g}\t{_written(self.together.get(word, {}))}\n"

    def log_odds(self, words: Iterable[str]) -> dict[str, float]:
        """Return for each relation how much a subject described with these words can be expected to have it."""
        known = [word for word in words if word in self.words]
        found = {}
        for relation, count in self.relations.items():
            total = math.log(count / self.subjects)
            for word in known:
                usual = self.words[word] / self.subjects
                together = self.together.get(word, {}).get(relation, 0.0)
                said = math.log((together + SMOOTHING * usual) / (count + SMOOTHING) / usual)
                total += min(MOST_FOR, max(MOST_AGAINST, said))
            found[relation] = total
        return found

    def most_usual(self, text: str, n: int) -> list[tuple[str, float]]:
        """Return the n relations to expect of what a text is about, the most usual first, with their log odds.

        Args:
            text: Its first passage; of a blank one nothing is known, and the commonest relations are returned.
            n: How many.
        """
        odds = self.log_odds(lead_words(text))
        return sorted(odds.items(), key=lambda each: (-each[1], each[0]))[:n]


def lead_words(text: str) -> frozenset[str]:
    """Return the words of the first sentence that say what it is about: those in small letters, and that a year is.

    >>> sorted(lead_words("Marie Curie (1867–1934) was a Polish physicist. She was born in Warsaw."))
    ['0000', 'physicist', 'was']
    """
    start, end = first_sentence(text)
    found = _LEAD_WORD.findall(text[start:end][:LEAD_CHARS])
    return frozenset(YEAR if word[0].isdigit() else word for word in found if word[0].isdigit() or word.islower())


def first_sentence(text: str) -> tuple[int, int]:
    """Return where the first sentence of a text stands, half-open; an empty span of a blank one."""
    if not text.strip():
        return 0, 0
    span = sentence_spans(text)[0]
    return span.start, span.end


@functools.cache
def usual_relations() -> UsualRelations:
    """Return the table that ships, read once: it never changes."""
    return UsualRelations.parse((files("adapters.profiles") / SHIPPED).read_text(encoding="utf-8").splitlines())


def _counts(text: str) -> dict[str, float]:
    pairs: Sequence[Sequence[str]] = [pair.split("=") for pair in text.split(" ") if pair]
    return {relation: float(count) for relation, count in pairs}


def _written(counts: Mapping[str, float]) -> str:
    return " ".join(f"{relation}={count:.4g}" for relation, count in sorted(counts.items()))
