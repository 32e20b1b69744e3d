"""How likely an answer is right: features of the answers to one query, and logistic models over them.

Three models share the features: whether the knowledge base holds an answer at all, judged by the best one; whether the
best one is right where there is one; and the same of the others. The features mean the same in a knowledge base of a
hundred documents and in one of a hundred thousand, so none is a BM25 score, whose size is that of the collection.
Coefficients ship with the default encoder, or are fitted by `adapters.calibration` and stored with a knowledge base.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adapters.tasks.grouping import Group
from adapters.tasks.proper_names import is_cut, n_words, proper_share
from kbengine.corpus.normalise import norm
from kbengine.inputs import Dialogue, Mention, Question, Slot
from kbengine.search.query import Query, Unit
from kbengine.search.results import Hit
from storage.terms import name_term, terms_of, title_terms

Float64 = NDArray[np.float64]

FEATURES = (
    "phrase",  # parts of the best place's score, weighted
    "passage",
    "reader",  # 0 where nothing was read
    "lead",  # its score less that of the best other answer
    "above",  # its score less the mean of the documents that come next but a few
    "share",  # log odds of its share of the softmax over all places
    "passages",  # log of 1 + how many passages speak for it
    "documents",
    "named",  # whether the document is called as the subject or mention, or its title is said in the query
    "subject",  # share of the words of the name asked about that stand in title and passage
    "covered",  # the same of all words asked, those that fewer of the places have counting more
    "echo",  # whether the answer only repeats words of the query
    "words",  # log of 1 + how many words it has, a number beside a word counting as none: "7 November 1867" has one
    "proper",  # share of its words that are written as a name's
    "cut",  # whether a name seems to go on beside it
)
MAX_LEAD = 20.0
"""The lead of an answer without a rival, and of any that leads by more: score units, tens being usual for a score."""
BACKGROUND = slice(5, 20)
"""The ranks of the documents that an answer is compared with: what is found when nothing is about the question."""
_MIN_SHARE = 1e-4
_WORDS = re.compile(r"[^\W_]+")


def features_of(query: Query, unit: Unit, groups: Sequence[Group], aliased: Set[str] = frozenset()) -> Float64:
    """Return the features of each answer, in order: float64 (n, len(FEATURES)), not normalised.

    Args:
        query: what was asked.
        unit: of the answers.
        groups: the distinct answers, best first; their hits must have the parts of their scores.
        aliased: ids of the documents of which the subject or mention is another name.
    """
    if not groups:
        return np.zeros((0, len(FEATURES)))
    asked = f" {norm(' '.join(_texts(query)))} "
    name = _name(query)
    shares = shares_of(groups)
    background = _background(groups)
    coverage = _Coverage.of(query, groups)
    rows = []
    for i, group in enumerate(groups):
        best = group.hits[0]
        if best.parts is None:
            raise AssertionError("features need the parts of the scores: search with explain=True")
        share = min(max(shares[i], _MIN_SHARE), 1 - _MIN_SHARE)
        answer = norm(group.text)
        is_aliased = best.document.doc_id in aliased
        rows.append(
            (
                best.parts.start + best.parts.end + best.parts.sparse,
                best.parts.passage,
                best.parts.reader,
                _lead(groups, i),
                group.score - background,
                math.log(share / (1 - share)),
                math.log1p(len({hit.passage.passage_id for hit in group.hits})),
                math.log1p(len({hit.document.doc_id for hit in group.hits})),
                float(is_aliased or _is_named(best.document.title, name, asked)),
                1.0 if is_aliased else coverage.subject(best),
                coverage.all_words(best),
                float(unit == "phrase" and f" {answer} " in asked),
                math.log1p(n_words(answer)) if unit == "phrase" else 0.0,
                proper_share(group.text) if unit == "phrase" else 0.0,
                float(unit == "phrase" and is_cut(best.passage.text, best.span)),
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

    def to_json(self) -> dict[str, Any]:
        """Return the model as plain JSON values."""
        return {"coefficients": list(self.coefficients), "intercept": self.intercept}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the model that `to_json` wrote."""
        return cls(tuple(float(number) for number in value["coefficients"]), float(value["intercept"]))


