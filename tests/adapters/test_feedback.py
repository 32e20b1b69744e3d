"""Feedback as it is given, and as the rows that tuning learns from."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.kilt.feedback_rows import feedback_rows
from adapters.tasks.defaults import TASK_WEIGHTS
from adapters.tasks.feedback import feedback_on
from adapters.tuning.tuning_files import TaskFile, read_gold_rows, tuning_rows
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Dialogue, Mention, Question, Slot
from storage.feedback_records import FeedbackRecord
from tests.web.page.fake_engine import answer


def record(number: int, text: str, verdict: Any = "right", **changes: Any) -> FeedbackRecord:
    """Stored feedback on a question."""
    values = {"task": "question", "input": "Where?", "doc_id": None, "paragraph": None, "at": "2026-01-02"} | changes
    return FeedbackRecord(feedback_id=number, answer=text, verdict=verdict, **values)


def test_inputs_have_their_text_form() -> None:
    """As in KILT's input; so two ways of asking the same are one."""
    asked = [Question("Where?"), Slot("Ulm", "country"), Mention("From Ulm.", (5, 8)), Dialogue(("Hi.", "Ulm?"))]

    new = [feedback_on(each, right="Ulm", document="ulm", paragraph=2)[0] for each in asked]

    assert [(each.task, each.input) for each in new] == [
        ("question", "Where?"),
        ("slot-filling", "Ulm [SEP] country"),
        ("entity-linking", "From [START_ENT] Ulm [END_ENT]."),
        ("dialogue", "Hi.\nUlm?"),
    ]
    assert {(each.answer, each.verdict, each.doc_id, each.paragraph) for each in new} == {("Ulm", "right", "ulm", 2)}


def test_an_answer_that_was_given_brings_its_place() -> None:
    """The document and paragraph of its best evidence; a document named beside is the texts' alone."""
    given = answer()

    right, text, wrong = feedback_on(Question("Who?"), right=[given, "Mia"], wrong="Noa", document="other")

    assert (right.answer, right.doc_id, right.paragraph) == ("Ines Rook", "vell", 2)
    assert (text.doc_id, wrong.doc_id, wrong.verdict) == ("other", None, "wrong")
    assert feedback_on(Question("Who?"), wrong="Noa", document="other")[0].doc_id == "other"


@pytest.mark.parametrize(
    ("asked", "judged", "told"),
    [
        (Question("Who?"), {}, "no answer is judged"),
        (Mention("From Ulm.", (5, 8)), {"right": "Ulm"}, "entity-linking is a document"),
        (Dialogue(("Hi.",)), {"right": "Ulm"}, "dialogue is a document"),
    ],
)
def test_what_teaches_nothing_is_refused(asked: Any, judged: dict[str, Any], told: str) -> None:
    """Nothing said, or a document's task without a document."""
    with pytest.raises(InvalidOptionError, match=told):
        feedback_on(asked, **judged)


def test_rows_have_the_right_answers_of_each_input() -> None:
    """With their pages; wrong ones under meta; inputs without a right answer are told of."""
    told: list[str] = []
    said = [
        record(1, "Paris", "wrong"),
        record(2, "Warsaw", doc_id="mc", paragraph=3),
        record(3, "Warszawa", doc_id="gone"),
        record(4, "Rome", "wrong", input="Whither?"),
    ]

    rows = feedback_rows(said, {"mc": "Marie Curie"}, notice=told.append)

    assert rows == [
        {
            "id": "feedback-1",
            "input": "Where?",
            "output": [
                {
                    "answer": "Warsaw",
                    "provenance": [
                        {"wikipedia_id": "mc", "title": "Marie Curie", "start_paragraph_id": 3, "end_paragraph_id": 3}
                    ],
                },
                {"answer": "Warszawa", "provenance": [{"wikipedia_id": "gone", "title": ""}]},
            ],
            "meta": {"wrong_answers": ["Paris"]},
        }
    ]
    assert told == ["left out: 1 inputs of which only wrong answers are known"]


def test_rows_are_what_tuning_reads(tmp_path) -> None:
    """The file of an export as a training file: answers, documents, paragraphs."""
    said = [record(1, "Warsaw", doc_id="mc", paragraph=3), record(2, "Ulm", input="Whither?")]
    path = tmp_path / "said.jsonl"
    lines = [json.dumps(row) for row in feedback_rows(said, {}, notice=print)]
    path.write_text("\n".join(lines), encoding="utf-8")
    file = TaskFile(path, "question")

    first, second = tuning_rows(file, read_gold_rows(file), TASK_WEIGHTS["question"])

    assert (first.answers, first.doc_ids, first.passages) == ({"Warsaw"}, {"mc"}, {("mc", 3)})
    assert second.lacks("phrase") is None and second.lacks("doc") == "no gold document"


def test_a_file_is_of_one_task_and_teaches_something() -> None:
    """Else the error says what to do."""
    with pytest.raises(InvalidOptionError, match="dialogue, question; export one"):
        feedback_rows([record(1, "a"), record(2, "b", task="dialogue")], {}, notice=print)
    with pytest.raises(InvalidOptionError, match="nothing to learn"):
        feedback_rows([record(1, "a", "wrong")], {}, notice=lambda _: None)
