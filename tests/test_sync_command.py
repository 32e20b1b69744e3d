"""`kbengine sync`: docs/keeping-in-step.md says what is so."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from kbengine.cli import cli
from tests.test_cli import kbengine

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "keeping-in-step.md").read_text(encoding="utf-8")


@pytest.fixture
def handbook(tmp_path, monkeypatch):
    """The folder and the feed of the guide, in the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "handbook"
    folder.mkdir()
    front = re.search(r"```text\n(---\n.*?---\n)```", GUIDE, re.S).group(1)
    (folder / "leave.md").write_text(f"{front}\nLeave is granted by Ada Thorne.\n", "utf-8")
    (folder / "mill.txt").write_text("The mill of Quillmere was built in 1764.\n", "utf-8")
    (tmp_path / "feed.jsonl.gz").write_text('{"_id": "1", "title": "News", "text": "Emil Sand was elected."}\n')
    return folder


def test_the_examples_of_the_guide_run(handbook, capsys):
    """As they stand, one after the other, and the Python example after them finds nothing to do for its own name."""
    for line in re.findall(r"^\$ kbengine (.*)$", GUIDE, re.M):
        done = kbengine(*shlex.split(line))
        assert done.returncode == 0, (line, done.stderr)
    facts = kbengine("sync", "handbook", "--kb", "my-kb", "--source", "handbook", "--adopt", "--json")
    assert json.loads(facts.stdout)["changed"] == 2
    (python,) = re.findall(r"```python\n(.*?)```", GUIDE, re.S)

    exec(compile(python, "keeping-in-step.md", "exec"), {})

    assert capsys.readouterr().out == "[] [] [] 2\n"


def test_what_it_prints_is_what_the_guide_shows(handbook):
    """The same facts in the same order; a dry run lists the ids first."""
    shown = re.search(r"```text\n(source .*?)```", GUIDE, re.S).group(1)
    dry = kbengine("sync", "handbook", "--kb", "my-kb", "--dry-run")
    (handbook / "photo.png").touch()
    done = kbengine("sync", "handbook", "--kb", "my-kb")

    assert dry.stdout.startswith("add     leave.md\nadd     mill.txt\n")
    names = [re.split(r"\s{2,}", line)[0] for line in shown.splitlines()]
    assert [re.split(r"\s{2,}", line)[0] for line in done.stdout.splitlines()] == names
    assert "1 files that are not .txt, .md or .html skipped: 1 .png" in done.stderr


def test_every_option_of_the_command_is_in_the_guide():
    """But those that all commands about corpora share."""
    shared = {"--kb", "--format", "--device", "--dtype", "--encoder"}
    options = {o for p in cli.get_command(click.Context(cli), "sync").params for o in p.opts if o.startswith("--")}

    assert options - shared <= set(re.findall(r"--[a-z-]+", GUIDE))


def test_an_unreadable_file_is_named_and_seen_by_the_exit_status(handbook):
    """Everything else is done; --skip-bad says that it is known."""
    (handbook / "bad.txt").write_bytes(b"Z\xfcrich")

    done = kbengine("sync", "handbook", "--kb", "my-kb", "--json")
    again = kbengine("sync", "handbook", "--kb", "my-kb", "--json", "--skip-bad")

    assert done.returncode == 1 and json.loads(done.stdout)["added"] == 2
    assert "bad.txt" in done.stderr and "is not UTF-8" in done.stderr
    assert again.returncode == 0 and json.loads(again.stdout)["unchanged"] == 2
