"""`kbengine densephrases` as people call it: a checkpoint, a dump, then a question."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbengine.errors import MissingExtraError
from kbengine.terminal.densephrases_command import densephrases
from tests.kbengine.densephrases.published import (
    published_tensors,
    write_base,
    write_checkpoint_folder,
)


def run(*arguments: object) -> dict[str, object]:
    """What a command printed as JSON."""
    result = CliRunner().invoke(densephrases, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    facts: dict[str, object] = json.loads(result.stdout)
    return facts


def write_model(folder: Path) -> Path:
    """Return the directory of an imported checkpoint, made by the command."""
    checkpoint = write_checkpoint_folder(folder / "checkpoint", published_tensors())
    facts = run(
        *("checkpoint", checkpoint, "--base", write_base(folder / "base"), "--out", folder / "model"),
        *("--weights", "float32", "--json"),
    )
    assert facts["architecture"] == "three-tower" and facts["left_out"] == ["….pooler.…"]
    return folder / "model"


def test_without_the_extra_the_way_to_get_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says what to install."""
    model = write_model(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "x.hdf5").touch()
    with pytest.raises(MissingExtraError, match=r"pip install h5py .*\[densephrases\]"):
        run("dump", tmp_path / "x.hdf5", "--encoder", model, "--kb", tmp_path / "kb", "--device", "cpu")
    assert not (tmp_path / "kb").exists()


def test_every_command_has_an_example_in_its_help() -> None:
    """The example begins as it is typed."""
    for name in ("checkpoint", "dump"):
        text = CliRunner().invoke(densephrases, [name, "--help"]).stdout
        assert f"kbengine densephrases {name} " in text
