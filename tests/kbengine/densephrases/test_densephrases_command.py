"""`kbengine densephrases` as people call it: a checkpoint, a dump, then a question."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbengine.encoders.encoder import Encoder
from kbengine.errors import MissingExtraError
from kbengine.knowledge_base import KnowledgeBase
from kbengine.terminal.densephrases_command import densephrases
from tests.kbengine.densephrases.published import (
    published_document,
    published_tensors,
    write_base,
    write_checkpoint_folder,
    write_phrase_dump,
)
from tests.tiny_encoder import SENTENCES


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


def test_checkpoint_and_dump_give_a_knowledge_base_that_answers(tmp_path: Path) -> None:
    """Three commands of which the last is the usual one."""
    pytest.importorskip("h5py")
    model = write_model(tmp_path)
    encoder = Encoder.load(model, device="cpu", dtype="float32")
    document = published_document(encoder, "12", "Water", SENTENCES[8:10])
    write_phrase_dump(tmp_path / "dump" / "phrase" / "0-1.hdf5", [document])
    facts = run("dump", tmp_path / "dump", "--encoder", model, "--kb", tmp_path / "kb", "--device", "cpu", "--json")
    assert (facts["documents"], facts["passages"], facts["vectors_left_out"]) == (1, 2, 0)
    assert isinstance(facts["cosine_with_the_encoder"], float) and facts["cosine_with_the_encoder"] > 0.98
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        hit = kb.search("When does water boil?", k=1).hits[0]
    assert (hit.document.doc_id, hit.document.title) == ("12", "Water")


def test_without_the_extra_the_way_to_get_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says what to install."""
    model = write_model(tmp_path)
    monkeypatch.setitem(sys.modules, "h5py", None)
    (tmp_path / "x.hdf5").touch()
    with pytest.raises(MissingExtraError, match=r"kbengine\[densephrases\]"):
        run("dump", tmp_path / "x.hdf5", "--encoder", model, "--kb", tmp_path / "kb", "--device", "cpu")
    assert not (tmp_path / "kb").exists()


def test_every_command_has_an_example_in_its_help() -> None:
    """The example begins as it is typed."""
    for name in ("checkpoint", "dump"):
        text = CliRunner().invoke(densephrases, [name, "--help"]).stdout
        assert f"kbengine densephrases {name} " in text
