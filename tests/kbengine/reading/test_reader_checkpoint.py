"""Reader directories are written whole, and nothing that was changed afterwards is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from kbengine.errors import CorruptError, EncoderError, InvalidOptionError
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.reading.checkpoint_files import is_reader
from kbengine.reading.config import ReaderConfig
from kbengine.reading.location import find_reader, has_reader
from kbengine.reading.reader import Reader
from tests.tiny_encoder import tiny_tokenizer_json, write_tiny_encoder
from tests.tiny_reader import tiny_cross_encoder, tiny_reader_config, write_tiny_reader


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    """Configuration, tokenizer and weights; no file beside the four."""
    config = tiny_reader_config()
    directory = write_tiny_reader(tmp_path / "r")
    checkpoint = read_reader(directory)
    assert checkpoint.config == config
    assert checkpoint.tokenizer_json == tiny_tokenizer_json()
    expected = tiny_cross_encoder(config).state_dict()
    assert all(torch.equal(checkpoint.weights[name], tensor) for name, tensor in expected.items())
    assert sorted(path.name for path in directory.iterdir()) == [
        "checksums.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert is_reader(directory)
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_changed_byte_is_found(tmp_path: Path, name: str) -> None:
    """Any of the three files."""
    directory = write_tiny_reader(tmp_path / "r")
    data = bytearray((directory / name).read_bytes())
    data[len(data) // 2] ^= 1
    (directory / name).write_bytes(data)
    with pytest.raises(CorruptError, match=name):
        read_reader(directory)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "checksums.json"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """Any of the four."""
    directory = write_tiny_reader(tmp_path / "r")
    (directory / name).unlink()
    with pytest.raises((CorruptError, EncoderError), match=name):
        read_reader(directory)


def test_an_encoder_is_no_reader(tmp_path: Path) -> None:
    """Giving one for the other is a common mistake, and is named."""
    with pytest.raises(EncoderError, match="there is no reader"):
        Reader.load(write_tiny_encoder(tmp_path / "e"))


def test_nothing_is_overwritten_or_stored_wrongly(tmp_path: Path) -> None:
    """A directory that is there, a dtype without a name, weights of another shape, a NaN."""
    config = tiny_reader_config()
    weights = dict(tiny_cross_encoder(config).state_dict())
    directory = write_tiny_reader(tmp_path / "r")
    with pytest.raises(EncoderError, match="already exists"):
        write_reader(directory, config, tiny_tokenizer_json(), weights)
    with pytest.raises(InvalidOptionError, match="float16"):
        write_reader(tmp_path / "x", config, tiny_tokenizer_json(), weights, dtype="int4")  # type: ignore[arg-type]
    with pytest.raises(EncoderError, match=r"qa_outputs\.bias"):
        write_reader(tmp_path / "x", config, tiny_tokenizer_json(), weights | {"qa_outputs.bias": torch.zeros(3)})
    with pytest.raises(EncoderError, match="NaN"):
        write_reader(
            tmp_path / "x", config, tiny_tokenizer_json(), weights | {"qa_outputs.bias": torch.full((2,), torch.nan)}
        )
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "phrase-encoder"}, "wanted 'cross-encoder-reader'"),
        ({"max_tokens": 20}, "wanted 44 or more"),
        ({"max_tokens": 512}, "positions for 128"),
        ({"max_answer_tokens": 0}, "max_answer_tokens"),
        ({"surprise": 1}, "surprise"),
        ({"uncased": "yes"}, "uncased"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    """With the value seen and the value wanted."""
    value = json.loads(json.dumps(tiny_reader_config().to_json())) | change
    with pytest.raises(EncoderError, match=message):
        ReaderConfig.from_json(value)


def test_a_configuration_without_a_backbone_is_refused() -> None:
    """Missing keys are named."""
    with pytest.raises(EncoderError, match="backbone"):
        ReaderConfig.from_json({"kind": "cross-encoder-reader"})


def test_a_bundled_reader_is_found_by_its_name_given_as_a_path() -> None:
    """As commands give it whose option is a name or a directory."""
    assert find_reader(Path("minilm-reader")) == find_reader("minilm-reader")
    assert has_reader(Path("minilm-reader"))
