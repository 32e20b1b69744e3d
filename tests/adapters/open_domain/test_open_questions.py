"""Question files of the open-domain literature: every published form gives the same questions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from adapters.errors import RecordError
from adapters.open_domain.questions import read_open_questions

ASKED, ANSWERS = "who wrote emma", ["Jane Austen", 'Miss "A" Austen']
FORMS = {
    "densephrases": json.dumps({"data": [{"id": "q_0", "question": ASKED, "answers": ANSWERS, "titles": [""]}]}),
    "squad": json.dumps(
        {
            "data": [
                {"paragraphs": [{"qas": [{"id": "q_0", "question": ASKED, "answers": [{"text": a} for a in ANSWERS]}]}]}
            ]
        },
        indent=1,
    ),
    "triviaqa": json.dumps({"Data": [{"QuestionId": "q_0", "Question": ASKED, "Answer": {"Aliases": ANSWERS}}]}),
    "webquestions": json.dumps(
        [{"utterance": ASKED, "targetValue": '(list (description "Jane Austen") (description Miss A Austen))'}]
    ),
    "dpr": json.dumps([{"question": ASKED, "answers": ANSWERS, "positive_ctxs": []}], indent=1),
    "drqa": json.dumps({"question": ASKED, "answer": ANSWERS}) + "\n",
    "kilt": json.dumps({"id": "q_0", "input": ASKED, "output": [{"answer": each} for each in ANSWERS]}) + "\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_form_is_told_by_what_is_in_the_file(form: str, tmp_path: Path) -> None:
    """Also where the file is gzipped; a question without an id of its own gets one of the file's name."""
    path = tmp_path / "q.txt.gz"
    path.write_bytes(gzip.compress(FORMS[form].encode()))
    found = read_open_questions(path)
    answers = ("Jane Austen", "Miss A Austen") if form == "webquestions" else tuple(ANSWERS)
    assert found.form == form
    assert [(each.id, each.text, each.answers) for each in found.questions] == [("q_0", ASKED, answers)]
    assert not found.questions[0].is_pattern


def test_tabbed_files_of_dpr_hold_lists_of_python(tmp_path: Path) -> None:
    """Quotes doubled as CSV has them; a line that holds no list is named."""
    path = tmp_path / "curatedtrec-test.qa.csv"
    path.write_text("who wrote emma\t['Jane Austen', \"O'Neill\"]\n" + "when\t\"['19\\\\d\\\\d']\"\n")
    found = read_open_questions(path)
    assert [each.answers for each in found.questions] == [("Jane Austen", "O'Neill"), (r"19\d\d",)]
    assert found.form == "dpr" and all(each.is_pattern for each in found.questions)
    assert not read_open_questions(path, patterns=False).questions[0].is_pattern
    path.write_text("who\t['x']\nwhen\n")
    with pytest.raises(RecordError, match=r":2: has no list of answers after a tab"):
        read_open_questions(path)


def test_questions_without_an_answer_are_counted(tmp_path: Path) -> None:
    """SQuAD 2.0's unanswerable ones, blank answers; equal ids are told apart; the origin stands before an id."""
    rows = [
        {"id": "1", "question": "a?", "answers": []},
        {"id": "1", "question": "b?", "answers": ["x", " ", "x"], "origin": "CuratedTrec.json"},
        {"id": "1", "question": " ", "answers": ["x"]},
        {"id": "2", "question": "c?", "answers": "y"},
        {"id": "2", "question": "d?", "answers": ["z"]},
    ]
    path = tmp_path / "mixed.json"
    path.write_text(json.dumps({"data": rows}))
    found = read_open_questions(path)
    assert [(each.id, each.answers, each.is_pattern) for each in found.questions] == [
        ("CuratedTrec-1", ("x",), True),
        ("2", ("y",), False),
        ("mixed_4", ("z",), False),
    ]
    assert found.left_out == {"no answer": 1, "no question": 1}
    assert len(read_open_questions(path, limit=1).questions) == 1


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", "has no list of answers|nothing to evaluate"),
        ("[1, 2]", "has no list of questions"),
        ("{", "is no JSON"),
        ('{"question": "a?"}\n', "nothing to evaluate"),
        ('{"question": "a?", "answer": ["b"]}\n[]\n', ":2: is no JSON object"),
    ],
)
def test_other_files_are_refused(text: str, seen: str, tmp_path: Path) -> None:
    """The error says what was seen."""
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=seen):
        read_open_questions(path)
