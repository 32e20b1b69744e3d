"""Model directories are read strictly, written whole, and known by their fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from kbengine.encoders.checkpoint import read_checkpoint, write_checkpoint
from kbengine.encoders.config import ARCHITECTURES, Architecture, EncoderConfig
from kbengine.encoders.packing import WEIGHTS_DTYPES, WeightsDType
from kbengine.errors import EncoderError, InvalidOptionError
from tests.tiny_encoder import tiny_config, tiny_tokenizer_json, tiny_weights, write_tiny_encoder


def change_weights(directory: Path, **changes: Tensor | None) -> None:
    """Replace, add or (None) remove tensors of the directory's file; `__` in names stands for a dot."""
    weights = load_file(directory / "model.safetensors")
    for name, tensor in changes.items():
        weights.pop(name.replace("__", "."), None)
        if tensor is not None:
            weights[name.replace("__", ".")] = tensor
    save_file(weights, directory / "model.safetensors")


def change_config(directory: Path, **changes: Any) -> None:
    """Set keys of the directory's config.json, or remove them (None)."""
    config = json.loads((directory / "config.json").read_text())
    config.update(changes)
    (directory / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("dtype", WEIGHTS_DTYPES)
def test_what_is_written_is_read_back(tmp_path: Path, architecture: Architecture, dtype: WeightsDType) -> None:
    """All three dtypes and both architectures, within the dtype's precision."""
    config = tiny_config(architecture)
    weights = tiny_weights(config)
    write_checkpoint(tmp_path / "m", config, tiny_tokenizer_json(), weights, dtype=dtype)
    checkpoint = read_checkpoint(tmp_path / "m")
    assert checkpoint.config == config
    assert checkpoint.tokenizer_json == tiny_tokenizer_json()
    assert checkpoint.weights.keys() == weights.keys()
    for name, tensor in weights.items():
        read = checkpoint.weights[name]
        assert read.dtype == torch.float32
        step = {"float32": 0.0, "float16": 1e-3, "int8": 0.51 / 127}[dtype]
        largest = tensor.abs().amax(dim=-1, keepdim=True)
        assert bool(((read - tensor).abs() <= step * largest + 1e-6 * (step > 0)).all()), name
    assert {path.name for path in tmp_path.iterdir()} == {"m"}


def test_int8_never_clips_even_tiny_rows(tmp_path: Path) -> None:
    """Where float16 cannot hold the scale exactly it is rounded up; a row of zeros stays zero."""
    config = tiny_config()
    weights = tiny_weights(config)
    matrix = torch.randn(32, 32, generator=torch.Generator().manual_seed(1))
    matrix *= torch.logspace(-9, 2, 32)[:, None]
    matrix[0] = 0
    weights["query_start_head.weight"] = matrix
    write_checkpoint(tmp_path / "m", config, tiny_tokenizer_json(), weights, dtype="int8")
    read = read_checkpoint(tmp_path / "m").weights["query_start_head.weight"]
    smallest_step = 2.0**-24
    allowed = matrix.abs().amax(dim=1, keepdim=True) / 127 * 0.51 + smallest_step
    assert bool(((read - matrix).abs() <= allowed).all())
    assert not read[0].any()


def test_one_file_may_mix_dtypes(tmp_path: Path) -> None:
    """int8 with scales beside float16 and float32."""
    directory = write_tiny_encoder(tmp_path / "m", dtype="int8")
    change_weights(directory, query_end_head__bias=torch.zeros(32), filter_head__bias=torch.ones(2).half())
    weights = read_checkpoint(directory).weights
    assert weights["filter_head.bias"].tolist() == [1, 1]
    assert not weights["query_end_head.bias"].any()


BREAKAGES: list[tuple[dict[str, Tensor | None], str]] = [
    ({"query_start_head__weight": None}, r"lacks query_start_head\.weight"),
    ({"extra__weight": torch.zeros(2)}, r"holds extra\.weight, unknown"),
    ({"filter_head__weight": torch.zeros(2, 31)}, r"filter_head\.weight is \(2, 31\), wanted \(2, 32\)"),
    ({"filter_head__bias": torch.tensor([0.0, torch.nan])}, r"NaN or infinite values in filter_head\.bias"),
    ({"filter_head__bias": torch.tensor([0.0, torch.inf])}, r"NaN or infinite"),
    ({"filter_head__bias": torch.zeros(2, dtype=torch.int8)}, r"int8 without filter_head\.bias\.scale"),
    ({"filter_head__bias": torch.zeros(2, dtype=torch.int64)}, r"torch\.int64, wanted float32"),
    ({"filter_head__bias": torch.zeros(2, dtype=torch.bfloat16)}, r"torch\.bfloat16, wanted float32"),
    ({"filter_head__bias__scale": torch.ones(2).half()}, "has a scale but is"),
    ({"filter_linear__bias": torch.zeros(2)}, "holds both"),
    (
        {
            "filter_head__weight": torch.zeros(2, 32, dtype=torch.int8),
            "filter_head__weight__scale": torch.ones(3).half(),
        },
        r"scale has shape \(3,\), wanted \(2,\)",
    ),
    (
        {
            "filter_head__weight": torch.zeros(2, 32, dtype=torch.int8),
            "filter_head__weight__scale": torch.tensor([1.0, torch.nan]).half(),
        },
        r"NaN or infinite values in filter_head\.weight\.scale",
    ),
]


@pytest.mark.parametrize(("changes", "message"), BREAKAGES)
def test_weights_that_do_not_fit_are_named(tmp_path: Path, changes: dict[str, Tensor | None], message: str) -> None:
    """Missing, unexpected, misshapen, not finite, of another dtype: an error, never a guess."""
    directory = write_tiny_encoder(tmp_path / "m")
    change_weights(directory, **changes)
    with pytest.raises(EncoderError, match=message):
        read_checkpoint(directory)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": "blue"}, "unknown keys colour"),
        ({"architecture": "two-tower"}, "architecture is 'two-tower'"),
        ({"architecture": None}, "lacks architecture"),
        ({"architecture": "three-tower"}, "lacks phrase_encoder.embeddings.*of the three-tower"),
        ({"backbone": {"hidden_size": 32}}, "backbone lacks"),
        ({"backbone": 3}, "backbone holds int"),
        ({"max_passage_tokens": 500}, "longest input is 500"),
        ({"max_passage_tokens": 20}, "max_passage_tokens is 20"),
        ({"max_passage_tokens": "64"}, "'64', wanted a whole number"),
        ({"max_query_tokens": {"question": 1}}, "question is 1, wanted 3"),
        ({"max_query_tokens": {"chat": 9}}, "unknown keys chat"),
        ({"passage_vector": "max"}, "passage_vector is 'max'"),
        ({"passage_token_type": 2}, "types 0 to 1"),
        ({"uncased": "yes"}, "uncased is 'yes'"),
    ],
)
def test_configurations_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    """Unknown keys too: an option has an effect or does not exist."""
    directory = write_tiny_encoder(tmp_path / "m")
    change_config(directory, **changes)
    with pytest.raises(EncoderError, match=message):
        read_checkpoint(directory)


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, name: str) -> None:
    """Absent, then cut short."""
    directory = write_tiny_encoder(tmp_path / "m")
    whole = (directory / name).read_bytes()
    (directory / name).unlink()
    with pytest.raises(EncoderError, match=f"{name} is missing"):
        read_checkpoint(directory)
    (directory / name).write_bytes(whole[: len(whole) // 2])
    if name != "tokenizer.json":  # parsed with the encoder, not here
        with pytest.raises(EncoderError, match=name):
            read_checkpoint(directory)


def test_densephrases_names_are_understood(tmp_path: Path) -> None:
    """`filter_linear` is the filter head; poolers and position ids are left out."""
    directory = write_tiny_encoder(tmp_path / "m", architecture="three-tower")
    before = read_checkpoint(directory)
    change_weights(
        directory,
        filter_head__weight=None,
        filter_head__bias=None,
        filter_linear__weight=before.weights["filter_head.weight"],
        filter_linear__bias=before.weights["filter_head.bias"],
        phrase_encoder__pooler__dense__weight=torch.zeros(32, 32),
        phrase_encoder__pooler__dense__bias=torch.zeros(32),
        phrase_encoder__embeddings__position_ids=torch.arange(128)[None],
    )
    assert read_checkpoint(directory).fingerprint == before.fingerprint


def test_fingerprints_tell_what_changed(tmp_path: Path) -> None:
    """Stored anew: the same. Query side changed: passages keep theirs. Passage side changed: both change."""
    original = read_checkpoint(write_tiny_encoder(tmp_path / "a", dtype="int8"))

    def rewritten(name: str, weights: dict[str, Tensor], config: EncoderConfig = original.config) -> tuple[str, str]:
        write_checkpoint(tmp_path / name, config, original.tokenizer_json, weights, dtype="float32")
        checkpoint = read_checkpoint(tmp_path / name)
        return checkpoint.fingerprint, checkpoint.passage_fingerprint

    weights = dict(original.weights)
    assert rewritten("b", weights) == (original.fingerprint, original.passage_fingerprint)
    whole, passages = rewritten("c", {**weights, "query_end_head.bias": weights["query_end_head.bias"] + 1})
    assert whole != original.fingerprint
    assert passages == original.passage_fingerprint
    whole, passages = rewritten("d", {**weights, "filter_head.bias": weights["filter_head.bias"] + 1})
    assert whole != original.fingerprint
    assert passages != original.passage_fingerprint
    assert len(whole) == 64


def test_nothing_is_written_over_or_left_half_written(tmp_path: Path) -> None:
    """An existing directory is refused; weights that do not fit leave no trace."""
    directory = write_tiny_encoder(tmp_path / "m")
    with pytest.raises(EncoderError, match="already exists"):
        write_tiny_encoder(directory)
    config = tiny_config()
    weights = tiny_weights(config)
    spoilt = {**weights, "filter_head.bias": torch.full((2,), torch.nan)}
    for bad, message in ((spoilt, "NaN"), ({**weights, "more": torch.zeros(1)}, "unknown")):
        with pytest.raises(EncoderError, match=message):
            write_checkpoint(tmp_path / "n", config, tiny_tokenizer_json(), bad)
    with pytest.raises(InvalidOptionError, match="int4"):
        write_checkpoint(tmp_path / "n", config, "{}", weights, dtype="int4")  # type: ignore[arg-type]  # on purpose
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_values_beyond_float16_are_refused_not_made_infinite(tmp_path: Path) -> None:
    """float32 still holds them."""
    config = tiny_config()
    weights = {**tiny_weights(config), "filter_head.bias": torch.full((2,), 1e6)}
    with pytest.raises(EncoderError, match="beyond float16"):
        write_checkpoint(tmp_path / "m", config, tiny_tokenizer_json(), weights, dtype="float16")
    write_checkpoint(tmp_path / "m", config, tiny_tokenizer_json(), weights, dtype="float32")
