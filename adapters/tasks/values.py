"""All values of a slot: answers probable enough that say different things, and whether sources contradict each other.

Decision 0026 says what the bar was chosen by and which relations have one value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kbengine.corpus.normalise import norm

if TYPE_CHECKING:
    from adapters.tasks.answers import Answer

LEAST_PROBABILITY = 0.2
"""What an answer beside the best one needs to be a value too."""


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


def values_of(answers: Sequence[Answer], *, has_one: bool) -> tuple[Value, ...]:
    """Return the values among the answers to a slot, best first; none where there are no probabilities.

    The best answer is one, and those that are probable enough. One whose words all stand in a better one, or the other
    way round, says the same: "1867" and "7 November 1867".

    Args:
        answers: best first.
        has_one: whether the relation has a single value, so that several contradict each other.
    """
    kept: list[Answer] = []
    for answer in answers:
        probability = answer.probability
        if probability is None or (kept and probability < LEAST_PROBABILITY):
            continue
        if not any(_says_the_same(answer, other) for other in kept):
            kept.append(answer)
    return tuple(
        Value(
            each.text,
            each.rank,
            each.probability or 0.0,
            tuple(other.text for other in kept if other is not each) if has_one else (),
        )
        for each in kept
    )


def _says_the_same(one: Answer, other: Answer) -> bool:
    words, others = (set(norm(each.text).split()) for each in (one, other))
    return words <= others or others <= words
