"""The commands `predict`, `score` and `lint` as people and programs call them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from adapters.commands.kilt import SHOWN_RECORDS, lint, predict, score
from adapters.errors import RecordError, SubmissionError
from kbengine.errors import InvalidOptionError
from tests.adapters.fake_knowledge_base import write_lines

GOLD = [
    {
        "id": 1,
        "input": "a",
        "output": [{"answer": "Ulm", "provenance": [{"wikipedia_id": "5", "start_paragraph_id": 2}]}],
    },
    {"id": 2, "input": "b", "output": [{"answer": "Bonn", "provenance": [{"wikipedia_id": "6"}]}]},
    {"id": 3, "input": "c", "output": [{"answer": "Kiel", "provenance": [{"wikipedia_id": "7"}]}]},
]


def guess(id: int, answer: str, *pages: str) -> dict[str, object]:
    """One record of a submission."""
    return {"id": id, "output": [{"answer": answer, "provenance": [{"wikipedia_id": page} for page in pages]}]}


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """A gold file and a submission: one record right, one with the wrong page, one with the wrong answer."""
    guesses = [guess(1, "Ulm", "5", "6"), guess(2, "Bonn", "9", "6"), guess(3, "Ulm", "7")]
    gold = write_lines(tmp_path / "nq-dev-kilt.jsonl", GOLD)
    return str(gold), str(write_lines(tmp_path / "guess.jsonl", guesses))


def run(command: click.Command, *arguments: str, exit_code: int = 0):
    """What a command printed: stdout and stderr."""
    result = CliRunner().invoke(command, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == exit_code, result.output
    return result


@pytest.mark.parametrize("command", [predict, score, lint])
def test_every_command_has_an_example_in_its_help(command) -> None:
    """The example begins as it is typed."""
    assert f"kbengine {command.name} " in run(command, "--help").stdout


def test_score_prints_the_official_groups(files) -> None:
    """Downstream, KILT and pages in percent, and which gate failed."""
    text = run(score, *files).stdout
    assert "accuracy 66.67" in text
    assert "KILT-em 33.33" in text
    assert "Rprec 66.67" in text
    assert "1 passed; failed: 1 answer, 1 Rprec, 0 both" in text


def test_score_gives_one_json_object(files) -> None:
    """For programs; the metric of the gates is the data set's own."""
    scores = json.loads(run(score, *files, "--json", "--ks", "1,2").stdout)
    assert scores["kilt"]["KILT-em"] == pytest.approx(1 / 3)
    assert scores["retrieval"]["recall@5"] == 1.0
    assert scores["ranking"]["recall@2"] == 1.0
    assert scores["gates"]["metric"] == "em"


def test_the_report_by_record_says_which_gate_failed(files) -> None:
    """Records on stdout, the table on stderr; --failed-only leaves those that passed out."""
    result = run(score, *files, "--records")
    assert [json.loads(line)["failed_gate"] for line in result.stdout.splitlines()] == ["passed", "Rprec", "answer"]
    assert "KILT-em 33.33" in result.stderr
    assert [json.loads(line)["id"] for line in run(score, *files, "--failed-only").stdout.splitlines()] == ["2", "3"]


def test_retrieval_is_scored_without_answers_at_any_grain(files, tmp_path) -> None:
    """No answer is needed; paragraphs are matched where the guess names them."""
    bare = write_lines(
        tmp_path / "bare.jsonl", [{"id": i, "output": [{"provenance": [{"wikipedia_id": "5"}]}]} for i in (1, 2, 3)]
    )
    result = run(score, files[0], str(bare), "--retrieval", "--json")
    assert json.loads(result.stdout)["ranking"]["Rprec"] == pytest.approx(1 / 3)
    keys = ("--rank-keys", "wikipedia_id, start_paragraph_id")
    assert json.loads(run(score, files[0], str(bare), "--retrieval", "--json", *keys).stdout)["ranking"]["Rprec"] == 0.0
    failed = run(score, files[0], str(bare), "--retrieval", "--failed-only").stdout.splitlines()
    assert [json.loads(line)["id"] for line in failed] == ["2", "3"]


@pytest.mark.parametrize("ks", ["five", "1,,2", ""])
def test_depths_that_are_no_numbers_are_a_usage_error(files, ks) -> None:
    """Exit code 2 and what is wanted."""
    assert "wanted whole numbers" in run(score, *files, "--ks", ks, exit_code=2).stderr


def test_gold_without_answers_stops_the_score(tmp_path, files) -> None:
    """File, line and remedy are named; test inputs have no output at all."""
    empty = [{**GOLD[0], "output": [{"provenance": [{"wikipedia_id": "5"}]}]}, *GOLD[1:]]
    with pytest.raises(RecordError, match=r"gold\.jsonl:1: .*no answer.*--retrieval"):
        run(score, str(write_lines(tmp_path / "gold.jsonl", empty)), files[1])
    inputs = [{"id": 1, "input": "a"}]
    with pytest.raises(RecordError, match=r"inputs\.jsonl:1: no `output`"):
        run(score, str(write_lines(tmp_path / "inputs.jsonl", inputs)), files[1])


