"""How much the words of a talk count beside its vectors: decided for each query.

A talk that keeps to one subject names it once, and only all of its words together say what it is about; in a talk that
wanders they favour a long page that no turn is about. Which of the two it is shows in the scores of whole documents: is
one of them clearly the best? A small logistic regression over that says how likely the best one is the right one, and
the lexical weight is multiplied by as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

FEATURES = (
    "lead",  # of the best document over the next, as a share of its score
    "above",  # of the best document over the mean of those that come next but a few, likewise
)
"""Both are ratios: BM25 sums grow with a knowledge base and with a talk, these do not."""
BACKGROUND = slice(5, 20)
"""Ranks of the documents that the best one is compared with: what is found whatever a talk is about."""


@dataclass(frozen=True)
class LexicalGate:
    """A logistic regression that gives what the lexical weight of a query is multiplied by.

    Attributes:
        coefficients: Of each of `FEATURES`.
        intercept: Of the log odds.
        most: The factor where the best document by words is certainly right.

    >>> LexicalGate((0.0, 0.0), intercept=0.0, most=1.5).factor(np.zeros(2))
    0.75
    """

    coefficients: tuple[float, ...]
    intercept: float
    most: float

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(FEATURES):
            raise ValueError(f"{len(self.coefficients)} coefficients, wanted one for each of {', '.join(FEATURES)}")
        if not all(map(math.isfinite, (*self.coefficients, self.intercept, self.most))) or self.most < 0:
            raise ValueError(f"{self} has a number that is not finite, or a negative `most`")

    def factor(self, features: Float64) -> float:
        """Return what the lexical weight is multiplied by, from the features float64 (len(FEATURES),)."""
        log_odds = float(np.dot(features, self.coefficients)) + self.intercept
        return self.most / (1.0 + math.exp(-min(max(log_odds, -30.0), 30.0)))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the gate of a file that the recipe wrote; other keys tell what it was fitted on.

        Raises:
            ValueError: it lacks a number, or is of other features.
        """
        try:
            if tuple(value["features"]) != FEATURES:
                raise ValueError(f"the features are {value['features']}, wanted {list(FEATURES)}; fit the gate again")
            coefficients = tuple(float(each) for each in value["coefficients"])
            return cls(coefficients, float(value["intercept"]), float(value["most"]))
        except (KeyError, TypeError) as error:
            raise ValueError(f"the gate is not whole ({error!r})") from error


def gate_features(best: Float32, n_documents: int) -> Float64 | None:
    """Return the features of a talk, float64 (len(FEATURES),); None where no document has a word of it.

    Args:
        best: float32, the `BACKGROUND.stop` best scores of whole documents, falling, or all there are.
        n_documents: how many documents there are; those that are not in `best` score 0.
    """
    n = min(BACKGROUND.stop, n_documents)
    if not n or not len(best) or not best[0] > 0:
        return None
    ranked = np.zeros(n, dtype=np.float64)
    ranked[: len(best)] = best[:n]
    others = ranked[BACKGROUND]
    next_one = ranked[1] if n > 1 else 0.0
    background = others.mean() if len(others) else 0.0
    return np.asarray(((ranked[0] - next_one) / ranked[0], (ranked[0] - background) / ranked[0]))
