"""What answers are judged by: weights, probabilities and thresholds for each task, by the encoder.

Those of the default encoder ship with it; what `kbengine calibrate` stores with a knowledge base comes before them. One
setting of the knowledge base, versioned JSON: an entry for each task and encoder (by fingerprint), so that tuned
encoders have their own. An entry belongs to the encoder and the weights it was fitted with: one for another encoder or
for other weights is not used, and a notice says so. Version 1 had one entry a task.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any, Self

from adapters.tasks.confidence import Confidence
from adapters.tasks.defaults import TASK_WEIGHTS
from kbengine.errors import InvalidOptionError
from kbengine.inputs import TASKS, Task
from kbengine.search.query import Weights

SETTING = "task_calibration"
VERSION = 2
SHIPPED = "calibrations.json"
"""In this package: calibrations fitted with the default encoder by `recipes.probabilities`."""


@dataclass(frozen=True)
class TaskCalibration:
    """The calibration of one task.

    Attributes:
        task: The task.
        encoder: Fingerprint of the encoder it was fitted with.
        weights: The weights it was fitted with.
        weights_fitted: Whether these were fitted too, and so replace the task's default ones.
        confidence: The probability of an answer.
        threshold: The probability that the best answer has to reach unless a request says otherwise, None for none.
        threshold_for: What the threshold was chosen for, such as `f1` or `precision=0.9`.
        answerable_threshold: The probability that there is an answer at all below which none is given unless a request
            has a threshold; None where it was fitted on questions that all have an answer.
        report: Where the figures come from and how good they are, for people: files, rows, time, ECE, Brier score,
            reliability bins, the main figure before and after.
    """

    task: Task
    encoder: str
    weights: Weights
    weights_fitted: bool
    confidence: Confidence
    threshold: float | None
    threshold_for: str
    answerable_threshold: float | None = None
    report: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the calibration as it is stored."""
        return {
            "encoder": self.encoder,
            "weights": asdict(self.weights),
            "weights_fitted": self.weights_fitted,
            "confidence": self.confidence.to_json(),
            "threshold": self.threshold,
            "threshold_for": self.threshold_for,
            "answerable_threshold": self.answerable_threshold,
            "report": dict(self.report),
        }

    @classmethod
    def from_json(cls, task: Task, value: Mapping[str, Any]) -> Self:
        """Return the calibration that `to_json` wrote.

        Raises:
            ValueError: it is not whole, or of another version of the features.
        """
        try:
            threshold, answerable = value["threshold"], value.get("answerable_threshold")
            return cls(
                task=task,
                encoder=str(value["encoder"]),
                weights=Weights(**value["weights"]),
                weights_fitted=bool(value["weights_fitted"]),
                confidence=Confidence.from_json(value["confidence"]),
                threshold=None if threshold is None else float(threshold),
                threshold_for=str(value["threshold_for"]),
                answerable_threshold=None if answerable is None else float(answerable),
                report=dict(value["report"]),
            )
        except (KeyError, TypeError, InvalidOptionError) as error:
            raise ValueError(f"it is not whole ({error!r})") from error


@dataclass(frozen=True)
class Calibrations:
    """The calibrations in force, and what people should know about those that are not.

    Attributes:
        tasks: By task; those that fit the encoder and the weights.
        notices: One sentence for each entry that was left out.
    """

    tasks: Mapping[Task, TaskCalibration] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def weights(self, task: Task) -> Weights:
        """Return the task's weights: the fitted ones, else the default."""
        found = self.tasks.get(task)
        return found.weights if found is not None and found.weights_fitted else TASK_WEIGHTS[task]


def calibrations_of(setting: Any, *, encoder: str, tasks: Sequence[Task] = TASKS) -> Calibrations:
    """Return the calibrations for the encoder: those in the value of the setting, and the shipped ones of other tasks.

    Stored ones that do not belong to the encoder or to the weights in use are left out, with a notice where they are of
    these tasks: those that it answers.
    """
    stored = stored_calibrations(setting, encoder=encoder, tasks=tasks)
    return Calibrations({**_shipped(encoder), **stored.tasks}, stored.notices)


