"""Fitting probabilities and thresholds on records with known truth."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from adapters.calibration.confidence_fitting import (
    Judgement,
    ThresholdRule,
    choose_threshold,
    figures_at,
    fit_confidence,
)
from adapters.errors import CalibrationError, MissingExtraError
from adapters.tasks.confidence import FEATURES
from kbengine.errors import InvalidOptionError

P = np.asarray([0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.15, 0.12, 0.11, 0.1])
RIGHT = np.asarray([1, 1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1], dtype=np.bool_)


def judgements(n: int, seed: int = 1) -> list[Judgement]:
    """Records whose best answer is right with a probability that its lead tells, and the others seldom."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        features = generator.normal(size=(3, len(FEATURES)))
        lead = features[0, FEATURES.index("lead")]
        right = np.asarray([generator.uniform() < 1 / (1 + np.exp(-3 * lead)), *(generator.uniform(size=2) < 0.1)])
        found.append(Judgement(features, right, share=0.99))
    return found


def test_too_few_records_are_refused() -> None:
    """The message says how many are wanted."""
    with pytest.raises(CalibrationError, match=r"10 records .* wanted 30 or more"):
        fit_confidence(judgements(10), ThresholdRule())


@pytest.mark.parametrize(("right", "which"), [(True, "all"), (False, "none")])
def test_records_that_are_all_right_or_all_wrong_are_refused(right, which) -> None:
    """There is nothing to tell apart."""
    same = [Judgement(each.features, np.full(3, right), 0.5) for each in judgements(40)]
    with pytest.raises(CalibrationError, match=f"{which} of 40"):
        fit_confidence(same, ThresholdRule())


@pytest.mark.parametrize(
    ("rule", "threshold"),
    [
        ("none", None),
        ("precision=0.5", 0.1),  # six of twelve
        ("coverage=0.5", 0.4),
        ("coverage=1", 0.1),
        ("coverage=0.01", 0.9),
        ("f1", 0.4),  # 2·5/(6+6)
    ],
)
def test_thresholds_are_chosen_for_what_is_wanted(rule, threshold) -> None:
    """Hand-computed on twelve answers, six of them right."""
    assert choose_threshold(P, RIGHT, 6, ThresholdRule(rule)) == threshold


def test_the_lowest_threshold_with_the_precision_is_taken() -> None:
    """More answers at the same quality; the head of the list is no evidence alone."""
    probabilities = np.linspace(0.99, 0.01, 99)
    right = np.arange(99) < 60
    threshold = choose_threshold(probabilities, right, 99, ThresholdRule("precision=0.75"))
    assert figures_at(probabilities, right, 99, threshold)["precision"] == pytest.approx(0.75)
    assert figures_at(probabilities, right, 99, threshold - 0.011)["precision"] < 0.75


def test_equal_probabilities_are_not_parted() -> None:
    """A threshold takes all of them or none."""
    probabilities = np.asarray([0.8] * 20 + [0.2] * 20)
    right = np.asarray([True] * 15 + [False] * 25)
    assert choose_threshold(probabilities, right, 40, ThresholdRule("precision=0.7")) == 0.8
    with pytest.raises(CalibrationError, match=r"highest over 10 answers or more is 0\.750"):
        choose_threshold(probabilities, right, 40, ThresholdRule("precision=0.9"))


def test_figures_at_a_threshold() -> None:
    """Hand-computed."""
    assert figures_at(P, RIGHT, 8, 0.35) == {
        "precision": round(5 / 6, 4),
        "recall": 5 / 8,
        "f1": round(10 / 14, 4),
        "answered": 0.5,
    }
    assert figures_at(P, RIGHT, 0, 0.95) == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "answered": 0.0}


@pytest.mark.parametrize(
    "text", ["", "f2", "precision", "precision=0", "precision=1.1", "coverage=x", "precision=1.2.3"]
)
def test_other_rules_are_refused(text) -> None:
    """The message has the choices."""
    with pytest.raises(InvalidOptionError, match=r"wanted f1, precision=0\.9"):
        ThresholdRule(text)


def test_a_missing_library_is_named_with_its_remedy(monkeypatch) -> None:
    """It is an extra: answering needs none of it."""

    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"pip install scikit-learn .*'\.\[calibration\]'"):
        fit_confidence(judgements(40), ThresholdRule())
