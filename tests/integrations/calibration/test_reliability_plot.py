"""The picture of how reliable probabilities are."""

from __future__ import annotations

from adapters.calibration.reliability import plot_reliability, reliability_bins
from tests.adapters.test_reliability import RIGHT, P


def test_the_curves_are_drawn(tmp_path) -> None:
    """An empty one too."""
    plot_reliability({"before": reliability_bins(P, RIGHT), "after": []}, tmp_path / "plot.png", title="t")
    assert (tmp_path / "plot.png").stat().st_size > 1000
