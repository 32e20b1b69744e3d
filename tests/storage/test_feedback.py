"""What people say about answers: stored, replaced, listed, deleted; it outlives the documents."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest
from pysqlite3 import dbapi2

from storage.errors import CorruptError, InvalidOptionError, UnknownFeedbackError
from storage.feedback_records import FeedbackRecord, NewFeedback
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_settings

FROZEN = Path(__file__).parent.parent / "frozen" / "kb-39f580c"


def new(answer: str = "Ulm", verdict: Any = "right", **changes: Any) -> NewFeedback:
    """Feedback on a question about a river."""
    return NewFeedback("question", changes.pop("input", "Which city lies on the river?"), answer, verdict, **changes)


def stored(path: Path, **options: Any) -> list[FeedbackRecord]:
    """What is listed."""
    with KBReader.open(path) as reader:
        return reader.list_feedback(**options)


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """Two documents without feedback."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber basalt cedar"), make_document("b", "delta ember fjord")])
    return tmp_path / "kb"


def test_feedback_is_listed_as_it_was_given(kb: Path) -> None:
    """With its number and time, oldest first."""
    with KBWriter.open(kb) as writer:
        change = writer.add_feedback([new(doc_id="a", paragraph=1), new("Bonn", "wrong")])

    found = stored(kb)
    assert [each.feedback_id for each in found] == list(change.ids) == [1, 2]
    assert [(each.answer, each.verdict, each.doc_id, each.paragraph) for each in found] == [
        ("Ulm", "right", "a", 1),
        ("Bonn", "wrong", None, None),
    ]
    assert all(each.input == "Which city lies on the river?" and each.at.endswith("+00:00") for each in found)


def test_listings_are_of_a_task_of_a_verdict_and_in_pages(kb: Path) -> None:
    """A page begins after the last number of the one before."""
    with KBWriter.open(kb) as writer:
        writer.add_feedback([new(f"answer {i}", "wrong" if i % 2 else "right") for i in range(5)])
        writer.add_feedback([dataclasses.replace(new(), task="dialogue")])

    assert [each.answer for each in stored(kb, verdict="wrong")] == ["answer 1", "answer 3"]
    assert [each.task for each in stored(kb, task="dialogue")] == ["dialogue"]
    assert [each.feedback_id for each in stored(kb, after=2, limit=2)] == [3, 4]


def test_the_last_word_on_an_answer_counts(kb: Path) -> None:
    """Of the same answer of the same document to the same input; another document's stays."""
    with KBWriter.open(kb) as writer:
        writer.add_feedback([new(), new(doc_id="a"), new(verdict="wrong")])
        writer.add_feedback([new("  Ulm\n", verdict="wrong", doc_id="a")])

    assert [(each.doc_id, each.verdict, each.feedback_id) for each in stored(kb)] == [
        (None, "wrong", 1),
        ("a", "wrong", 3),
    ]


def test_the_same_operation_is_done_once(kb: Path) -> None:
    """By its name, for what is given and what is deleted; the first one's numbers come back."""
    with KBWriter.open(kb) as writer:
        first = writer.add_feedback([new(), new("Bonn", "wrong")], op_id="one")
        again = writer.add_feedback([new("something else")], op_id="one")
        gone = writer.delete_feedback([first.ids[0]], op_id="two")
        assert writer.delete_feedback([first.ids[0]], op_id="two") == gone

    assert first == again and gone.ids == first.ids[:1]
    assert [each.answer for each in stored(kb)] == ["Bonn"]


def test_a_deleted_number_is_never_used_again(kb: Path) -> None:
    """The newest one's neither, after a compaction that writes the file anew neither."""
    with KBWriter.open(kb) as writer:
        writer.add_feedback([new("one"), new("two")])
        writer.delete_feedback([2])
        writer.compact(purge=True)
        assert writer.add_feedback([new("three")]).ids == (3,)


def test_unknown_numbers_delete_nothing(kb: Path) -> None:
    """The message names the first of them."""
    with KBWriter.open(kb) as writer:
        writer.add_feedback([new()])
        with pytest.raises(UnknownFeedbackError, match="no feedback 7 "):
            writer.delete_feedback([1, 9, 7])
        with pytest.raises(InvalidOptionError, match="no feedback was named"):
            writer.delete_feedback([])

    assert len(stored(kb)) == 1


def test_feedback_outlives_its_documents(kb: Path) -> None:
    """Deleted, replaced, compacted: what was said stays, and the knowledge base is whole."""
    with KBWriter.open(kb) as writer:
        writer.add_feedback([new(doc_id="a", paragraph=1), new("x", doc_id="b")])
        before = writer.delete(["a"]).generation
        writer.add([make_document("b", "glacier harbor island")])
        writer.compact(purge=True)

    assert [each.doc_id for each in stored(kb)] == ["a", "b"]
    assert verify(kb, deep=True).ok
    with KBReader.open(kb) as reader:
        assert reader.snapshot().generation > before


def test_a_changed_letter_is_found(kb: Path) -> None:
    """By verify, and by whoever reads the row."""
    with KBWriter.open(kb) as writer:
        writer.add_feedback([new()])
    with dbapi2.connect(str(kb / "kb.sqlite")) as connection:
        connection.execute("UPDATE feedback SET answer = 'Uln'")

    assert [each.where for each in verify(kb).findings] == ["kb.sqlite: feedback"]
    with pytest.raises(CorruptError, match="feedback"):
        stored(kb)


def test_a_knowledge_base_of_an_earlier_version_has_none_until_it_is_written(tmp_path: Path) -> None:
    """Read as it is; the first writer brings the table, and a copy of what was before is kept."""
    kb = Path(shutil.copytree(FROZEN, tmp_path / "kb"))
    assert stored(kb) == []

    with KBWriter.open(kb) as writer:
        writer.add_feedback([new()])

    assert len(stored(kb)) == 1
    assert verify(kb).ok and (kb / "kb.sqlite.before-0005").is_file()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"verdict": "perhaps"}, "'perhaps', wanted one of right, wrong"),
        ({"answer": " "}, "answer of feedback is blank"),
        ({"input": "a\x00b"}, r"U\+0000"),
        ({"answer": "x" * 16_001}, "16,001 characters"),
        ({"doc_id": ""}, "a document's id or none"),
        ({"paragraph": 3}, "paragraph of feedback is 3 of document None"),
    ],
)
def test_what_cannot_be_stored_is_told(changes: dict[str, Any], told: str) -> None:
    """With the value seen and the value wanted."""
    with pytest.raises(InvalidOptionError, match=told):
        new(**changes)


def test_nothing_is_no_feedback(kb: Path) -> None:
    """An empty call is an error, not a commit."""
    with KBWriter.open(kb) as writer, pytest.raises(InvalidOptionError, match="no feedback was given"):
        writer.add_feedback([])
