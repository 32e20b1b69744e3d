"""`evaluate open`, `evaluate passages` and `export passages` as people call them, on a small knowledge base."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from adapters.kilt.scoring import score_retrieval_files
from adapters.open_domain.passages import read_passages
from kbengine.cli import cli
from kbengine.encoders.encoder import Encoder
from tests.kbengine.small_kb import build_small_kb
from tests.tiny_encoder import SENTENCES, write_tiny_encoder


def run(*arguments: object) -> tuple[str, str]:
    """What a command printed on stdout and on stderr."""
    result = CliRunner().invoke(cli, [str(each) for each in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.fixture(scope="module")
def knowledge_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten sentences, a document each."""
    folder = tmp_path_factory.mktemp("open")
    write_tiny_encoder(folder / "encoder")
    return build_small_kb(folder / "kb", Encoder.load(folder / "encoder", device="cpu", dtype="float32"))


def test_questions_are_scored_as_published(knowledge_base: Path, tmp_path: Path) -> None:
    """Words find the sentence: a passage holds the answer at rank 1 by BM25, in a row for each file."""
    first, last = tmp_path / "nq-test.qa.csv", tmp_path / "CuratedTrec-test.txt"
    first.write_text(f"{SENTENCES[2]}\t['Nobel Prize']\n{SENTENCES[0]}\t['South America']\n")
    last.write_text(json.dumps({"question": SENTENCES[2], "answer": ["No.el Pri[sz]e|Peace", "("]}) + "\n")
    records = tmp_path / "records.jsonl"
    out, said = run(
        *("evaluate", "open", first, last, "--kb", knowledge_base, "--retriever", "bm25"),
        *("--top-k", 4, "--records", records, "--json"),
    )
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["file"], row["form"], row["questions"]) for row in rows] == [
        (first.name, "dpr", 2),
        (last.name, "drqa", 1),
    ]
    assert [row[name] for row in rows for name in ("top-1", "top-100", "MRR@20")] == [100.0] * 6
    assert "F1@1" in rows[0] and rows[1]["F1@1"] is None
    assert "1 answers are no regular expressions" in said
    lines = [json.loads(line) for line in records.read_text().splitlines()]
    assert [line["answer_ranks"][0] for line in lines] == [1, 1, 1]
    assert len(lines) == 3 and lines[0]["answers"] == ["Nobel Prize"] and len(lines[0]["predictions"]) > 1


def test_answers_may_be_restricted_and_parts_left_out(knowledge_base: Path, tmp_path: Path) -> None:
    """WebQuestions' list of candidates decides which answers count; without passages there are no figures of them."""
    questions, allowed = tmp_path / "webq.jsonl", tmp_path / "entities.txt"
    questions.write_text(json.dumps({"question": SENTENCES[2], "answer": ["Nobel Prize"]}) + "\n")
    allowed.write_text("NOBEL PRIZE\n\n")
    records = tmp_path / "records.jsonl"
    out, _ = run(
        *("evaluate", "open", questions, "--kb", knowledge_base, "--no-passages", "--read", 0),
        *("--candidates", allowed, "--records", records, "--json"),
    )
    assert "top-1" not in json.loads(out)
    assert set(json.loads(records.read_text())["predictions"]) <= {"Nobel Prize", "nobel prize"}


@pytest.mark.parametrize("form", ["fid", "dpr", "kilt"])
def test_passages_are_written_for_readers(form: str, knowledge_base: Path, tmp_path: Path) -> None:
    """Each form is read back by what takes it; scores of the file are those of `evaluate open`."""
    questions, out = tmp_path / "nq.jsonl", tmp_path / f"{form}.json"
    questions.write_text(json.dumps({"id": "a", "input": SENTENCES[2], "output": [{"answer": "Nobel Prize"}]}) + "\n")
    _, said = run(
        *("export", "passages", questions, "--kb", knowledge_base, "--format", form, "--out", out),
        *("--retriever", "bm25", "--top-k", 3),
    )
    assert "1 questions exported" in said
    if form == "kilt":
        record = json.loads(out.read_text())
        assert record["output"][0]["provenance"][0]["wikipedia_id"] == "2"
        gold = tmp_path / "gold.jsonl"
        outputs = [{"answer": "Nobel Prize", "provenance": [{"wikipedia_id": "2"}]}]
        gold.write_text(json.dumps({"id": "a", "input": "", "output": outputs}) + "\n")
        measures = score_retrieval_files(gold, out, ks=[1, 2], rank_keys=("wikipedia_id",)).measures
        assert measures["Rprec"] == 1 and measures["answer_in_context@1"] == 1
        return
    (found,) = read_passages(out)
    assert (found.id, found.answers) == ("a" if form == "fid" else "0", ("Nobel Prize",))
    assert found.texts()[0] == SENTENCES[2] and found.passages[0]["has_answer"] is True
    assert ("target" in out.read_text()) == (form == "fid")
    assert isinstance(found.passages[0]["score"], float if form == "fid" else str)
    figures, _ = run("evaluate", "passages", out, "--json")
    assert json.loads(figures)["top-1"] == 100.0


def test_the_phrase_found_may_be_marked(knowledge_base: Path, tmp_path: Path) -> None:
    """As DensePhrases marks it; whether the passage holds an answer is told of the unmarked text."""
    questions = tmp_path / "nq.jsonl"
    questions.write_text(json.dumps({"question": SENTENCES[2], "answer": [SENTENCES[2]]}) + "\n")
    out, _ = run("export", "passages", questions, "--kb", knowledge_base, "--top-k", 1, "--read", 0, "--mark-phrases")
    (row,) = json.loads(out)
    text = row["ctxs"][0]["text"]
    assert "<p_start> " in text and text.replace("<p_start> ", "").replace(" <p_end>", "") in SENTENCES


def test_documents_are_still_exported_without_being_named(knowledge_base: Path) -> None:
    """`kbengine export` as it was."""
    plain, _ = run("export", "--kb", knowledge_base)
    named, _ = run("export", "documents", "--kb", knowledge_base)
    assert plain == named and len(plain.splitlines()) == len(SENTENCES)


def test_other_files_are_no_passages(tmp_path: Path) -> None:
    """The error names the file and the form wanted."""
    path = tmp_path / "x.json"
    path.write_text('[{"question": "a?"}]')
    result = CliRunner().invoke(cli, ["evaluate", "passages", str(path)])
    assert "DPR's or FiD's JSON" in str(result.exception)
