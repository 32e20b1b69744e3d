"""How well probabilities are calibrated: Brier score, expected calibration error, reliability bins and their plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.kilt.plot import checked_path, new_figure, write_figure

Float64 = NDArray[np.float64]

N_BINS = 10


def brier_score(probabilities: Float64, is_right: NDArray[np.bool_]) -> float:
    """Return the mean squared difference of probability and outcome (Brier 1950): 0 is perfect, lower is better."""
    return float(np.mean((probabilities - is_right) ** 2))


def calibration_error(probabilities: Float64, is_right: NDArray[np.bool_]) -> float:
    """Return the expected calibration error (Naeini et al. 2015), with ten bins of equal width.

    It is the mean over all answers of |share right − mean probability| of the answer's bin; 0 is perfect.
    """
    bins = reliability_bins(probabilities, is_right)
    gaps = (each["n"] * abs(each["share_right"] - each["mean_probability"]) for each in bins)
    return float(sum(gaps)) / len(probabilities)


def reliability_bins(probabilities: Float64, is_right: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return the bins that hold an answer: their limits, count, mean probability and share of right answers."""
    numbers = np.minimum((probabilities * N_BINS).astype(np.int64), N_BINS - 1)
    bins = []
    for number in range(N_BINS):
        inside = numbers == number
        if inside.any():
            bins.append(
                {
                    "from": number / N_BINS,
                    "to": (number + 1) / N_BINS,
                    "n": int(inside.sum()),
                    "mean_probability": round(float(probabilities[inside].mean()), 4),
                    "share_right": round(float(is_right[inside].mean()), 4),
                }
            )
    return bins


def figures_of(probabilities: Float64, is_right: NDArray[np.bool_]) -> dict[str, Any]:
    """Return Brier score, calibration error and bins as plain JSON values."""
    return {
        "brier": round(brier_score(probabilities, is_right), 4),
        "ece": round(calibration_error(probabilities, is_right), 4),
        "bins": reliability_bins(probabilities, is_right),
    }


def plot_reliability(curves: Mapping[str, Sequence[Mapping[str, Any]]], path: str | Path, *, title: str) -> None:
    """Write the share of right answers over the probability given, one line per labelled list of bins.

    Raises:
        InvalidOptionError: the suffix is neither `.png` nor `.svg`.
        MissingExtraError: matplotlib is not installed.
    """
    path = checked_path(path)
    figure = new_figure(width_inches=5.0, height_inches=5.0)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], linestyle="--", color="grey", label="perfect")
    for label, bins in curves.items():
        largest = max((each["n"] for each in bins), default=1)
        means = [each["mean_probability"] for each in bins]
        rights = [each["share_right"] for each in bins]
        (line,) = axes.plot(means, rights, label=label)
        axes.scatter(means, rights, s=[15 + 120 * each["n"] / largest for each in bins], color=line.get_color())
    axes.set_xlabel("probability given")
    axes.set_ylabel("share of right answers")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.grid(visible=True, alpha=0.3)
    axes.set_title(title)
    axes.legend(loc="upper left")
    write_figure(figure, path)
