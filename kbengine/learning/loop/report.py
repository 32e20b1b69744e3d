"""What a run ends with: a report as JSON and its curves as a picture."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from kbengine.errors import MissingExtraError
from kbengine.learning.loop.journal import read_log
from storage.durable import write_durably

REPORT_FILE = "report.json"
CURVES_FILE = "curves.png"
_MOST_CURVES = 12


@dataclass(frozen=True)
class TrainingReport:
    """How a run went.

    Attributes:
        n_steps: Optimiser steps done.
        n_examples: Training examples of one epoch.
        stopped_early: Whether patience ran out.
        best_score: The best development score; None without a development set.
        best_step: Where it was reached; its weights are what is kept.
        first_score: The development score before the first step.
        first: The development measures then.
        best: The development measures at the best step.
        first_loss: Mean loss of the first line of the log.
        last_loss: Mean loss of the last.
        elapsed_s: Seconds of training, over all sittings.
        begun_with: Options and data of the run.
        machine: What it ran on.
    """

    n_steps: int
    n_examples: int
    stopped_early: bool
    best_score: float | None
    best_step: int | None
    first_score: float | None
    first: Mapping[str, float]
    best: Mapping[str, float]
    first_loss: float | None
    last_loss: float | None
    elapsed_s: float
    begun_with: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)


def write_report(directory: Path, report: TrainingReport) -> None:
    """Write `report.json`, and `curves.png` where matplotlib is installed."""
    write_durably(directory / REPORT_FILE, [(json.dumps(asdict(report), indent=2) + "\n").encode()], replace=True)
    try:
        draw_curves(directory)
    except MissingExtraError:
        return


def draw_curves(directory: Path) -> Path:
    """Return the picture of a run's log: losses and learning rate, and development measures, over steps.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as e:
        raise MissingExtraError.of("drawing curves", "matplotlib", "training") from e
    records = read_log(directory)
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    losses, scores = figure.subplots(1, 2)
    steps = [record for record in records if record["kind"] == "step"]
    evaluations = [record for record in records if record["kind"] == "evaluation"]
    losses.plot([r["step"] for r in steps], [r["loss"] for r in steps], label="total", linewidth=2)
    for name in dict.fromkeys(name for record in steps for name in record["parts"]):
        having = [record for record in steps if name in record["parts"]]
        losses.plot([r["step"] for r in having], [r["parts"][name] for r in having], label=name, linewidth=1)
    names = list(dict.fromkeys(name for record in evaluations for name in record["measures"]))
    if len(names) > _MOST_CURVES:  # of many files only the means can be told apart
        names = [name for name in names if name.startswith("mean ")][:_MOST_CURVES]
    for name in names:
        having = [record for record in evaluations if name in record["measures"]]
        scores.plot([r["step"] for r in having], [r["measures"][name] for r in having], marker=".", label=name)
    losses.set(title="training losses", xlabel="step")
    scores.set(title="development measures", xlabel="step")
    for axes in (losses, scores):
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize="small")
    path = directory / CURVES_FILE
    figure.savefig(path, dpi=120)
    return path


def machine_facts(device: torch.device, world: int) -> dict[str, Any]:
    """Return what the run is computed on."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": str(device),
        "device_name": name,
        "processes": world,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
