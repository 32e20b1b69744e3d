"""How likely an answer is right: features of the answers to one query, and a logistic model over them.

Two models share the features: one for the best answer, which decides whether there is an answer at all, one for the
others. Coefficients are fitted by `adapters.calibration.calibrating` and stored as JSON with the knowledge base.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adapters.tasks.grouping import Group
from kbengine.corpus.normalise import norm
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.search.query import Query, Unit
from storage.terms import name_term, title_terms

Float64 = NDArray[np.float64]

FEATURES = (
    "phrase",  # parts of the best place's score, weighted
    "passage",
    "lexical",
    "lead",  # its score less that of the best other answer
    "share",  # log odds of its share of the softmax over all places
    "passages",  # log of 1 + how many passages speak for it
    "documents",
    "named",  # whether the document is called as the subject or mention, or its title is said in the query
    "echo",  # whether the answer only repeats words of the query
    "words",  # log of 1 + how many words it has
)
MAX_LEAD = 20.0
"""The lead of an answer without a rival, and of any that leads by more: score units, tens being usual for a score."""
_MIN_SHARE = 1e-4


def features_of(query: Query, unit: Unit, groups: Sequence[Group]) -> Float64:
    """Return the features of each answer, in order: float64 (n, len(FEATURES)), not normalised.

    Args:
        query: what was asked.
        unit: of the answers.
        groups: the distinct answers, best first; their hits must have the parts of their scores.
    """
    if not groups:
        return np.zeros((0, len(FEATURES)))
    asked = f" {norm(' '.join(_texts(query)))} "
    name = _name(query)
    shares = shares_of(groups)
    rows = []
    for i, group in enumerate(groups):
        best = group.hits[0]
        if best.parts is None:
            raise AssertionError("features need the parts of the scores: search with explain=True")
        share = min(max(shares[i], _MIN_SHARE), 1 - _MIN_SHARE)
        answer = norm(group.text)
        rows.append(
            (
                best.parts.start + best.parts.end + best.parts.sparse,
                best.parts.passage,
                best.parts.lexical,
                _lead(groups, i),
                math.log(share / (1 - share)),
                math.log1p(len({hit.passage.passage_id for hit in group.hits})),
                math.log1p(len({hit.document.doc_id for hit in group.hits})),
                float(_is_named(best.document.title, name, asked)),
                float(unit == "phrase" and f" {answer} " in asked),
                math.log1p(len(answer.split())) if unit == "phrase" else 0.0,
            )
        )
    return np.asarray(rows, dtype=np.float64)


@dataclass(frozen=True)
class Logistic:
    """A logistic regression over standardised features."""

    coefficients: tuple[float, ...]
    intercept: float

    def probabilities(self, standardised: Float64) -> Float64:
        """Return the probability of each row: float64 (n,), from float64 (n, features)."""
        log_odds = standardised @ np.asarray(self.coefficients) + self.intercept
        found: Float64 = 1.0 / (1.0 + np.exp(-np.clip(log_odds, -30.0, 30.0)))
        return found


@dataclass(frozen=True)
class Confidence:
    """The probability of answers from their features.

    Attributes:
        mean: Of each feature over the fitted answers.
        scale: Its standard deviation there; 1 for a feature that was constant.
        best: Model of the best answer.
        others: Model of all other answers.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    best: Logistic
    others: Logistic

    def probabilities(self, features: Float64) -> list[float]:
        """Return the probability of each answer to one query, best first; never rising.

        An answer's own probability may be above a better ranked one's; it is given that one's then, so that the order
        and the probabilities do not contradict each other.
        """
        if not len(features):
            return []
        standardised = (features - np.asarray(self.mean)) / np.asarray(self.scale)
        own = self.others.probabilities(standardised)
        own[0] = self.best.probabilities(standardised[:1])[0]
        return [float(value) for value in np.minimum.accumulate(own)]

    def to_json(self) -> dict[str, Any]:
        """Return the coefficients as plain JSON values, features named."""
        return {
            "features": list(FEATURES),
            "mean": list(self.mean),
            "scale": list(self.scale),
            "best": {"coefficients": list(self.best.coefficients), "intercept": self.best.intercept},
            "others": {"coefficients": list(self.others.coefficients), "intercept": self.others.intercept},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the model that `to_json` wrote.

        Raises:
            ValueError: it is of other features, or not whole.
        """
        if value["features"] != list(FEATURES):
            raise ValueError(f"its features are {value['features']}")
        vectors = [value["mean"], value["scale"], value["best"]["coefficients"], value["others"]["coefficients"]]
        if any(len(vector) != len(FEATURES) for vector in vectors):
            raise ValueError("a list has not one number for each feature")
        mean, scale, best, others = (tuple(float(number) for number in vector) for vector in vectors)
        return cls(
            mean,
            scale,
            Logistic(best, float(value["best"]["intercept"])),
            Logistic(others, float(value["others"]["intercept"])),
        )


def shares_of(groups: Sequence[Group]) -> list[float]:
    """Return each answer's share of the softmax over the scores of all places: what stands in without calibration."""
    highest = max(group.score for group in groups)
    masses = [sum(math.exp(hit.score - highest) for hit in group.hits) for group in groups]
    total = sum(masses)
    return [mass / total for mass in masses]


def _lead(groups: Sequence[Group], i: int) -> float:
    if len(groups) == 1:
        return MAX_LEAD
    rival = groups[1] if i == 0 else groups[0]
    return max(-MAX_LEAD, min(MAX_LEAD, groups[i].score - rival.score))


def _texts(query: Query) -> list[str]:
    match query.input:
        case Question(text):
            return [text]
        case Slot(subject, relation):
            return [subject, relation]
        case Mention():
            return [query.input.name]
        case Dialogue(turns):
            return list(turns)


def _name(query: Query) -> str | None:
    match query.input:
        case Slot(subject, _):
            return subject
        case Mention():
            return query.input.name
    return None


def _is_named(title: str, name: str | None, asked: str) -> bool:
    if name is not None:
        return name_term(name) in title_terms(title)
    bare = norm(title.partition(" (")[0])
    return bool(bare) and f" {bare} " in asked
