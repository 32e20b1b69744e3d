"""`kbengine feedback` as people and scripts use it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import random_document, synthetic_settings
from tests.test_cli import kbengine


@pytest.fixture
def kb(tmp_path):
    """A knowledge base of a document."""
    with KBWriter.create(tmp_path / "kb", synthetic_settings()) as writer:
        writer.add([random_document(np.random.default_rng(1), "ulm")])
    return tmp_path / "kb"


def records(done):
    """The JSON objects on stdout."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_life_of_feedback_by_command(kb, tmp_path):
    """Given, listed in pages, exported, deleted; the knowledge base is whole."""
    given = ("feedback", "add", "Which city?", "--right", "Ulm", "--document", "ulm", "--wrong", "Bonn")
    assert records(kbengine(*given, "--kb", kb, "--json")) == [{"added": [1, 2], "generation": 3}]
    page = kbengine("feedback", "list", "--limit", 1, "--kb", kb)
    assert "Ulm" in page.stdout and "Bonn" not in page.stdout and "--after 1" in page.stderr
    [wrong] = records(kbengine("feedback", "list", "--verdict", "wrong", "--kb", kb, "--json"))
    assert (wrong["feedback_id"], wrong["input"], wrong["answer"], wrong["doc_id"]) == (2, "Which city?", "Bonn", None)

    out = tmp_path / "said.jsonl"
    assert records(kbengine("feedback", "export", out, "--kb", kb, "--json"))[0]["rows"] == 1
    row = json.loads(out.read_text(encoding="utf-8"))
    assert row["output"][0]["provenance"][0]["wikipedia_id"] == "ulm"

    assert records(kbengine("feedback", "delete", 1, 2, "--kb", kb, "--json"))[0]["deleted"] == [1, 2]
    assert kbengine("feedback", "list", "--kb", kb, "--json").stdout == ""
    assert kbengine("verify", "--kb", kb).returncode == 0


def test_mistakes_are_told(kb, tmp_path):
    """On stderr, with exit status 2, or 1 for what is not there."""
    for arguments, code, told in (
        (("add", "Which city?"), 2, "no answer is judged"),
        (("add", "no separator", "--task", "slot-filling", "--right", "x"), 2, "SEP"),
        (("delete", "7"), 1, "no feedback 7"),
        (("export", tmp_path / "x.jsonl"), 2, "nothing to learn"),
    ):
        done = kbengine("feedback", *arguments, "--kb", kb)
        assert (done.returncode, told in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "x.jsonl").exists()
