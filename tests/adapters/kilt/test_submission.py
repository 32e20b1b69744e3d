"""Writing submissions that are whole or not there."""

from __future__ import annotations

import json
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.errors import SubmissionError
from adapters.kilt.submission import Prediction, SubmissionWriter, prediction_line
from adapters.tasks.provenance import PageProvenance
from storage.errors import LockedError, StorageFullError

PAGES = (
    PageProvenance("5", title="Ulm", start_paragraph_id=1, start_character=3, end_paragraph_id=1, end_character=6),
    PageProvenance("7"),
    PageProvenance("5", start_paragraph_id=2),
)


def prediction(id: str | int, answer: str = "Ulm") -> Prediction:
    """A prediction with three entries on two pages."""
    return Prediction(id, answer, PAGES)


def ids_of(path: Path) -> list[object]:
    """The ids of a finished file."""
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_a_record_has_one_output_with_distinct_pages_best_first() -> None:
    """A page's second passage is dropped, the first keeps its paragraph and characters; ids are echoed as read."""
    assert json.loads(prediction_line(prediction(7))) == {
        "id": 7,
        "output": [
            {
                "answer": "Ulm",
                "provenance": [
                    {
                        "wikipedia_id": "5",
                        "title": "Ulm",
                        "start_paragraph_id": 1,
                        "start_character": 3,
                        "end_paragraph_id": 1,
                        "end_character": 6,
                    },
                    {"wikipedia_id": "7"},
                ],
            }
        ],
    }


@given(answer=st.text(), title=st.text())
def test_any_text_makes_one_ascii_line(answer: str, title: str) -> None:
    """Line separators, lone surrogates and control characters are escaped, so readers in any encoding agree."""
    line = prediction_line(Prediction("1", answer, (PageProvenance("5", title=title),)))
    assert line.isascii()
    assert len(line.splitlines()) == 1
    assert json.loads(line)["output"][0]["answer"] == answer


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Prediction(" ", "x", ()), "echo the id"),
        (Prediction(True, "x", ()), "echo the id"),
        (Prediction(1, None, ()), "write it as a string"),  # type: ignore[arg-type]
        (Prediction(1, "x", (PageProvenance(" "),)), "non-blank string"),
        (Prediction(1, "x", (PageProvenance(5),)), "non-blank string"),  # type: ignore[arg-type]
        (Prediction(1, "x", (PageProvenance("5", score=float("nan")),)), "NaN or infinite"),
    ],
)
def test_an_invalid_record_is_refused_and_its_batch_with_it(tmp_path: Path, bad: Prediction, message: str) -> None:
    """Nothing of the batch reaches the file."""
    with SubmissionWriter(tmp_path / "out.jsonl") as writer:
        writer.write([prediction("a")])
        with pytest.raises(SubmissionError, match=message):
            writer.write([prediction("b"), bad])
        assert writer.done_ids == {"a"}
        assert ids_of(writer.finish()) == ["a"]


def test_the_name_appears_only_when_the_file_is_finished(tmp_path: Path) -> None:
    """Until then there is only the partial file, afterwards only the finished one."""
    path = tmp_path / "out.jsonl"
    with SubmissionWriter(path) as writer:
        assert writer.write([prediction(1), prediction(2)]) == 2
        assert not path.exists()
        assert writer.finish() == path
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]


def test_an_id_is_written_once(tmp_path: Path) -> None:
    """Compared as the evaluator compares them."""
    with SubmissionWriter(tmp_path / "out.jsonl") as writer:
        writer.write([prediction(1)])
        with pytest.raises(SubmissionError, match="'1' was written before"):
            writer.write([prediction(" 1")])


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_last_line_is_dropped_on_resume(tmp_path: Path, cut: int) -> None:
    """Wherever the crash cut the last record, resuming goes on behind the last whole one."""
    path = tmp_path / "out.jsonl"
    with SubmissionWriter(path) as writer:
        writer.write([prediction(1), prediction(2)])
    partial = tmp_path / "out.jsonl.partial"
    partial.write_bytes(partial.read_bytes()[:-cut])
    with SubmissionWriter(path, resume=True) as writer:
        assert writer.done_ids == {"1"}
        writer.write([prediction(2), prediction(3)])
        assert ids_of(writer.finish()) == [1, 2, 3]


