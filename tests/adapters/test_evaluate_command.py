"""`kbengine evaluate` as people and programs call it, on tiny models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from adapters.commands.evaluate import evaluate
from kbengine.encoders.encoder import Encoder
from kbengine.errors import UsageError
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder
from tests.tiny_reader import write_tiny_reader


def run(*arguments: object) -> str:
    """What a command printed on stdout."""
    result = CliRunner().invoke(evaluate, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny encoder and a tiny reader."""
    folder = tmp_path_factory.mktemp("models")
    write_tiny_encoder(folder / "encoder")
    write_tiny_reader(folder / "reader")
    return folder


@pytest.fixture(scope="module")
def squad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQuAD 2.0 file of three questions, one of them without answer."""
    answers = [(0, "South America"), (2, "Nobel Prize")]
    rows = [
        {
            "context": SENTENCES[number],
            "qas": [
                {
                    "id": f"q{number}",
                    "question": "What is it?",
                    "is_impossible": False,
                    "answers": [{"text": answer, "answer_start": SENTENCES[number].index(answer)}],
                }
            ],
        }
        for number, answer in answers
    ]
    rows[0]["qas"].append({"id": "none", "question": "When was it?", "is_impossible": True, "answers": []})  # type: ignore[attr-defined]
    path = tmp_path_factory.mktemp("data") / "toy-v2.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "Toy", "paragraphs": rows}]}))
    return path


def test_reading_gives_a_row_for_each_setting(models: Path, squad: Path, tmp_path: Path) -> None:
    """Encoder, small corpus and reader; unanswerable questions apart; one line a question on request."""
    lines = run(
        *("reading", squad, "--encoder", models / "encoder", "--reader", models / "reader"),
        *("--small-corpus", "--records", tmp_path / "records.jsonl", "--device", "cpu", "--json"),
    ).splitlines()
    rows = {row["setting"]: row for row in map(json.loads, lines)}
    assert list(rows) == ["gold passage", "small corpus", "reader"]
    assert all((row["questions"], row["answerable"]) == (3, 2) for row in rows.values())
    assert rows["gold passage"]["no_answer_em"] == 0 and rows["gold passage"]["threshold"] is None
    assert rows["reader"]["threshold"] == 0 and rows["reader"]["best_em"] >= rows["reader"]["em"]
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert len(records) == 9
    assert {record["id"] for record in records} == {"q0", "q2", "none"}


def test_reading_prints_a_table(models: Path, squad: Path) -> None:
    """Only columns that have figures; a row for each file and one for all."""
    other = squad.with_name("other.json")
    other.write_text(squad.read_text())
    text = run("reading", squad, other, "--encoder", models / "encoder", "--device", "cpu", "--limit", 5)
    assert "gold passage" in text and "HasAns EM" in text and "best F1 @" in text
    assert [line.split()[2:4] for line in text.splitlines()[1:]] == [["all", "5"], ["toy-v2", "3"], ["other", "2"]]
    assert "threshold" not in text and "small corpus" not in text


def test_pipeline_scores_every_file_and_their_mean(models: Path, tmp_path: Path) -> None:
    """Figures of each file, then the macro; the submissions stay where they were wanted."""
    encoder = Encoder.load(models / "encoder", device="cpu", dtype="float32")
    build_small_kb(tmp_path / "kb", encoder)
    record = {"id": "1", "input": "When does water boil?", "output": [{"answer": "at one hundred degrees"}]}
    record["output"][0]["provenance"] = [{"wikipedia_id": "9"}]  # type: ignore[index]
    for name in ("squad.dev.jsonl", "nqopen.dev.jsonl"):
        (tmp_path / name).write_text(json.dumps(record) + "\n")
    lines = run(
        *("pipeline", tmp_path / "squad.dev.jsonl", tmp_path / "nqopen.dev.jsonl", "--kb", tmp_path / "kb"),
        *("--reader", models / "reader", "--top-k", 2, "--out", tmp_path / "out", "--device", "cpu", "--json"),
    ).splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["file"] for row in rows] == ["squad.dev.jsonl", "nqopen.dev.jsonl", "macro"]
    assert rows[0]["passages_read"] == 2 and rows[0]["recall@5"] == 100
    assert rows[2]["f1"] == pytest.approx((rows[0]["f1"] + rows[1]["f1"]) / 2)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["nqopen.dev.jsonl", "squad.dev.jsonl"]


def test_every_command_has_an_example_in_its_help() -> None:
    """The example begins as it is typed."""
    for name in ("reading", "pipeline"):
        assert f"kbengine evaluate {name} " in run(name, "--help")


def test_data_without_a_phrase_is_named(models: Path, tmp_path: Path) -> None:
    """An encoder directory given as a reader is named too."""
    with pytest.raises(UsageError):
        run("reading", __file__, "--encoder", models / "encoder")