def stored_calibrations(setting: Any, *, encoder: str, tasks: Sequence[Task] = TASKS) -> Calibrations:
    """Return the calibrations in the value of the setting that belong to the encoder and to the weights in use.

    Notices are of those among these tasks that do not.
    """
    if setting is None:
        return Calibrations()
    entries = _entries(setting)
    if entries is None:
        seen = setting.get("version") if isinstance(setting, dict) else setting
        return Calibrations(
            notices=(_left_out("all tasks", f"it has version {seen!r}, this kbengine reads up to {VERSION}"),)
        )
    of_tasks: dict[Task, TaskCalibration] = {}
    notices: dict[Task, str] = {}
    for task in TASKS:
        if task not in entries:
            continue
        stored = entries[task]
        if not isinstance(stored, dict) or not stored:
            notices[task] = f"it is not whole ({stored!r:.40})"
            continue
        if encoder not in stored:
            others = ", ".join(str(each)[:12] for each in stored)
            notices[task] = f"it was fitted with encoder {others}, this one is {encoder[:12]}"
            continue
        try:
            found = TaskCalibration.from_json(task, stored[encoder])
        except ValueError as error:
            notices[task] = str(error)
            continue
        if not found.weights_fitted and found.weights != TASK_WEIGHTS[task]:
            notices[task] = f"it was fitted with {found.weights}, now {TASK_WEIGHTS[task]} are used"
        else:
            of_tasks[task] = found
    return Calibrations(of_tasks, tuple(_left_out(task, why) for task, why in notices.items() if task in tasks))


def with_task(setting: Any, calibration: TaskCalibration) -> dict[str, Any]:
    """Return the setting's value with the calibration in it, those of other tasks and encoders as they are."""
    entries = _entries(setting) or {}
    others = entries.get(calibration.task)
    of_task = {**(others if isinstance(others, dict) else {}), calibration.encoder: calibration.to_json()}
    return {"version": VERSION, "tasks": {**entries, calibration.task: of_task}}


def without_task(setting: Any, task: Task | None, *, encoder: str | None = None) -> dict[str, Any]:
    """Return the setting's value without the calibrations of the task (None: of any), of one encoder or of all."""
    kept: dict[str, Any] = {}
    for name, of_task in (_entries(setting) or {}).items():
        left = of_task
        if task is None or name == task:
            others = of_task if encoder is not None and isinstance(of_task, dict) else {}
            left = {each: entry for each, entry in others.items() if each != encoder}
        if left:
            kept[name] = left
    return {"version": VERSION, "tasks": kept}


def _shipped(encoder: str) -> Mapping[Task, TaskCalibration]:
    """Return the calibrations that ship for the encoder: none for any but the default one."""
    return stored_calibrations(_shipped_setting(), encoder=encoder).tasks


@functools.cache
def _shipped_setting() -> Any:
    """Return the file that ships, read once: it never changes."""
    file = files("adapters.tasks") / SHIPPED
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None


def _entries(setting: Any) -> dict[str, Any] | None:
    """Return what is stored by task: entries by encoder, if it is whole. None when it is of another version."""
    if setting is None:
        return {}
    tasks = setting.get("tasks") if isinstance(setting, dict) else None
    if not isinstance(tasks, dict) or setting.get("version") not in (1, VERSION):
        return None
    if setting["version"] == VERSION:
        return dict(tasks)
    return {task: _by_encoder(entry) for task, entry in tasks.items()}


def _by_encoder(entry: Any) -> dict[str, Any]:
    """Return an entry of version 1 under its encoder; nothing when it names none."""
    return {str(entry["encoder"]): entry} if isinstance(entry, dict) and "encoder" in entry else {}


def _left_out(whose: str, reason: str) -> str:
    return (
        f"the stored calibration of {whose} is not used: {reason}; fit it anew with 'kbengine calibrate', "
        "or remove it with --reset"
    )
