"""Fitting probabilities on records with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.calibration.confidence_fitting import Judgement, ThresholdRule, fit_confidence
from adapters.tasks.confidence import FEATURES
from tests.adapters.test_confidence_fitting import judgements


def test_probabilities_are_learned_and_judged_on_the_other_half() -> None:
    """A lead says more than chance; overconfident shares come out well calibrated."""
    fit = fit_confidence(judgements(600), ThresholdRule("f1"))
    before, after = fit.report["before"], fit.report["after"]
    assert after["ece"] < 0.08 < 0.4 < before["ece"]
    assert after["brier"] < 0.17 < 0.4 < before["brier"]
    features = np.zeros((2, len(FEATURES)))
    features[0, FEATURES.index("lead")] = 1.0
    best, other = fit.confidence.probabilities(features)
    assert best == pytest.approx(1 / (1 + np.exp(-3)), abs=0.05)
    assert other == pytest.approx(0.1, abs=0.05)
    assert sum(each["n"] for each in after["bins"]) == 600


def test_fitting_twice_gives_the_same() -> None:
    """Halves are drawn with the seed."""
    assert fit_confidence(judgements(100), ThresholdRule()) == fit_confidence(judgements(100), ThresholdRule())


def test_records_without_answers_count_as_missed() -> None:
    """They are nothing to learn from, but recall is over them too."""
    empty = Judgement(np.zeros((0, len(FEATURES))), np.zeros(0, dtype=np.bool_), share=0.0)
    fit = fit_confidence([*judgements(60), *[empty] * 60], ThresholdRule("none"))
    assert (fit.report["records"], fit.report["without_answer"], fit.threshold) == (120, 60, None)
    assert fit.report["at_threshold"]["recall"] <= 0.5
    assert fit.report["at_threshold"]["answered"] == 1.0


def test_other_answers_that_are_never_right_get_a_small_probability() -> None:
    """Not zero: the next one might be."""
    never = [Judgement(each.features, each.is_right & [True, False, False], 0.5) for each in judgements(60)]
    fit = fit_confidence(never, ThresholdRule())
    assert 0 < fit.confidence.probabilities(np.zeros((2, len(FEATURES))))[1] < 0.02


def test_questions_without_an_answer_are_told_from_others() -> None:
    """Where they are among the records; a few right answers are lost to that, and the rest is fitted on the others."""
    place = FEATURES.index("above")
    records = []
    for i, each in enumerate(judgements(400)):
        features = each.features.copy()
        features[:, place] += 3.0 * (i % 2)  # so near that it is the share of lost ones, not the half, that limits
        is_right = each.is_right & (i % 2 == 1)
        records.append(Judgement(features, is_right, 0.5, has_gold=i % 2 == 1))
    fit = fit_confidence(records, ThresholdRule("none"))
    assert fit.threshold is None
    assert fit.answerable_threshold is not None
    figures = fit.report["answerable"]
    assert figures["refused_unanswerable"] > 0.8
    assert 0.03 <= figures["refused_answerable"] <= 0.06
    assert fit_confidence(judgements(60), ThresholdRule("none")).answerable_threshold is None