def test_a_guess_with_records_missing_is_not_scored(files, tmp_path) -> None:
    """The official evaluator stops there too."""
    some = write_lines(tmp_path / "some.jsonl", [guess(1, "Ulm", "5")])
    with pytest.raises(SubmissionError, match="no prediction for 2 of 3"):
        run(score, files[0], str(some))


def test_lint_accepts_with_exit_code_0_and_rejects_with_1(files, tmp_path) -> None:
    """Warnings alone do not reject; a missing record does."""
    assert "would be accepted" in run(lint, files[1], "--inputs", files[0]).stdout
    spoiled = write_lines(tmp_path / "spoiled.jsonl", [guess(1, "Ulm", "5"), guess(1, "", "5"), {"id": 2}])
    text = run(lint, str(spoiled), "--inputs", files[0], exit_code=1).stdout
    assert "would be rejected" in text
    for problem in ("duplicate_id", "missing_id", "no_output", "empty_answer"):
        assert problem in text


def test_lint_gives_json_lines_with_the_verdict_last(files, tmp_path) -> None:
    """One finding a line."""
    spoiled = write_lines(tmp_path / "spoiled.jsonl", [guess(1, "Ulm", "5")])
    lines = [
        json.loads(line)
        for line in run(lint, str(spoiled), "--inputs", files[0], "--json", exit_code=1).stdout.splitlines()
    ]
    assert {"rejected"} <= {line.get("severity") for line in lines[:-1]}
    assert (lines[-1]["accepted"], lines[-1]["records"], lines[-1]["rejected"]) == (False, 1, 2)


@pytest.mark.parametrize("command", ["score", "lint"])
def test_scoring_and_linting_do_not_import_torch(files, command) -> None:
    """They run where no model does, and start at once."""
    arguments = list(files) if command == "score" else [files[1]]
    code = (
        f"import sys; from adapters.commands.kilt import {command}\n"
        "heavy = {'torch', 'faiss', 'numpy', 'transformers'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        f"{command}.main({arguments!r}, standalone_mode=False)\n"
        "assert not {'torch', 'faiss', 'transformers'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_predict_needs_a_task_for_files_of_other_names(tmp_path) -> None:
    """Before the knowledge base is opened."""
    inputs = write_lines(tmp_path / "mine.jsonl", GOLD)
    with pytest.raises(InvalidOptionError, match="--task"):
        run(predict, str(inputs), "--kb", str(tmp_path / "none"), "--out", str(tmp_path / "out.jsonl"))


def test_predict_writes_a_submission_and_names_bad_records_on_stderr(tmp_path) -> None:
    """The whole way: pages, knowledge base, submission, lint, score; bad records beyond the first are counted."""
    from kbengine.build.builder import CorpusOptions, build
    from kbengine.build.filtering import DEFAULT_FILTER
    from kbengine.encoders.encoder import Encoder

    demo = Path(__file__).parents[2] / "kbengine" / "demo" / "corpus.jsonl"
    pages = write_lines(tmp_path / "pages.jsonl", demo.read_text(encoding="utf-8").split("\n")[:6])
    kb = tmp_path / "kb"
    build(CorpusOptions((pages,)), kb, encoder=Encoder.load("minilm-phrase"), filter_options=DEFAULT_FILTER)
    gold = {
        "input": "Abraham Lincoln [SEP] spouse",
        "output": [{"answer": "Mary Todd Lincoln", "provenance": [{"wikipedia_id": "abraham-lincoln"}]}],
    }
    bad = [{"id": f"bad{i}", "input": "no separator", "output": gold["output"]} for i in range(SHOWN_RECORDS + 2)]
    inputs = write_lines(tmp_path / "trex-dev-kilt.jsonl", [{"id": "good", **gold}, *bad])
    out = tmp_path / "submissions"
    out.mkdir()
    result = run(predict, str(inputs), "--kb", str(kb), "--out", str(out), "--json")
    facts = json.loads(result.stdout)
    assert (facts["answered"], facts["abstained"], facts["refused"]) == (1, 0, SHOWN_RECORDS + 2)
    assert f"{inputs}:2: " in result.stderr
    assert len(result.stderr.splitlines()) == SHOWN_RECORDS + 1
    assert "2 more" in result.stderr
    submission = out / "trex-dev-kilt.jsonl"
    assert run(lint, str(submission), "--inputs", str(inputs)).exit_code == 0
    assert json.loads(run(score, str(inputs), str(submission), "--json").stdout)["records"] == SHOWN_RECORDS + 3
