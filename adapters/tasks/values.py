"""All values of a slot: answers probable enough that say different things, and whether sources contradict each other.

Decision 0026 says what the bar was chosen by and which relations have one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

LEAST_PROBABILITY = 0.2
"""What an answer beside the best one needs to be a value too."""
LEAST_SHARE = 0.5
"""And, where the relation has only one value, of the probability of the best: what is much less likely is a mistake of
reading rather than another source's word."""


@dataclass(frozen=True)
class Value:
    """One value of a slot.

    Attributes:
        text: As the answer of its rank has it.
        rank: Of the answer, which has the places that say so.
        probability: Of the answer.
        contradicts: The other values, where the relation has only one: not all of them can be right.
    """

    text: str
    rank: int
    probability: float
    contradicts: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the value as plain JSON values."""
        return {
            "text": self.text,
            "rank": self.rank,
            "probability": self.probability,
            "contradicts": list(self.contradicts),
        }


def values_of(answers: Sequence[tuple[str, float | None]], *, has_one: bool) -> tuple[Value, ...]:
    """Return the values among the answers to a slot, best first; none where there are no probabilities.

    The best answer is one, and those that are probable enough: half as much as the best where there can be only one.
    One whose words all stand in a better one, or the other way round, says the same: "1867" and "7 November 1867".

    >>> [each.text for each in values_of([("Warsaw", 0.87), ("Maria Skłodowska", 0.28)], has_one=True)]
    ['Warsaw']

    Args:
        answers: their texts and probabilities, best first.
        has_one: whether the relation has a single value, so that several contradict each other.
    """
    kept: list[Value] = []
    for rank, (text, probability) in enumerate(answers, start=1):
        if probability is None:
            continue
        if kept and probability < max(LEAST_PROBABILITY, LEAST_SHARE * kept[0].probability if has_one else 0.0):
            continue
        if not any(_say_the_same(text, other.text) for other in kept):
            kept.append(Value(text, rank, probability))
    if not has_one:
        return tuple(kept)
    return tuple(replace(each, contradicts=tuple(other.text for other in kept if other is not each)) for each in kept)


def _say_the_same(one: str, other: str) -> bool:
    from kbengine.corpus.normalise import norm  # brings numpy, which a command that asks a service does without

    words, others = set(norm(one).split()), set(norm(other).split())
    return words <= others or others <= words
