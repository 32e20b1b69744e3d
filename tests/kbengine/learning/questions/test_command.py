"""`kbengine questions` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kbengine.learning.questions.pages import HARROW, SELLA, write_pages
from tests.test_cli import kbengine


def test_the_command_writes_rows_and_counts_them(tmp_path: Path) -> None:
    """Pages to leave out come from a file; the mix and the numbers are options; facts go to stdout."""
    pages = write_pages(tmp_path / "pages.jsonl", HARROW, SELLA)
    (tmp_path / "unseen.txt").write_text("harrow\n\n")
    out = tmp_path / "cloze.jsonl"

    done = kbengine(
        "questions", pages, "--out", out, "--exclude-pages", tmp_path / "unseen.txt", "--mix", "slot=1", "--json"
    )

    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert facts["kept"] == len(rows) > 0 and facts["excluded_documents"] == 1 and facts["kinds"] == {"slot": len(rows)}
    assert all(row["input"].startswith("Port Sella [SEP] ") for row in rows)


def test_wrong_options_end_with_a_message(tmp_path: Path) -> None:
    """Exit 2 for what cannot be asked, 1 for what cannot be read; no traceback."""
    pages = write_pages(tmp_path / "pages.jsonl", HARROW)
    out = tmp_path / "cloze.jsonl"

    assert kbengine("questions", pages, "--out", out, "--mix", "slot").returncode == 2
    assert kbengine("questions", pages, "--out", out, "--mix", "riddle=1").returncode == 2
    assert kbengine("questions", pages, "--out", out, "--per-document", 0).returncode == 2
    assert kbengine("questions", pages, "--out", out, "--generator", tmp_path / "no-model").returncode == 1
    (tmp_path / "empty.txt").write_text("\n")
    done = kbengine("questions", pages, "--out", out, "--exclude-pages", tmp_path / "empty.txt")
    assert done.returncode == 1 and "one document id a line" in done.stderr
    assert not out.exists()
