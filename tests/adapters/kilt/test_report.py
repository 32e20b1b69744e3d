"""What the command line prints, and the recall plot."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from adapters.errors import MissingExtraError
from adapters.kilt.plot import plot_recall, recall_at_k
from adapters.kilt.report import ranking_text, record_lines, scores_text
from adapters.kilt.scoring import Scores, score_files, score_retrieval_files
from storage.errors import InvalidOptionError

WriteJsonl = Callable[[str, Iterable[dict[str, object]]], Path]


def record(id: int, answer: str, page: str) -> dict[str, object]:
    """A record with one answer on one page."""
    return {"id": id, "output": [{"answer": answer, "provenance": [{"wikipedia_id": page}]}]}


@pytest.fixture
def files(write_jsonl: WriteJsonl) -> tuple[Path, Path]:
    """Gold and guess: one record right, one on the wrong page."""
    gold = write_jsonl("gold.jsonl", [record(1, "Ulm", "5"), record(2, "Ulm", "5")])
    return gold, write_jsonl("guess.jsonl", [record(2, "Ulm", "6"), record(1, "Ulm", "5"), record(3, "x", "7")])


@pytest.fixture
def scores(files: tuple[Path, Path]) -> Scores:
    """Their scores."""
    return score_files(*files)


def test_the_table_shows_scores_in_percent_and_the_gates(scores: Scores) -> None:
    """All groups, all ks, and how many records failed where."""
    text = scores_text(scores)
    assert "2 records (1 predictions for other ids ignored)" in text
    assert "KILT-accuracy 50.00" in text
    assert "ranking by wikipedia_id: Rprec 50.00" in text
    assert text.endswith("KILT-accuracy by record: 1 passed; failed: 0 answer, 1 Rprec, 0 both")


def test_the_retrieval_table_needs_no_answers(files: tuple[Path, Path]) -> None:
    """The same rows, without downstream scores."""
    text = ranking_text(score_retrieval_files(*files, ks=(1, 5)))
    assert "Rprec 50.00" in text
    assert "KILT" not in text
    assert "–" in text  # recall@1 has no value


def test_the_record_report_is_json_lines_in_gold_order(scores: Scores) -> None:
    """Each line says which gate failed and where the record is in both files."""
    lines = [json.loads(line) for line in record_lines(scores)]
    assert [(line["id"], line["gold_line"], line["guess_line"], line["failed_gate"]) for line in lines] == [
        ("1", 1, 2, "passed"),
        ("2", 2, 1, "Rprec"),
    ]
    assert [json.loads(line)["id"] for line in record_lines(scores, failed_only=True)] == ["2"]


def test_scores_as_json_hold_every_group(scores: Scores) -> None:
    """Serialisable as they are."""
    value = json.loads(json.dumps(scores.to_json("em")))
    assert value["kilt"]["KILT-em"] == 0.5
    assert value["gates"] == {"metric": "em", "passed": 1, "answer": 0, "Rprec": 1, "both": 0}
    assert set(value) == {"records", "ignored", "kilt", "downstream", "retrieval", "ranking", "rank_keys", "gates"}


def test_the_points_of_the_plot_are_the_recalls(scores: Scores) -> None:
    """Rising k, without recall@1, which has no value."""
    assert recall_at_k(scores.ranking) == {5: 0.5, 10: 0.5, 20: 0.5}


def test_without_matplotlib_the_plot_names_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extra is optional; the message is a command line."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"pip install matplotlib"):
        plot_recall({"ours": {5: 0.5}}, tmp_path / "recall.png")


def test_a_plot_without_points_or_of_another_format_is_refused(tmp_path: Path) -> None:
    """Before anything is drawn."""
    with pytest.raises(InvalidOptionError, match=r"\.png or \.svg is wanted"):
        plot_recall({"ours": {5: 0.5}}, tmp_path / "recall.pdf")
    with pytest.raises(InvalidOptionError, match="no recall@k"):
        plot_recall({"ours": {}}, tmp_path / "recall.png")
