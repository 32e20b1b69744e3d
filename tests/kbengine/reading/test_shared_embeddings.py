"""A reader that has its embeddings from an encoder is stored without them, and finds the very same ones or none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.location import DEFAULT_ENCODER, find_encoder
from kbengine.errors import EncoderError
from kbengine.inputs import Question
from kbengine.reading.checkpoint import read_reader, write_reader
from kbengine.reading.config import ReaderConfig
from kbengine.reading.model import build_cross_encoder
from kbengine.reading.reader import Reader
from tests.tiny_encoder import SENTENCES, tiny_tokenizer_json, write_tiny_encoder
from tests.tiny_reader import tiny_cross_encoder, tiny_reader_config


def tiny_weights(encoder: Path, *, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return the tiny reader's weights with the embeddings of a tiny encoder."""
    theirs = {name: each for name, each in read_checkpoint(encoder).weights.items() if name.startswith("embeddings.")}
    return {**tiny_cross_encoder(tiny_reader_config(), seed=seed).state_dict(), **theirs}


def write_sharing(directory: Path, encoder: Path, **given: object) -> Path:
    """Return the directory, which then holds a tiny reader without embeddings of its own."""
    write_reader(
        directory,
        tiny_reader_config(),
        tiny_tokenizer_json(),
        tiny_weights(encoder),
        share_embeddings=str(encoder),
        **given,  # type: ignore[arg-type]  # a dtype
    )
    return directory


def test_shared_embeddings_are_read_from_the_encoder(tmp_path: Path) -> None:
    """All tensors come back; none of the embeddings is in the reader's file."""
    encoder = write_tiny_encoder(tmp_path / "e")
    directory = write_sharing(tmp_path / "r", encoder, dtype="float32")
    weights = read_reader(directory).weights
    expected = tiny_weights(encoder)
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items())
    assert not [name for name in load_file(directory / "model.safetensors") if name.startswith("embeddings.")]
    assert Reader.load(directory, device="cpu").read([Question("Where?")], [SENTENCES[1]])


def test_how_the_encoder_is_stored_does_not_matter(tmp_path: Path) -> None:
    """Its decoded embeddings count: an int8 encoder stored again as float32 will do."""
    encoder = write_tiny_encoder(tmp_path / "e", dtype="int8")
    directory = write_sharing(tmp_path / "r", encoder)
    before = read_reader(directory).weights
    weights, config = read_checkpoint(encoder).weights, read_checkpoint(encoder).config
    for file in encoder.iterdir():
        file.unlink()
    encoder.rmdir()
    write_checkpoint(encoder, config, tiny_tokenizer_json(), weights, dtype="float32")
    after = read_reader(directory).weights
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_other_embeddings_are_noticed(tmp_path: Path) -> None:
    """When written, when loaded, and when the encoder is gone."""
    encoder, other = write_tiny_encoder(tmp_path / "e"), write_tiny_encoder(tmp_path / "other", seed=7)
    with pytest.raises(EncoderError, match=r"not those of .*other"):
        write_reader(
            tmp_path / "x",
            tiny_reader_config(),
            tiny_tokenizer_json(),
            tiny_weights(encoder),
            share_embeddings=str(other),
        )
    assert not (tmp_path / "x").exists()
    directory = write_sharing(tmp_path / "r", encoder)
    encoder.rename(tmp_path / "moved")
    with pytest.raises(EncoderError, match="not there"):
        read_reader(directory)
    other.rename(encoder)
    with pytest.raises(EncoderError, match="holds others"):
        read_reader(directory)


def test_a_reader_saved_again_has_its_own_embeddings(tmp_path: Path) -> None:
    """Unless the encoder is named again."""
    encoder = write_tiny_encoder(tmp_path / "e")
    reader = Reader.load(write_sharing(tmp_path / "r", encoder), device="cpu", dtype="float32")
    reader.save(tmp_path / "own", dtype="float32")
    assert read_reader(tmp_path / "own").config.embeddings_of is None
    reader.save(tmp_path / "shared", dtype="float32", share_embeddings=str(encoder))
    assert read_reader(tmp_path / "shared").config == read_reader(tmp_path / "r").config


def test_int8_matrices_come_back_within_half_a_step(tmp_path: Path) -> None:
    """A step is the largest value of a row by 127; what is no matrix is float16."""
    directory = write_sharing(tmp_path / "r", encoder := write_tiny_encoder(tmp_path / "e"), dtype="int8")
    checkpoint = read_reader(directory)
    for name, tensor in tiny_weights(encoder).items():
        largest = tensor.abs().amax(dim=-1, keepdim=True) if tensor.ndim == 2 else tensor.abs()
        assert bool(((checkpoint.weights[name] - tensor).abs() <= largest / 250).all()), name
    assert checkpoint.stored["encoder.layer.0.output.dense.weight"].dtype == torch.int8


@pytest.mark.parametrize("value", ["minilm-phrase", {"encoder": "minilm-phrase"}, {"encoder": "", "sha256": "0"}])
def test_a_configuration_that_names_embeddings_wrongly_is_refused(value: object) -> None:
    """No digest, no name, no table."""
    plain = json.loads(json.dumps(tiny_reader_config().to_json()))
    with pytest.raises(EncoderError, match=r"embeddings_of|sha256"):
        ReaderConfig.from_json(plain | {"embeddings_of": value})


def test_a_reader_of_the_bundled_encoders_shape_is_small(tmp_path: Path) -> None:
    """Layers and heads as int8, the embeddings those of the bundled encoder: below 11 MB with its tokenizer."""
    directory = find_encoder(DEFAULT_ENCODER)
    assert directory is not None
    encoder = read_checkpoint(directory)
    theirs = {name: each for name, each in encoder.weights.items() if name.startswith("embeddings.")}
    config = ReaderConfig(encoder.config.backbone)
    weights = {**build_cross_encoder(config).state_dict(), **theirs}
    write_reader(
        tmp_path / "r", config, encoder.tokenizer_json, weights, dtype="int8", share_embeddings=DEFAULT_ENCODER
    )
    assert sum(file.stat().st_size for file in (tmp_path / "r").iterdir()) < 11.4e6
    assert read_reader(tmp_path / "r").config.embeddings_of is not None
