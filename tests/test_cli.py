"""The command line as people and scripts use it: exit codes, streams, messages."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from kbengine.cli import main
from storage.reader import KBReader

ROOT = Path(__file__).parent.parent


class Done(NamedTuple):
    """What a command did."""

    returncode: int
    stdout: str
    stderr: str


def kbengine(*arguments, stdin=""):
    """Run the command in this process (torch is imported once) and return what it did."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = 0
    before, sys.stdin = sys.stdin, io.StringIO(stdin)
    try:
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            main([str(each) for each in arguments])
    except SystemExit as e:
        code = e.code or 0
    finally:
        sys.stdin = before
    return Done(code, stdout.getvalue(), stderr.getvalue())


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A folder of two texts."""
    folder = tmp_path_factory.mktemp("texts")
    (folder / "quillmere.md").write_text(
        "# Quillmere\n\nQuillmere is a village on the river Tarn.\n\nIts mill was built in 1764 by Ada Thorne.\n",
        "utf-8",
    )
    (folder / "harrow.txt").write_text(
        "Harrowby\n\nThe lighthouse of Harrowby was designed by Emil Sand in 1851.\n", "utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def kb(texts, tmp_path_factory):
    """A knowledge base built from it by the command."""
    path = tmp_path_factory.mktemp("cli") / "kb"
    done = kbengine("build", texts, "--kb", path, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["documents"] == 2 and 0 < facts["kept_fraction"] <= 1
    return path


def test_a_question_is_answered_as_text_and_as_json(kb):
    """Both name the answer, its document and its characters; stderr stays empty."""
    text = kbengine("query", "--kb", kb, "Who built the mill of Quillmere?", "-k", 1)
    record = json.loads(kbengine("query", "--kb", kb, "Who built the mill of Quillmere?", "-k", 1, "--json").stdout)

    assert "Ada Thorne" in text.stdout and "quillmere.md" in text.stdout and text.stderr == ""
    place = record["answers"][0]["evidence"][0]
    assert record["answers"][0]["text"] == "Ada Thorne" == place["passage"]["text"][slice(*place["span"])]


def test_queries_come_from_stdin_one_a_line(kb):
    """Each line gives one JSON object, in order."""
    done = kbengine("query", "--kb", kb, "-", "-k", 1, "--json", stdin="Who designed the lighthouse?\nWhat river?\n")

    assert [json.loads(line)["query"] for line in done.stdout.split("\n") if line] == [
        "Who designed the lighthouse?",
        "What river?",
    ]


def test_explain_shows_the_parts_of_the_score(kb):
    """The parts are printed and sum to the score."""
    done = kbengine("query", "--kb", kb, "Who designed the lighthouse?", "-k", 1, "--explain", "--json")

    place = json.loads(done.stdout)["answers"][0]["evidence"][0]
    assert sum(place["parts"].values()) == pytest.approx(place["score"], abs=1e-3)
    explained = kbengine("query", "--kb", kb, "Who designed it?", "-k", 1, "--explain").stdout
    assert "+ lexical" in explained and f"; encoder {json.loads(done.stdout)['encoder'][:12]}; ms: " in explained


def test_export_and_import_give_the_same_documents(kb, tmp_path):
    """What one writes the other reads."""
    exported = tmp_path / "documents.jsonl.gz"
    assert kbengine("export", "--kb", kb, "--out", exported).returncode == 0
    assert kbengine("build", exported, "--kb", tmp_path / "copy").returncode == 0

    original = kbengine("export", "--kb", kb, "--out", "-").stdout
    assert kbengine("export", "--kb", tmp_path / "copy", "--out", "-").stdout == original


def test_add_delete_compact_verify_and_info(texts, tmp_path):
    """The life of a document by command, each step seen by `info`."""
    path = tmp_path / "kb"
    assert kbengine("build", texts, "--kb", path).returncode == 0
    (tmp_path / "new.txt").write_text("Dunmore\n\nThe bell of Dunmore was cast in 1909.\n", "utf-8")
    assert kbengine("add", tmp_path / "new.txt", "--kb", path).returncode == 0
    assert "1909" in kbengine("query", "--kb", path, "When was the bell of Dunmore cast?", "-k", 1).stdout
    assert kbengine("delete", "new.txt", "--kb", path).returncode == 0
    assert json.loads(kbengine("info", "--kb", path, "--json").stdout)["deleted_documents_not_compacted"] == 1
    assert kbengine("compact", "--kb", path).returncode == 0
    facts = json.loads(kbengine("info", "--kb", path, "--json").stdout)
    assert (facts["documents"], facts["deleted_documents_not_compacted"], facts["segments"]) == (2, 0, 1)
    verified = kbengine("verify", "--deep", "--kb", path)
    assert verified.returncode == 0 and "nothing is wrong" in verified.stdout
    assert "history" in kbengine("inspect", "--kb", path).stdout
    assert "compact" in kbengine("inspect", "history", "--kb", path).stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["query", "--kb", "{kb}", ""], 2, "empty"),
        (["query", "--kb", "{kb}", "why " * 70], 2, "tokens"),
        (["query", "--kb", "{kb}", "x", "-k", "0"], 2, "wanted 1 to 1000"),
        (["query", "--kb", "{kb}", "x", "-k", "1000000000"], 2, "wanted 1 to 1000"),
        (["query", "--kb", "{kb}", "x", "--unit", "chapter"], 2, "chapter"),
        (["query", "--kb", "{kb}", "--task", "slot-filling", "no separator"], 2, "[SEP]"),
        (["query", "--kb", "{kb}", "--task", "entity-linking", "no mention"], 2, "[START_ENT]"),
        (["query", "--kb", "{tmp}/nowhere", "x"], 1, "nowhere"),
        (["query", "--kb", "{tmp}", "x"], 1, "knowledge base"),
        (["delete", "unknown-id", "--kb", "{kb}"], 1, "unknown-id"),
        (["build", "{tmp}/missing.jsonl", "--kb", "{tmp}/new"], 1, "missing.jsonl"),
        (["build", "{texts}", "--kb", "{kb}"], 1, "kbengine add"),
        (["build", "{texts}", "--kb", "{tmp}/new", "--keep-fraction", "2"], 2, "kept fraction"),
        (["build", "{texts}", "--kb", "{tmp}/new", "--encoder", "no-such-model"], 1, "no-such-model"),
        (["build", "{texts}", "--kb", "{tmp}/new", "--nlist", "0"], 2, "nlist"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_what_cannot_be_done_is_one_line_on_stderr(kb, texts, tmp_path, arguments, exit_code, message):
    """Exit code 2 for usage, 1 for failure; no traceback, nothing on stdout."""
    done = kbengine(*(each.format(kb=kb, tmp=tmp_path, texts=texts) for each in arguments))

    assert done.returncode == exit_code, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_bad_line_is_named_and_can_be_skipped(tmp_path):
    """By file and line; --skip-bad counts it."""
    corpus = tmp_path / "pages.jsonl"
    good = json.dumps({"_id": "1", "wikipedia_id": "1", "wikipedia_title": "A", "text": ["A", "About the letter A."]})
    corpus.write_text(good + "\n{broken\n", "utf-8")

    refused = kbengine("build", corpus, "--kb", tmp_path / "a", "--format", "kilt")
    skipped = kbengine("build", corpus, "--kb", tmp_path / "b", "--format", "kilt", "--skip-bad")

    assert refused.returncode == 1 and "line 2" in refused.stderr
    assert skipped.returncode == 0 and "1 bad records skipped" in skipped.stderr


def test_a_reader_that_goes_away_is_no_error(kb):
    """`kbengine … | head -1` ends quietly."""
    command = f"{sys.executable} -m kbengine.cli export --kb {kb} --out - | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert "Traceback" not in done.stderr


def test_the_index_options_of_a_build_are_kept(texts, tmp_path):
    """Nlist and nprobe are stored with the knowledge base."""
    assert kbengine("build", texts, "--kb", tmp_path / "kb", "--nlist", 8, "--nprobe", 4).returncode == 0

    with KBReader.open(tmp_path / "kb") as reader:
        assert (reader.settings.ann_options.nlist, reader.settings.ann_options.nprobe) == (8, 4)
