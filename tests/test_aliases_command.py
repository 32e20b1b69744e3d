"""`kbengine aliases` as people and scripts use it: exit codes, streams, messages."""

from __future__ import annotations

import json

import numpy as np
import pytest

from storage.writer import KBWriter
from tests.kbengine.synthetic_kb import random_document, synthetic_settings
from tests.test_cli import kbengine


@pytest.fixture
def kb(tmp_path):
    """A knowledge base of two documents."""
    rng = np.random.default_rng(1)
    with KBWriter.create(tmp_path / "kb", synthetic_settings()) as writer:
        writer.add([random_document(rng, "ulm"), random_document(rng, "rhine")])
    return tmp_path / "kb"


def records(done):
    """The JSON objects on stdout."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_life_of_an_alias_by_command(kb):
    """Added, listed, looked up, counted by info, deleted."""
    assert records(kbengine("aliases", "add", "ulm", "Ulma", "Ūlma", "--prior", 0.5, "--kb", kb, "--json")) == [
        {"added": 2, "generation": 3}
    ]
    listed = records(kbengine("aliases", "list", "--doc", "ulm", "--kb", kb, "--json"))
    assert [(each["alias"], each["source"], each["prior"]) for each in listed] == [
        ("Ulma", "manual", 0.5),
        ("Ūlma", "manual", 0.5),
    ]
    [match, other] = records(kbengine("aliases", "match", "ŪLMA", "nobody", "--kb", kb, "--json"))
    assert (match["doc_id"], match["alias"], match["form"]) == ("ulm", "Ūlma", "case")
    assert (other["alias"], other["form"]) == ("Ulma", "accent")
    assert json.loads(kbengine("info", "--kb", kb, "--json").stdout)["aliases"] == 2
    assert kbengine("aliases", "add", "ulm", "Ulma", "--prior", 1, "--replace", "--kb", kb).returncode == 0
    assert records(kbengine("aliases", "delete", "ulm", "Ulma", "--kb", kb, "--json"))[0]["deleted"] == 1
    assert kbengine("aliases", "delete", "ulm", "--all", "--kb", kb).returncode == 0
    assert kbengine("aliases", "list", "--kb", kb, "--json").stdout == ""
    assert kbengine("verify", "--kb", kb).returncode == 0


def test_long_lists_come_in_pages(kb):
    """As a table with the next page's cursor on stderr, or with a cursor in each JSON object."""
    names = [f"name {i}" for i in range(5)]
    assert kbengine("aliases", "add", "rhine", *names, "--kb", kb).returncode == 0
    first = kbengine("aliases", "list", "--prefix", "NAME", "--limit", 3, "--kb", kb)
    assert "name 2" in first.stdout and "name 3" not in first.stdout
    cursor = first.stderr.split("--after ")[1].strip().strip("'")
    rest = records(kbengine("aliases", "list", "--prefix", "NAME", "--after", cursor, "--kb", kb, "--json"))
    assert [each["alias"] for each in rest] == ["name 3", "name 4"]


def test_tables_are_imported(kb, tmp_path):
    """Skipped lines are named on stderr."""
    table = tmp_path / "names.tsv"
    table.write_text("Ulma\tulm\nx\tnobody\n", "utf-8")
    done = kbengine("aliases", "import", table, "--skip-bad", "--kb", kb, "--json")
    assert records(done) == [{"aliases": 1, "skipped_lines": 1, "generation": 3}]
    assert "names.tsv, line 2" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["add", "nobody", "x"], 1, "'nobody'"),
        (["add", "ulm", " "], 2, "not blank"),
        (["add", "ulm", "x", "--prior", "1.5"], 2, "1.5"),
        (["add", "ulm", "x", "x"], 2, "twice"),
        (["add", "ulm", "Here"], 2, "already"),
        (["add", "ulm", "x", "--source", "anchor"], 2, "anchor"),
        (["delete", "ulm", "y"], 1, "'y'"),
        (["delete", "ulm"], 2, "--all"),
        (["delete", "nobody", "--all"], 1, "'nobody'"),
        (["list", "--doc", "nobody"], 1, "'nobody'"),
        (["list", "--limit", "0"], 2, "at least 1"),
        (["list", "--after", "x"], 2, "cursor"),
        (["import", "missing.tsv"], 1, "missing.tsv"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_what_cannot_be_done_is_one_line_on_stderr(kb, arguments, exit_code, message):
    """Exit code 2 for usage, 1 for failure; no traceback, nothing on stdout, nothing changed."""
    assert kbengine("aliases", "add", "ulm", "Here", "--kb", kb).returncode == 0
    done = kbengine("aliases", *arguments, "--kb", kb)

    assert done.returncode == exit_code, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""
    assert len(records(kbengine("aliases", "list", "--kb", kb, "--json"))) == 1
