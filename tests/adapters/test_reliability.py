"""Brier score, calibration error and bins against hand-computed values."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from adapters.calibration.reliability import (
    brier_score,
    calibration_error,
    figures_of,
    plot_reliability,
    reliability_bins,
)
from adapters.errors import MissingExtraError
from kbengine.errors import InvalidOptionError

P = np.asarray([0.05, 0.15, 0.95, 0.95, 1.0])
RIGHT = np.asarray([False, True, True, False, True])


def test_the_brier_score_is_the_mean_squared_difference() -> None:
    """Hand-computed."""
    assert brier_score(P, RIGHT) == pytest.approx((0.05**2 + 0.85**2 + 0.05**2 + 0.95**2 + 0.0) / 5)


def test_the_calibration_error_is_the_mean_gap_of_the_bins() -> None:
    """Three bins: 0–0.1, 0.1–0.2, 0.9–1, the last with its upper limit."""
    bins = reliability_bins(P, RIGHT)
    assert [(each["from"], each["n"], each["share_right"]) for each in bins] == [
        (0.0, 1, 0.0),
        (0.1, 1, 1.0),
        (0.9, 3, 0.6667),
    ]
    gap = abs(2 / 3 - (0.95 + 0.95 + 1.0) / 3)
    assert calibration_error(P, RIGHT) == pytest.approx((0.05 + 0.85 + 3 * gap) / 5, abs=1e-4)
    assert figures_of(P, RIGHT)["ece"] == round(calibration_error(P, RIGHT), 4)


def test_calibrated_probabilities_have_little_error() -> None:
    """Outcomes drawn with the probabilities given."""
    generator = np.random.default_rng(5)
    probabilities = generator.uniform(size=20_000)
    assert calibration_error(probabilities, generator.uniform(size=20_000) < probabilities) < 0.02
    assert calibration_error(probabilities, np.ones(20_000, dtype=np.bool_)) == pytest.approx(0.5, abs=0.02)


def test_without_matplotlib_the_plot_says_what_to_install(tmp_path, monkeypatch) -> None:
    """The name of the file is looked at first."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        plot_reliability({}, tmp_path / "plot.png", title="t")
    with pytest.raises(InvalidOptionError, match=r"\.png or \.svg"):
        plot_reliability({}, tmp_path / "plot.jpg", title="t")
