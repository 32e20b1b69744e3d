"""Tuned encoders as files: written whole, replaced whole, deleted, every damage found."""

from __future__ import annotations

import json

import pytest

from storage.errors import CorruptError, FormatTooNewError, InvalidOptionError, UnknownEncoderError
from storage.findings import Findings
from storage.tuned_files import (
    RECORD_FILE,
    check_tuned,
    delete_tuned,
    list_tuned,
    read_tuned,
    tuned_identity,
    tuned_weights,
    write_tuned,
)

FACTS = {"fingerprint": "a" * 64, "tasks": ["question"]}


def problems(directory) -> list[tuple[str, str]]:
    """Severity and place of everything found."""
    findings = Findings(directory)
    check_tuned(directory, findings)
    return [(each.severity, each.where) for each in findings.found]


def test_what_was_written_comes_back(tmp_path) -> None:
    """Facts and bytes; listed by name."""
    write_tuned(tmp_path, "linker", FACTS, b"weights")
    write_tuned(tmp_path, "chat.v2", FACTS, b"others")

    files, data = tuned_weights(tmp_path, "linker")

    assert (dict(files.facts), data) == (FACTS, b"weights")
    assert list_tuned(tmp_path) == ["chat.v2", "linker"]
    assert problems(tmp_path) == []


def test_replacing_leaves_nothing_of_the_old_one(tmp_path) -> None:
    """And changes the identity, by which a running service knows."""
    before = write_tuned(tmp_path, "linker", FACTS, b"old")
    assert tuned_identity(tmp_path, "linker") == before.identity

    after = write_tuned(tmp_path, "linker", FACTS | {"tasks": []}, b"newer")

    assert tuned_identity(tmp_path, "linker") == after.identity != before.identity
    assert tuned_weights(tmp_path, "linker")[1] == b"newer"
    assert sorted(path.name for path in before.weights.parent.iterdir()) == sorted([RECORD_FILE, after.weights.name])


def test_deleting_leaves_no_folder(tmp_path) -> None:
    """And asking for it is an error that names the others."""
    write_tuned(tmp_path, "linker", FACTS, b"x")
    write_tuned(tmp_path, "chat", FACTS, b"x")

    delete_tuned(tmp_path, "linker")

    assert [path.name for path in (tmp_path / "encoders").iterdir()] == ["chat"]
    for ask in (read_tuned, tuned_identity, delete_tuned):
        with pytest.raises(UnknownEncoderError, match="no tuned encoder 'linker', it has chat"):
            ask(tmp_path, "linker")


@pytest.mark.parametrize("name", ["", "Linker", "a/b", "..", "-x", "a" * 65, ".hidden"])
def test_names_are_safe_file_names(tmp_path, name) -> None:
    """No path gets in through one."""
    with pytest.raises(InvalidOptionError, match="1 to 64"):
        write_tuned(tmp_path, name, FACTS, b"x")
    assert list(tmp_path.iterdir()) == []


def test_every_changed_byte_is_found(tmp_path) -> None:
    """In the record and in the weights, by verifying and by reading."""
    files = write_tuned(tmp_path, "linker", FACTS, b"some weights")
    for path in (files.weights, files.weights.with_name(RECORD_FILE)):
        data = path.read_bytes()
        for i in range(0, len(data), 7):
            if data[i : i + 1].isspace():
                continue  # white space of the record carries nothing
            path.write_bytes(data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :])
            assert ("error", "encoders/linker") in problems(tmp_path), (path.name, i)
            with pytest.raises((CorruptError, FormatTooNewError)):
                tuned_weights(tmp_path, "linker")
        path.write_bytes(data)
    assert problems(tmp_path) == []


def test_missing_weights_are_found(tmp_path) -> None:
    """The record names a file that is not there."""
    write_tuned(tmp_path, "linker", FACTS, b"x").weights.unlink()

    assert problems(tmp_path) == [("error", "encoders/linker")]
    with pytest.raises(CorruptError, match="cannot read"):
        tuned_weights(tmp_path, "linker")


def test_what_a_crash_leaves_is_a_leftover_and_goes_with_the_next_writing(tmp_path) -> None:
    """Weights without a record are no encoder; beside a record they are named."""
    folder = tmp_path / "encoders" / "linker"
    folder.mkdir(parents=True)
    (folder / "0123.safetensors").write_bytes(b"torn")
    (folder / "abc.tmp").write_bytes(b"torn")
    assert list_tuned(tmp_path) == []
    left = ["encoders/linker/0123.safetensors", "encoders/linker/abc.tmp"]
    assert problems(tmp_path) == [("leftover", path) for path in left]

    write_tuned(tmp_path, "linker", FACTS, b"whole")
    (folder / "4567.safetensors").write_bytes(b"torn")

    assert problems(tmp_path) == [("leftover", "encoders/linker/4567.safetensors")]
    write_tuned(tmp_path, "linker", FACTS, b"whole")
    assert problems(tmp_path) == []


def test_a_newer_format_says_so(tmp_path) -> None:
    """Rather than that it is damaged."""
    path = write_tuned(tmp_path, "linker", FACTS, b"x").weights.with_name(RECORD_FILE)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))

    with pytest.raises(FormatTooNewError, match="99"):
        read_tuned(tmp_path, "linker")
