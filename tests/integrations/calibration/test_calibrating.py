"""Calibrating on files: what is right, what is left out, what is stored and then used."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from adapters.calibration.calibrating import CalibrateOptions, calibrate, store
from adapters.errors import CalibrationError, RecordError
from adapters.tasks.answerer import Answerer, AnswerOptions
from adapters.tasks.calibration import SETTING, calibrations_of
from adapters.tasks.defaults import TASK_WEIGHTS
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question
from kbengine.search.query import Weights
from kbengine.text_form import input_of
from tests.adapters.calibrations import calibration, settings_with
from tests.adapters.fake_knowledge_base import UNASKABLE, write_lines
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase

NO_WEIGHTS = CalibrateOptions(with_weights=False)


def script(text: str) -> list[Place]:
    """Five places a query, the gold one on page G; it is first nine times of ten if the passage weight is large.

    With the default weights it is about half the time, the surer the further it leads.
    """
    generator = random.Random(text)
    lead, cosine = generator.gauss(0, 3), 0.4 + generator.gauss(0.08, 0.06)
    places = [
        Place(f"wrong{i}", f"It was wrong{i} here.", f"W{i}", start=30 - i, passage=0.4, passage_id=i + 1)
        for i in range(4)
    ]
    return [*places, Place("gold", "It was gold here.", "G", start=30 + lead - 1, passage=cosine, passage_id=9)]


def record(i: int, answer: str | None = "Gold.", page: str | None = "g", text: str | None = None) -> dict[str, object]:
    """A gold record."""
    output: dict[str, object] = {} if answer is None else {"answer": answer}
    output["provenance"] = [] if page is None else [{"wikipedia_id": page}]
    return {"id": f"q{i}", "input": f"Which metal, {i}?" if text is None else text, "output": [output]}


def dev_file(tmp_path: Path, records: list[object], name: str = "dev.jsonl") -> Path:
    """A development file."""
    return write_lines(tmp_path / name, records)


def test_a_calibration_is_fitted_stored_and_used(tmp_path) -> None:
    """Weights that are better are taken; answers get probabilities near the share that is right."""
    knowledge_base = ScriptedKnowledgeBase(script)
    path = dev_file(tmp_path, [record(i) for i in range(300)])
    found = calibrate(knowledge_base, [path], "question")
    assert knowledge_base.settings == {}
    assert found.weights_fitted and found.weights.passage > TASK_WEIGHTS["question"].passage
    assert (found.encoder, found.threshold_for, found.report["files"]) == ("f" * 64, "f1", {"dev.jsonl": 300})
    figures = found.report["confidence"]
    assert figures["after"]["ece"] < 0.12
    store(knowledge_base, found)
    assert calibrations_of(json.loads(json.dumps(knowledge_base.settings[SETTING])), encoder="f" * 64).tasks == {
        "question": found
    }
    answers = Answerer(knowledge_base).answer([Question(f"Which metal, {i}?") for i in range(1000, 1300)])
    right = [each.answers[0].text == "gold" for each in answers]
    mean = sum(each.answers[0].probability for each in answers) / 300
    assert mean == pytest.approx(sum(right) / 300, abs=0.1)
    assert {each.threshold for each in answers} == {found.threshold}


def test_weights_can_be_left_as_they_are(tmp_path) -> None:
    """No search for them; the calibration belongs to the default ones."""
    knowledge_base = ScriptedKnowledgeBase(script)
    found = calibrate(
        knowledge_base, [dev_file(tmp_path, [record(i) for i in range(80)])], "question", options=NO_WEIGHTS
    )
    assert (found.weights, found.weights_fitted) == (TASK_WEIGHTS["question"], False)
    assert found.report["weights"] is None
    assert {k for _, k in knowledge_base.asked} == {5}


def test_weights_fitted_before_stay_in_use(tmp_path) -> None:
    """Fitting probabilities anew does not throw them away."""
    knowledge_base = ScriptedKnowledgeBase(script)
    knowledge_base.settings = settings_with(calibration("question", weights=Weights(1, 15, 1), weights_fitted=True))
    found = calibrate(
        knowledge_base, [dev_file(tmp_path, [record(i) for i in range(80)])], "question", options=NO_WEIGHTS
    )
    assert (found.weights, found.weights_fitted) == (Weights(1, 15, 1), True)


@pytest.mark.parametrize(
    ("task", "answer", "page", "text"),
    [
        ("slot-filling", "the GOLD", "elsewhere", "Ring {} [SEP] P186"),
        ("entity-linking", "elsewhere", "g", "a [START_ENT] metal {} [END_ENT]"),
        ("dialogue", None, "g", "Hi.\nWhich metal, {}?"),
    ],
)
def test_right_is_the_answer_of_a_slot_and_the_page_of_a_mention_or_dialogue(
    tmp_path, task, answer, page, text
) -> None:
    """Compared after KILT's normalisation, or by id; the text form is the task's."""
    records = [record(i, answer, page, text.format(i)) for i in range(120)]
    found = calibrate(ScriptedKnowledgeBase(script), [dev_file(tmp_path, records)], task, options=NO_WEIGHTS)
    assert 0.2 < found.report["confidence"]["share_right"] < 0.8


def test_records_without_a_right_answer_teach_when_to_say_no(tmp_path) -> None:
    """An empty gold: whatever is found for it is wrong, and nothing is missed by not answering."""
    records = [record(i) for i in range(100)] + [record(i, None, None) for i in range(100, 200)]
    found = calibrate(ScriptedKnowledgeBase(script), [dev_file(tmp_path, records)], "question", options=NO_WEIGHTS)
    assert found.report["confidence"]["share_right"] < 0.4
    assert found.report["confidence"]["at_threshold"]["recall"] > 0.3


def test_bad_records_are_left_out_and_named(tmp_path) -> None:
    """File and line; the others count; one that cannot be encoded does not spoil its batch."""
    bad = [
        record(900, text="no separator"),
        {"id": "x"},
        record(901, text="x" * 100_001),
        record(902, text="Ring [SEP] P99999"),
        record(903, text=f"{UNASKABLE} [SEP] metal"),
        "{",
    ]
    good = [record(i, text=f"Ring {i} [SEP] metal") for i in range(50)]
    told: list[str] = []
    path = dev_file(tmp_path, [*bad, *good])
    found = calibrate(ScriptedKnowledgeBase(script), [path], "slot-filling", options=NO_WEIGHTS, notice=told.append)
    assert found.report["confidence"]["records"] == 50
    assert sorted(int(each.split("dev.jsonl:")[1].split(":")[0]) for each in told) == [1, 2, 3, 4, 5, 6]


def test_a_file_whose_answers_are_never_right_does_not_count_for_probabilities(tmp_path) -> None:
    """Its answers may be whole sentences; its pages still count for the weights."""
    told: list[str] = []
    files = [
        dev_file(tmp_path, [record(i) for i in range(60)], "phrases.jsonl"),
        dev_file(tmp_path, [record(i, "It is a whole sentence.") for i in range(60)], "sentences.jsonl"),
    ]
    found = calibrate(ScriptedKnowledgeBase(script), files, "question", notice=told.append)
    assert found.report["confidence"]["records"] == 60
    assert [each for each in told if each.startswith("sentences.jsonl: none of the answers to its 60 records is right")]
    figures = found.report["weights"]["files"]
    assert "KILT-em" in figures["phrases.jsonl"]["before"] and "KILT-em" not in figures["sentences.jsonl"]["before"]


def test_rows_are_drawn_from_long_files(tmp_path) -> None:
    """The same ones with the same seed."""
    path = dev_file(tmp_path, [record(i) for i in range(200)])
    options = CalibrateOptions(with_weights=False, rows=50, seed=5)
    first, second = (calibrate(ScriptedKnowledgeBase(script), [path], "question", options=options) for _ in range(2))
    assert first.report["files"] == {"dev.jsonl": 50}
    assert first.confidence == second.confidence


def test_progress_counts_every_search(tmp_path) -> None:
    """Two stages, each to its end."""

    class Counted:
        def __init__(self):
            self.stages = []

        def begin(self, what, total, unit):
            self.stages.append([total, 0.0])

        def advance(self, amount, note=""):
            self.stages[-1][1] += amount

    counted = Counted()
    calibrate(
        ScriptedKnowledgeBase(script),
        [dev_file(tmp_path, [record(i) for i in range(70)])],
        "question",
        progress=counted,
    )
    assert counted.stages == [[70, 70], [70, 70]]


def test_what_cannot_be_calibrated_is_an_error(tmp_path) -> None:
    """Nothing usable, a missing file, the same name twice, no file, a bad option."""
    knowledge_base = ScriptedKnowledgeBase(script)
    bare = dev_file(tmp_path, [{"id": 1, "input": "Which metal?"}], "bare.jsonl")
    with pytest.raises(CalibrationError, match=r"bare\.jsonl holds no record that can be asked as question"):
        calibrate(knowledge_base, [bare], "question")
    with pytest.raises(RecordError, match="missing"):
        calibrate(knowledge_base, [tmp_path / "missing.jsonl"], "question")
    with pytest.raises(InvalidOptionError, match=r"two files are called bare\.jsonl"):
        calibrate(knowledge_base, [bare, bare], "question")
    with pytest.raises(InvalidOptionError, match="no file was given"):
        calibrate(knowledge_base, [], "question")
    with pytest.raises(InvalidOptionError, match="rows of a file are 0"):
        CalibrateOptions(rows=0)
    with pytest.raises(InvalidOptionError, match="precision=2"):
        CalibrateOptions(threshold_for="precision=2")


def test_probabilities_of_requests_are_those_that_were_fitted(tmp_path) -> None:
    """Features at fitting time and at answering time are the same."""
    knowledge_base = ScriptedKnowledgeBase(script)
    found = calibrate(knowledge_base, [dev_file(tmp_path, [record(i) for i in range(60)])], "question")
    store(knowledge_base, found)
    requests = [input_of("question", f"Which metal, {i}?") for i in range(60)]
    for k in (1, 10):
        answers = Answerer(knowledge_base).answer(requests, AnswerOptions(k=k, threshold=0.0))
        # A logistic regression with an intercept gives the share that is right, over what it was fitted on.
        mean = sum(each.answers[0].probability for each in answers) / 60
        assert mean == pytest.approx(found.report["confidence"]["share_right"], abs=1e-3)
