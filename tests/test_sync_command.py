"""`kbengine sync` as people and scripts use it; docs/how-to/sync.md says what is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from kbengine.cli import cli
from storage.reader import KBReader
from tests.test_cli import kbengine

GUIDE = (Path(__file__).parent.parent / "docs" / "how-to" / "sync.md").read_text(encoding="utf-8")


@pytest.fixture
def handbook(tmp_path):
    """A folder of two files, one with the guide's front matter."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    front = re.search(r"```yaml\n(.*?)```", GUIDE, re.S).group(1)
    (folder / "leave.md").write_text(f"{front}\nLeave is granted by Ada Thorne.\n", "utf-8")
    (folder / "mill.txt").write_text("The mill of Quillmere was built in 1764.\n", "utf-8")
    return folder


def test_every_option_of_the_command_is_in_the_guide():
    """But those that all commands about corpora share."""
    shared = {"--kb", "--format", "--device", "--dtype", "--encoder"}
    options = {o for p in cli.get_command(click.Context(cli), "sync").params for o in p.opts if o.startswith("--")}

    assert options - shared <= set(re.findall(r"--[a-z-]+", GUIDE))


def test_an_unreadable_file_is_named_and_seen_by_the_exit_status(handbook, tmp_path):
    """Everything else is done, other files are counted; --skip-bad says that it is known."""
    (handbook / "bad.txt").write_bytes(b"Z\xfcrich")
    (handbook / "photo.png").touch()

    done = kbengine("sync", handbook, "--kb", tmp_path / "kb", "--json")
    again = kbengine("sync", handbook, "--kb", tmp_path / "kb", "--json", "--skip-bad")

    facts = json.loads(done.stdout)
    assert (done.returncode, facts["added"], facts["skipped_records"], facts["files_of_other_kinds"]) == (1, 2, 1, 1)
    assert "bad.txt" in done.stderr and "is not UTF-8" in done.stderr and "1 .png" in done.stderr
    assert again.returncode == 0 and json.loads(again.stdout)["unchanged"] == 2


def test_a_dry_run_names_the_documents(handbook, tmp_path):
    """As lines, and in JSON as lists."""
    plain = kbengine("sync", handbook, "--kb", tmp_path / "kb", "--dry-run")
    record = kbengine("sync", handbook, "--kb", tmp_path / "kb", "--dry-run", "--json")

    assert plain.stdout.startswith("add     leave.md\nadd     mill.txt\n")
    assert json.loads(record.stdout)["ids"] == {"add": ["leave.md", "mill.txt"], "change": [], "delete": []}


def test_facts_of_front_matter_can_be_filtered_by(handbook, tmp_path):
    """As the guide promises."""
    kbengine("sync", handbook, "--kb", tmp_path / "kb", "--source", "handbook")

    with KBReader.open(tmp_path / "kb") as reader:
        passing = reader.list_documents(where="sync.source = 'handbook' and date >= '2024-01-01' and tags = 'people'")
        assert [document.doc_id for document in passing] == ["leave.md"]
        assert reader.list_documents(where="date < '2024-01-01'") == []