def test_a_last_line_of_lost_blocks_is_dropped_on_resume(tmp_path: Path) -> None:
    """After a power cut a file's tail may be NUL bytes."""
    path = tmp_path / "out.jsonl"
    with SubmissionWriter(path) as writer:
        writer.write([prediction(1)])
    with (tmp_path / "out.jsonl.partial").open("ab") as stream:
        stream.write(b"\0" * 300 + b"\n")
    with SubmissionWriter(path, resume=True) as writer:
        assert writer.done_ids == {"1"}


def test_damage_before_the_last_line_is_not_resumed(tmp_path: Path) -> None:
    """Only a crash at the end is ours; anything else was someone else's."""
    path = tmp_path / "out.jsonl"
    (tmp_path / "out.jsonl.partial").write_text("junk\n" + prediction_line(prediction(1)))
    with pytest.raises(SubmissionError, match="partial:1: not a record, and more lines follow"):
        SubmissionWriter(path, resume=True)


def test_an_unfinished_or_finished_file_is_not_overwritten_unasked(tmp_path: Path) -> None:
    """Hours of predictions are not lost to a repeated command."""
    path = tmp_path / "out.jsonl"
    with SubmissionWriter(path) as writer:
        writer.write([prediction(1)])
    with pytest.raises(SubmissionError, match="unfinished run; pass --resume"):
        SubmissionWriter(path)
    with SubmissionWriter(path, resume=True) as writer:
        writer.finish()
    with pytest.raises(SubmissionError, match="exists and is complete"):
        SubmissionWriter(path, resume=True)
    with SubmissionWriter(path, overwrite=True) as writer:
        assert writer.done_ids == frozenset()
        writer.write([prediction(2)])
        assert ids_of(writer.finish()) == [2]


def test_predictions_of_other_settings_are_not_mixed(tmp_path: Path) -> None:
    """A partial file remembers what its predictions depend on."""
    path = tmp_path / "out.jsonl"
    with SubmissionWriter(path, signature="generation 1") as writer:
        writer.write([prediction(1)])
    with pytest.raises(SubmissionError, match="begun with 'generation 1', this run has 'generation 2'"):
        SubmissionWriter(path, resume=True, signature="generation 2")
    with SubmissionWriter(path, resume=True, signature="generation 1") as writer:
        writer.finish()
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.jsonl"]


def test_two_writers_of_one_file_are_kept_apart(tmp_path: Path) -> None:
    """The second is told, not interleaved."""
    with SubmissionWriter(tmp_path / "out.jsonl"), pytest.raises(LockedError, match="another process is writing"):
        SubmissionWriter(tmp_path / "out.jsonl", resume=True)


def test_a_full_disk_takes_the_whole_batch_back(tmp_path: Path) -> None:
    """A file-size limit stands in for a full disk; after it is lifted the same writer goes on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with SubmissionWriter(tmp_path / "out.jsonl") as writer:
        writer.write([prediction(1)])
        size = writer.partial.stat().st_size
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, hard))
            with pytest.raises(StorageFullError, match=r"out\.jsonl\.partial"):
                writer.write([prediction(2), prediction(3)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
        assert writer.partial.stat().st_size == size
        writer.write([prediction(2)])
        assert ids_of(writer.finish()) == [1, 2]


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    """Writing or finishing after the end is an error, not a crash."""
    writer = SubmissionWriter(tmp_path / "out.jsonl")
    writer.close()
    writer.close()
    for call in (lambda: writer.write([prediction(1)]), writer.finish):
        with pytest.raises(SubmissionError, match="is closed"):
            call()


def test_an_impossible_path_is_named(tmp_path: Path) -> None:
    """The folder must exist."""
    with pytest.raises(SubmissionError, match="cannot be opened"):
        SubmissionWriter(tmp_path / "absent" / "out.jsonl")
    assert list(tmp_path.iterdir()) == []
