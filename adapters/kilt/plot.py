"""A plot of recall@k; needs matplotlib, an optional package."""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapters.errors import MissingExtraError
from storage.durable import write_durably
from storage.errors import InvalidOptionError

FORMATS = (".png", ".svg")


def recall_at_k(measures: Mapping[str, float]) -> dict[int, float]:
    """Return the points of the plot: every `recall@k` among the measures, by rising k."""
    points = {
        int(name.removeprefix("recall@")): value for name, value in measures.items() if name.startswith("recall@")
    }
    return dict(sorted(points.items()))


def plot_recall(curves: Mapping[str, Mapping[int, float]], path: str | Path, *, title: str = "Recall@k") -> None:
    """Write one line of recall over k per labelled curve, as PNG or SVG by the path's suffix.

    Raises:
        InvalidOptionError: the suffix is neither `.png` nor `.svg`, or there is no point to draw.
        MissingExtraError: matplotlib is not installed.
    """
    path = checked_path(path)
    if not any(curves.values()):
        raise InvalidOptionError("there is no recall@k with k > 1 to plot; pass ks such as 1,5,10,20")
    figure = new_figure(width_inches=6.0, height_inches=4.0)
    axes = figure.add_subplot()
    for label, points in curves.items():
        ks = sorted(points)
        axes.plot(ks, [points[k] for k in ks], marker="o", label=label)
    axes.set_xscale("log")
    ticks = sorted({k for points in curves.values() for k in points})
    axes.set_xticks(ticks, labels=[str(k) for k in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("k")
    axes.set_ylabel("recall@k")
    axes.set_ylim(0.0, 1.02)
    axes.grid(visible=True, alpha=0.3)
    axes.set_title(title)
    if len(curves) > 1:
        axes.legend()
    write_figure(figure, path)


def checked_path(path: str | Path) -> Path:
    """Return the path of a plot whose suffix says PNG or SVG.

    Raises:
        InvalidOptionError: the suffix is another.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InvalidOptionError(f"the plot's file is {path.name!r}, .png or .svg is wanted; name it recall.svg")
    return path


def new_figure(*, width_inches: float, height_inches: float) -> Any:
    """Return an empty figure of its own, not pyplot's: no window system and no state that outlives the call.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        matplotlib = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtraError.of("drawing a plot", "matplotlib", "benchmarks") from error
    return matplotlib.Figure(figsize=(width_inches, height_inches), layout="constrained")


def write_figure(figure: Any, path: Path) -> None:
    """Write the figure as PNG or SVG by the path's suffix; the same figure gives the same file."""
    image = io.BytesIO()
    kind = path.suffix.lower().removeprefix(".")
    # Without a date and with fixed element ids the same scores give the same file.
    with importlib.import_module("matplotlib").rc_context({"svg.hashsalt": "kbengine"}):
        figure.savefig(image, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    write_durably(path, [image.getvalue()], replace=True)
