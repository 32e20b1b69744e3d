"""How probable a value of a profile is: what the slot's answer says, and how usual the relation is for its kind.

The probability of an answer to a slot is that of one whose relation the subject has, as people ask. A profile asks for
relations that many subjects of the kind have not, so the answer is weighed against how usual the relation is.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

SHIPPED = "value_model.json"
"""In this package: coefficients fitted by `recipes.profile_values`, with a note of what they were fitted on."""
FEATURES = ("log_odds", "answerable", "usual", "behind", "is_own", "is_first")
"""The answer's own log odds; those that the slot has an answer; those of the relation for the kind; how far these are
behind those of its most usual relation; whether the best place is in the entity's own document; whether it is the
slot's best answer."""
_MOST = 6.0


@dataclass(frozen=True)
class ValueModel:
    """A logistic regression over `FEATURES`."""

    coefficients: tuple[float, ...]
    intercept: float

    def probability(self, features: Sequence[float]) -> float:
        """Return how probable it is that the entity has the value."""
        total = self.intercept + sum(a * b for a, b in zip(self.coefficients, features, strict=True))
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def features_of(
    probability: float, answerable: float | None, usual: float, *, behind: float, is_own: bool, is_first: bool
) -> tuple[float, ...]:
    """Return the features of one answer to a slot, in the order of `FEATURES`.

    Args:
        probability: of the answer.
        answerable: that the knowledge base holds an answer to the slot; None where that is not known.
        usual: log odds that such an entity has the relation.
        behind: how much less these are than those of its most usual relation, 0 or more.
        is_own: whether the answer's best place is in the entity's own document.
        is_first: whether it is the slot's best answer.
    """
    whether = 0.0 if answerable is None else _log_odds(answerable)
    usual = max(-_MOST, min(_MOST, usual))
    return _log_odds(probability), whether, usual, min(behind, _MOST), float(is_own), float(is_first)


@functools.cache
def value_model() -> ValueModel:
    """Return the model that ships, read once: it never changes."""
    record = json.loads((files("adapters.profiles") / SHIPPED).read_text(encoding="utf-8"))
    return ValueModel(tuple(record["coefficients"][name] for name in FEATURES), record["intercept"])


def _log_odds(probability: float) -> float:
    p = min(max(probability, 0.0025), 0.9975)
    return math.log(p / (1 - p))
