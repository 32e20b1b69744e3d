"""Fitting the probability of answers: logistic regression, judged on the half it was not fitted on, and thresholds."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.calibration.reliability import figures_of
from adapters.errors import CalibrationError, MissingExtraError
from adapters.tasks.confidence import FEATURES, Confidence, Logistic
from kbengine.errors import InvalidOptionError

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

MIN_RECORDS = 30
"""Fewer say nothing about ten features."""
MIN_ANSWERED = 10
"""Answers above a threshold that a precision is believed from."""
MIN_UNANSWERABLE = 30
"""Records without a right answer from which on it is learned what such questions look like."""
MAX_LOST = 0.05
"""Share of the answerable questions, most of them with a wrong answer, that may be refused so that others are."""
MAX_ANSWERABLE_THRESHOLD = 0.5
"""What is more likely answerable than not is never refused."""
ANSWERABLE_STRENGTH = 0.1
"""Inverse strength of the penalty of the model of what is answerable: questions differ more than answers do."""
_PRECISION = re.compile(r"(precision|coverage)=([0-9.]+)")


@dataclass(frozen=True)
class Judgement:
    """The answers to one record: their features, best first, and which are right.

    Attributes:
        features: float64 (n, features).
        is_right: bool (n,).
        share: What stands in for the best answer's probability without calibration; 0 without an answer.
        has_gold: Whether there is a right answer at all.
    """

    features: Float64
    is_right: Bool
    share: float
    has_gold: bool = True


@dataclass(frozen=True)
class ThresholdRule:
    """What a threshold is chosen for: `f1`, `precision=P`, `coverage=C` or `none`."""

    text: str = "f1"

    def __post_init__(self) -> None:
        match = _PRECISION.fullmatch(self.text)
        if self.text not in ("f1", "none") and not (match and _is_share(match[2])):
            raise InvalidOptionError(
                f"the threshold is to be chosen for {self.text!r}, wanted f1, precision=0.9, coverage=0.8 or none"
            )

    @property
    def wanted(self) -> tuple[str, float]:
        """Return what is wanted and how much of it."""
        match = _PRECISION.fullmatch(self.text)
        return (self.text, 0.0) if match is None else (match[1], float(match[2]))


@dataclass(frozen=True)
class ConfidenceFit:
    """The fitted model, the thresholds, and how good they are on answers that they were not fitted on."""

    confidence: Confidence
    threshold: float | None
    answerable_threshold: float | None
    report: dict[str, Any]


def fit_confidence(
    judgements: Sequence[Judgement], rule: ThresholdRule, *, seed: int = 13, max_lost: float = MAX_LOST
) -> ConfidenceFit:
    """Return the probability model fitted on all records, and its figures from fitting on one half for the other.

    The records are halved at random; each half gets the probabilities of the model of the other half. These give the
    reported Brier score, calibration error, bins and thresholds. The model that is kept is fitted on all records.

    Where enough records have no right answer, whether there is one gets a model and a threshold of its own: the
    highest, up to a half, at which no more than `max_lost` of the questions with one are refused.

    Raises:
        CalibrationError: too few records, all or none of the answers right, or the threshold asked for is not reached.
        MissingExtraError: scikit-learn is not installed.
    """
    answered = [each for each in judgements if len(each.features)]
    if len(answered) < MIN_RECORDS:
        raise CalibrationError(
            f"{len(answered)} records have an answer to learn from, wanted {MIN_RECORDS} or more; "
            "give more files or rows"
        )
    is_right = np.asarray([bool(each.is_right[0]) for each in answered])
    if is_right.all() or not is_right.any():
        raise CalibrationError(
            f"{'all' if is_right.any() else 'none'} of {len(answered)} best answers are right, so there is nothing to "
            "tell apart; check the gold answers and the task, or give harder records"
        )
    halves = np.random.default_rng(seed).permutation(len(answered)) % 2
    held_out, answerable = np.zeros(len(answered)), np.ones(len(answered))
    for half in (0, 1):
        model = _fit([each for each, of in zip(answered, halves, strict=True) if of != half])
        for i in np.flatnonzero(halves == half):
            held_out[i] = model.probabilities(answered[i].features)[0]
            answerable[i] = model.answerable_probability(answered[i].features)
    has_gold = np.asarray([each.has_gold for each in answered])
    n_gold = sum(each.has_gold for each in judgements)
    threshold = choose_threshold(held_out, is_right, n_gold, rule)
    fitted = _fit(answered)
    report = {
        "records": len(judgements),
        "without_answer": len(judgements) - len(answered),
        "share_right": round(float(is_right.mean()), 4),
        "before": figures_of(np.asarray([each.share for each in answered]), is_right),
        "after": figures_of(held_out, is_right),
        "at_threshold": figures_at(held_out, is_right, n_gold, threshold or 0.0),
    }
    answerable_threshold = None
    if fitted.answerable is not None:
        at = float(np.quantile(answerable[has_gold], max_lost))
        answerable_threshold = _rounded_down(min(at, MAX_ANSWERABLE_THRESHOLD))
        report["answerable"] = refused_at(answerable, has_gold, is_right, answerable_threshold)
    return ConfidenceFit(fitted, threshold, answerable_threshold, report)


def refused_at(answerable: Float64, has_gold: Bool, is_right: Bool, threshold: float) -> dict[str, float]:
    """Return which shares are refused: of questions without an answer, of those with one, of right answers."""
    refused = answerable < threshold
    groups = {"unanswerable": ~has_gold, "answerable": has_gold, "right": has_gold & is_right}
    shares = {f"refused_{name}": float(refused[group].mean()) for name, group in groups.items() if group.any()}
    return {name: round(share, 4) for name, share in shares.items()}


def choose_threshold(probabilities: Float64, is_right: Bool, n_gold: int, rule: ThresholdRule) -> float | None:
    """Return the least probability that an answer must have, None when none is wanted.

    `f1` is that of answering: precision over the answers given, recall over the records that have a right answer.
    `precision=P` takes the lowest threshold from which on P of the answers are right, `coverage=C` the highest at which
    the share C of the records is still answered.

    Raises:
        CalibrationError: no threshold reaches the precision.
    """
    what, wanted = rule.wanted
    if what == "none":
        return None
    order = np.argsort(-probabilities, kind="stable")
    ranked = probabilities[order]
    n_answered = np.arange(1, len(order) + 1)
    n_right = np.cumsum(is_right[order])
    # A threshold cannot part equal probabilities: only the last of each run is a place to cut at.
    is_cut = np.append(ranked[1:] != ranked[:-1], True)
    if what == "coverage":
        at = min(int(np.ceil(wanted * len(order))), len(order)) - 1
        return _rounded_down(float(ranked[max(at, 0)]))
    if what == "f1":
        f1 = np.where(is_cut, 2 * n_right / (n_answered + max(n_gold, 1)), -1.0)
        return _rounded_down(float(ranked[int(np.argmax(f1))]))
    precision = n_right / n_answered
    enough = np.flatnonzero((precision >= wanted) & is_cut & (n_answered >= min(MIN_ANSWERED, len(order))))
    if not len(enough):
        reached = float(precision[is_cut & (n_answered >= min(MIN_ANSWERED, len(order)))].max())
        raise CalibrationError(
            f"no threshold gives a precision of {wanted}: the highest over {MIN_ANSWERED} answers or more is "
            f"{reached:.3f}; ask for less, or --threshold-for f1"
        )
    return _rounded_down(float(ranked[enough[-1]]))


def figures_at(probabilities: Float64, is_right: Bool, n_gold: int, threshold: float) -> dict[str, float]:
    """Return precision, recall, F1 and the share answered with the threshold."""
    given = probabilities >= threshold
    n_given, n_right = int(given.sum()), int((is_right & given).sum())
    return {
        "precision": round(n_right / n_given, 4) if n_given else 0.0,
        "recall": round(n_right / n_gold, 4) if n_gold else 0.0,
        "f1": round(2 * n_right / (n_given + n_gold), 4) if n_given + n_gold else 0.0,
        "answered": round(n_given / len(probabilities), 4),
    }


def _fit(judgements: Sequence[Judgement]) -> Confidence:
    best = np.stack([each.features[0] for each in judgements])
    mean = best.mean(axis=0)
    scale = best.std(axis=0)
    scale[scale == 0] = 1.0
    answerable = None
    has_gold = np.asarray([each.has_gold for each in judgements])
    if MIN_UNANSWERABLE // 2 <= (~has_gold).sum() < len(judgements):  # one half of the records has half of them
        answerable = _logistic((best - mean) / scale, has_gold, strength=ANSWERABLE_STRENGTH)
        judgements = [each for each in judgements if each.has_gold]
        best = best[has_gold]
    others = np.concatenate([each.features[1:] for each in judgements])
    return Confidence(
        mean=tuple(mean.tolist()),
        scale=tuple(scale.tolist()),
        best=_logistic((best - mean) / scale, np.asarray([bool(each.is_right[0]) for each in judgements])),
        others=_logistic((others - mean) / scale, np.concatenate([each.is_right[1:] for each in judgements])),
        answerable=answerable,
    )


def _logistic(features: Float64, is_right: Bool, *, strength: float = 1.0) -> Logistic:
    """Return the fitted model; where all answers are right or all wrong, one probability for all, never 0 or 1."""
    n_right = int(is_right.sum())
    if n_right in (0, len(is_right)):
        return Logistic((0.0,) * len(FEATURES), math.log((n_right + 0.5) / (len(is_right) - n_right + 0.5)))
    model = linear_model().LogisticRegression(C=strength, max_iter=1000).fit(features, is_right)
    return Logistic(tuple(float(value) for value in model.coef_[0]), float(model.intercept_[0]))


def linear_model() -> Any:
    """Return scikit-learn's linear models.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    try:
        return importlib.import_module("sklearn.linear_model")
    except ImportError as error:
        raise MissingExtraError.of("calibrating", "scikit-learn", "calibration") from error


def _rounded_down(threshold: float) -> float:
    """Return the threshold with four digits, none of the answers at it lost."""
    return math.floor(threshold * 10_000) / 10_000


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False
