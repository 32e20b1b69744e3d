"""`kbengine key` and the options of `kbengine serve`."""

from __future__ import annotations

import json
import signal

import pytest

from tests.test_cli import kbengine
from web.commands import _ended_by_sigterm
from web.keys import KeyFile


def test_a_key_is_made_listed_and_revoked(tmp_path):
    """Its token is shown once, and opens what its scope opens."""
    kb = ("--kb", tmp_path)
    made = kbengine("key", "create", "laptop", "--scope", "write", "--expires-in", "30d", "--json", *kb)
    facts = json.loads(made.stdout)
    checked = KeyFile(tmp_path / "api-keys.json").check(facts["token"])
    listed = kbengine("key", "list", "--json", *kb)
    revoked = kbengine("key", "revoke", facts["id"], *kb)
    empty = kbengine("key", "list", "--json", *kb)

    assert made.returncode == listed.returncode == revoked.returncode == 0
    assert (checked.id, checked.scope, checked.name) == (facts["id"], "write", "laptop")
    (row,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert row["id"] == facts["id"] and row["expires_at"] == facts["expires_at"]
    assert facts["token"].split("_", 2)[2] not in listed.stdout
    assert "laptop" in revoked.stdout and empty.stdout == ""


def test_keys_may_lie_elsewhere(tmp_path):
    """For a knowledge base that is read-only."""
    file = tmp_path / "keys" / "mine.json"
    file.parent.mkdir()
    done = kbengine("key", "create", "x", "--kb", tmp_path, "--key-file", file)

    assert done.returncode == 0 and len(KeyFile(file).all()) == 1
    assert not (tmp_path / "api-keys.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["create", "x", "--expires-in", "soon"], "wanted a number of hours, days or weeks"),
        (["create", "x", "--expires-in", "0d"], "wanted a time in the future"),
        (["create", "x", "--expires-in", "99999999999w"], "too long"),
        (["create", "x", "--scope", "root"], "Invalid value"),
        (["revoke", "nothing"], "no key 'nothing'"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path, arguments, message):
    """On stderr, with exit code 1 or 2."""
    done = kbengine("key", *arguments, "--kb", tmp_path)

    assert done.returncode in (1, 2) and message in done.stderr and done.stdout == ""


@pytest.mark.parametrize(("option", "value"), [("--threads", "1"), ("--queue-size", "64"), ("--deadline-s", "0")])
def test_options_out_of_range_are_refused_before_anything_is_opened(tmp_path, option, value):
    """A queue cannot be longer than there are threads to wait in."""
    done = kbengine("serve", "--kb", tmp_path, option, value)

    assert done.returncode == 2 and "wanted" in done.stderr


def test_sigterm_ends_the_command_before_there_is_a_server():
    """With 0, as later; the first process of a container has no other way of ending. The old handler comes back."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended, _ended_by_sigterm():
        signal.raise_signal(signal.SIGTERM)

    assert ended.value.code == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_without_its_package_mcp_says_what_installs_it(kb_path):
    """Before the knowledge base is opened."""
    done = kbengine("mcp", "--kb", kb_path)

    assert done.returncode == 1
    assert "pip install mcp" in done.stderr
