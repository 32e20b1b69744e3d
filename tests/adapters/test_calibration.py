"""What is stored by `calibrate`: read back, other tasks kept, left out when it does not fit."""

from __future__ import annotations

import json
import re

import pytest

from adapters.tasks.calibration import (
    SETTING,
    VERSION,
    calibrations_of,
    with_task,
    without_task,
)
from adapters.tasks.defaults import DEFAULT_UNITS, TASK_WEIGHTS
from adapters.tasks.queries import query_of
from kbengine.inputs import Dialogue, Mention, Question, Slot, task_of
from kbengine.search.query import Weights
from kbengine.span import Span
from tests.adapters.calibrations import calibration, settings_with

ENCODER = "f" * 64


def stored(*calibrations) -> dict:
    """The setting's value as it comes back from the database."""
    return json.loads(json.dumps(settings_with(*calibrations)[SETTING]))


def test_calibrations_come_back_as_they_were_stored() -> None:
    """All of them, with their weights."""
    fitted = calibration("dialogue", weights=Weights(1, 7, 3), weights_fitted=True, threshold=0.4)
    found = calibrations_of(stored(calibration("question"), fitted), encoder=ENCODER)
    assert dict(found.tasks) == {"question": calibration("question"), "dialogue": fitted}
    assert found.notices == ()
    assert found.weights("dialogue") == Weights(1, 7, 3)
    assert found.weights("question") == TASK_WEIGHTS["question"]
    assert found.weights("slot-filling") == TASK_WEIGHTS["slot-filling"]


def test_nothing_stored_is_nothing() -> None:
    """And no notice."""
    assert calibrations_of(None, encoder=ENCODER).tasks == {}


def test_a_task_is_replaced_or_forgotten_alone() -> None:
    """The others stay."""
    value = stored(calibration("question"), calibration("dialogue"))
    value = with_task(value, calibration("question", best=0.9))
    assert calibrations_of(value, encoder=ENCODER).tasks["question"] == calibration("question", best=0.9)
    assert list(calibrations_of(without_task(value, "question"), encoder=ENCODER).tasks) == ["dialogue"]
    assert calibrations_of(without_task(value, None), encoder=ENCODER).tasks == {}


def test_each_encoder_has_a_calibration_of_its_own() -> None:
    """Stored side by side, forgotten alone or together."""
    tuned = calibration("question", encoder="a" * 64, best=0.9)
    value = stored(calibration("question"), tuned)

    assert calibrations_of(value, encoder=ENCODER).tasks == {"question": calibration("question")}
    assert calibrations_of(value, encoder="a" * 64).tasks == {"question": tuned}
    value = without_task(value, "question", encoder="a" * 64)
    assert calibrations_of(value, encoder=ENCODER).tasks == {"question": calibration("question")}
    assert calibrations_of(value, encoder="a" * 64).tasks == {}
    assert without_task(value, "question")["tasks"] == {}


def test_the_first_version_is_read() -> None:
    """It had one entry a task, which named its encoder."""
    value = {"version": 1, "tasks": {"question": calibration("question").to_json()}}

    assert calibrations_of(value, encoder=ENCODER).tasks == {"question": calibration("question")}
    again = with_task(value, calibration("question", encoder="a" * 64))
    assert calibrations_of(again, encoder=ENCODER).tasks == {"question": calibration("question")}


@pytest.mark.parametrize(
    ("value", "notice"),
    [
        (
            stored(calibration("question", encoder="a" * 64)),
            r"question .*encoder aaaaaaaaaaaa, this one is ffffffffffff",
        ),
        (stored(calibration("question", weights=Weights(1, 7, 3))), r"question .*fitted with Weights.*7.* now"),
        ({"version": VERSION + 1, "tasks": {}}, f"version {VERSION + 1}, this kbengine reads up to {VERSION}"),
        ({"version": VERSION}, "all tasks"),
        ([1], "all tasks"),
        ({"version": VERSION, "tasks": {"question": {}}}, "question .*not whole"),
        ({"version": VERSION, "tasks": {"question": 5}}, "question .*not whole"),
        ({"version": VERSION, "tasks": {"question": {ENCODER: {}}}}, "question .*not whole"),
        (
            {
                "version": VERSION,
                "tasks": {
                    "question": {
                        ENCODER: {
                            **calibration().to_json(),
                            "confidence": {**calibration().to_json()["confidence"], "features": []},
                        }
                    }
                },
            },
            "question .*features",
        ),
    ],
)
def test_what_does_not_fit_is_left_out_with_a_notice(value, notice) -> None:
    """Another encoder, other default weights, a newer version, a damaged entry."""
    found = calibrations_of(value, encoder=ENCODER)
    assert found.tasks == {}
    (sentence,) = found.notices
    assert re.search(notice, sentence)
    assert "kbengine calibrate" in sentence
    # A new calibration takes the place of what could not be read.
    assert list(calibrations_of(with_task(value, calibration("dialogue")), encoder=ENCODER).tasks) == ["dialogue"]


@pytest.mark.parametrize("request_", [Question("?"), Slot("a", "b"), Mention("a", Span(0, 1)), Dialogue(["a"])])
def test_default_units_and_weights_are_those_of_the_queries(request_) -> None:
    """One definition each."""
    query = query_of(request_)
    assert (query.unit, query.weights) == (DEFAULT_UNITS[task_of(request_)], TASK_WEIGHTS[task_of(request_)])
