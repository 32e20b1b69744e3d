"""The development curves of all tunings as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(record: dict[str, Any], path: Path) -> None:
    """Write a PNG with a panel for each tuning: the mean over its development sets, by phrases alone and fused.

    Args:
        record: what `recipes.tuning` writes.
        path: of the picture.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    results = record["results"]
    columns = min(4, len(results))
    lines = -(-len(results) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.6 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel, (name, result) in zip(panels, results.items(), strict=False):
        measure = result["experiment"]["measure"]
        shown = "rprec" if measure == "mean" else measure
        steps = [each["step"] for each in result["curve"]]
        for signals, style in (("phrase", "o--"), ("fused", "o-")):
            panel.plot(steps, [each[f"mean {signals} {shown}"] for each in result["curve"]], style, label=signals)
        panel.set_title(f"{name} ({result['experiment']['loss']})", fontsize=9)
        panel.set_ylabel(f"mean {shown}, %", fontsize=8)
        panel.tick_params(labelsize=7)
        panel.grid(alpha=0.3)
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    panels[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
