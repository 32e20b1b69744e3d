"""Calibrations with chosen probabilities, for tests of what is done with them."""

from __future__ import annotations

import math
from typing import Any

from adapters.tasks.calibration import SETTING, TaskCalibration, with_task
from adapters.tasks.confidence import FEATURES, Confidence, Logistic
from adapters.tasks.defaults import TASK_WEIGHTS
from kbengine.inputs import Task

REPORT: dict[str, Any] = {
    "created_at": "2026-01-02T03:04:05+00:00",
    "generation": 3,
    "files": {"dev.jsonl": 40},
    "weights": None,
    "confidence": {
        "records": 40,
        "share_right": 0.5,
        "before": {"brier": 0.3, "ece": 0.2, "bins": []},
        "after": {
            "brier": 0.1,
            "ece": 0.05,
            "bins": [{"from": 0.5, "to": 0.6, "n": 40, "mean_probability": 0.55, "share_right": 0.5}],
        },
        "at_threshold": {"precision": 0.8, "recall": 0.4, "f1": 0.5, "answered": 0.5},
    },
}


def constant(probability: float) -> Logistic:
    """A model that gives one probability, whatever the features."""
    return Logistic((0.0,) * len(FEATURES), math.log(probability / (1 - probability)))


def calibration(
    task: Task = "question", *, best: float = 0.6, others: float = 0.2, threshold: float | None = None, **changes: Any
) -> TaskCalibration:
    """A calibration that gives the best answer one probability and the others another."""
    n = len(FEATURES)
    values: dict[str, Any] = {
        "task": task,
        "encoder": "f" * 64,
        "weights": TASK_WEIGHTS[task],
        "weights_fitted": False,
        "confidence": Confidence((0.0,) * n, (1.0,) * n, constant(best), constant(others)),
        "threshold": threshold,
        "threshold_for": "f1",
        "report": REPORT,
    }
    return TaskCalibration(**{**values, **changes})


def settings_with(*calibrations: TaskCalibration) -> dict[str, Any]:
    """The settings of a knowledge base that holds the calibrations."""
    value: Any = None
    for each in calibrations:
        value = with_task(value, each)
    return {SETTING: value}