@dataclass(frozen=True)
class Confidence:
    """The probability of answers from their features.

    Attributes:
        mean: Of each feature over the fitted answers.
        scale: Its standard deviation there; 1 for a feature that was constant.
        best: Model of the best answer, where there is a right one.
        others: Model of all other answers.
        answerable: Model of whether there is a right one; None when it was fitted on questions that all have one.
    """

    mean: tuple[float, ...]
    scale: tuple[float, ...]
    best: Logistic
    others: Logistic
    answerable: Logistic | None = None

    def answerable_probability(self, features: Float64) -> float:
        """Return how likely the knowledge base holds an answer, from the features of the answers to one query."""
        if not len(features):
            return 0.0
        return 1.0 if self.answerable is None else float(self.answerable.probabilities(self._scaled(features[:1]))[0])

    def probabilities(self, features: Float64) -> list[float]:
        """Return the probability of each answer to one query, best first; never rising.

        An answer's own probability may be above a better ranked one's; it is given that one's then, so that the order
        and the probabilities do not contradict each other.
        """
        if not len(features):
            return []
        standardised = self._scaled(features)
        own = self.others.probabilities(standardised)
        own[0] = self.best.probabilities(standardised[:1])[0]
        return [float(value) for value in self.answerable_probability(features) * np.minimum.accumulate(own)]

    def _scaled(self, features: Float64) -> Float64:
        scaled: Float64 = (features - np.asarray(self.mean)) / np.asarray(self.scale)
        return scaled

    def to_json(self) -> dict[str, Any]:
        """Return the coefficients as plain JSON values, features named."""
        return {
            "features": list(FEATURES),
            "mean": list(self.mean),
            "scale": list(self.scale),
            "best": self.best.to_json(),
            "others": self.others.to_json(),
            "answerable": None if self.answerable is None else self.answerable.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return the model that `to_json` wrote.

        Raises:
            ValueError: it is of other features, or not whole.
        """
        if value["features"] != list(FEATURES):
            raise ValueError(f"its features are {value['features']}")
        models = [None if value[name] is None else Logistic.from_json(value[name]) for name in _MODELS]
        mean, scale = (tuple(float(number) for number in value[name]) for name in ("mean", "scale"))
        vectors = [mean, scale, *(model.coefficients for model in models if model is not None)]
        best, others, answerable = models
        if best is None or others is None or any(len(vector) != len(FEATURES) for vector in vectors):
            raise ValueError("a list has not one number for each feature")
        return cls(mean, scale, best, others, answerable)


_MODELS = ("best", "others", "answerable")


@dataclass(frozen=True)
class _Coverage:
    """Which words asked stand where.

    Attributes:
        weights: Of each word asked: the fewer of the passages found have it, the more.
        of_subject: The words of the name asked about.
        of_passages: Those of the words asked that stand in each passage or its title, by the passage's id.
    """

    weights: Mapping[str, float]
    of_subject: Set[str]
    of_passages: Mapping[int, Set[str]]

    @classmethod
    def of(cls, query: Query, groups: Sequence[Group]) -> Self:
        """Return what is known of all places of the answers."""
        texts = _texts(query)
        if isinstance(query.input, Dialogue):
            texts = texts[-1:]
        name = _name(query)
        subject = frozenset(terms_of(" ".join(_names_in(texts[0])) if name is None else name))
        asked = subject.union(terms_of(" ".join(texts)))
        places = {hit.passage.passage_id: hit for group in groups for hit in group.hits}
        found = {
            number: asked.intersection(terms_of(f"{hit.document.title} {hit.passage.text}"))
            for number, hit in places.items()
        }
        counts = Counter(word for words in found.values() for word in words)
        weights = {word: math.log((len(found) + 1) / (counts[word] + 0.5)) for word in asked}
        return cls(weights, subject or asked, found)

    def subject(self, place: Hit) -> float:
        """Return the share of the name's words that stand in the passage or its title."""
        return len(self.of_subject & self.of_passages[place.passage.passage_id]) / max(1, len(self.of_subject))

    def all_words(self, place: Hit) -> float:
        """Return the weighted share of all words asked that stand there."""
        there = sum(self.weights[word] for word in self.of_passages[place.passage.passage_id])
        return there / max(1e-9, sum(self.weights.values()))


def _names_in(text: str) -> list[str]:
    """Return the words that look like parts of names or are numbers, the first of the text left out."""
    return [word for word in _WORDS.findall(text)[1:] if word[0].isupper() or word[0].isdigit()]


def _background(groups: Sequence[Group]) -> float:
    """Return the mean score of the documents at the ranks of the background, the last one's where there are fewer."""
    of_documents: dict[str, float] = {}
    for group in groups:
        for hit in group.hits:
            known = of_documents.get(hit.document.doc_id, hit.score)
            of_documents[hit.document.doc_id] = max(known, hit.score)
    ranked = sorted(of_documents.values(), reverse=True)
    behind = ranked[BACKGROUND] or ranked[-1:]
    return sum(behind) / len(behind)


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
