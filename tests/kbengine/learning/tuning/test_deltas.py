"""What tuning changes: begins as nothing, is applied as it says, comes back from its file."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from kbengine.encoders.deltas import (
    DELTA,
    LORA_A,
    LORA_B,
    ParameterOptions,
    applied,
    decode_deltas,
    encode_deltas,
    initial_deltas,
)
from kbengine.encoders.model import query_weights
from kbengine.errors import CorruptError, EncoderMismatchError, InvalidOptionError
from kbengine.learning.tuning.query_side import QuerySide
from tests.tiny_encoder import tiny_config, tiny_model, tiny_weights


def base_of(architecture="shared-query") -> dict[str, torch.Tensor]:
    """The tiny encoder's query side."""
    return query_weights(tiny_weights(tiny_config(architecture)))


def begin(base, **options) -> dict[str, torch.Tensor]:
    """The deltas before the first step."""
    return initial_deltas(base, ParameterOptions(**options), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("architecture", ["shared-query", "three-tower"])
@pytest.mark.parametrize("parameters", ["full", "lora"])
def test_tuning_begins_at_the_start(architecture, parameters) -> None:
    """Applied before any step they give the very weights."""
    base = base_of(architecture)

    found = applied(base, begin(base, parameters=parameters), 2.0)

    assert found.keys() <= base.keys()
    assert all(torch.equal(tensor, base[name]) for name, tensor in found.items())


def test_lora_adds_a_scaled_product() -> None:
    """`W + (alpha / rank)·B·A`, with rank × inputs and outputs × rank."""
    base = {"query_encoder.encoder.layer.0.output.dense.weight": torch.zeros(2, 3)}
    deltas = begin(base, parameters="lora", rank=1)
    name = next(iter(base))
    assert deltas[LORA_A + name].shape == (1, 3) and deltas[LORA_B + name].shape == (2, 1)

    found = applied(base, {LORA_A + name: torch.tensor([[1.0, 2, 3]]), LORA_B + name: torch.tensor([[1.0], [10]])}, 4.0)

    assert found[name].tolist() == [[4, 8, 12], [40, 80, 120]]


def test_heads_leave_the_query_encoder_alone() -> None:
    """So that many tuned heads share it."""
    base = base_of()

    found = applied(base, begin(base, parameters="heads"), 1.0)

    assert {name.partition(".")[0] for name in found} == {"query_start_head", "query_end_head"}


def test_an_encoder_without_heads_says_so() -> None:
    """A three-tower model has none."""
    with pytest.raises(InvalidOptionError, match="tune full or lora"):
        begin(base_of("three-tower"), parameters="heads")


def test_embeddings_stay() -> None:
    """Those of a three-tower model's query encoders too."""
    assert not [name for name in begin(base_of("three-tower"), parameters="full") if "embeddings" in name]


@pytest.mark.parametrize("parameters", ["heads", "full", "lora"])
def test_deltas_come_back_from_their_file(parameters) -> None:
    """Exactly where they are small in number, within float16 where they are many."""
    deltas = {name: torch.randn_like(each) * 1e-3 for name, each in begin(base_of(), parameters=parameters).items()}

    back = decode_deltas(encode_deltas(deltas), "here")

    assert back.keys() == deltas.keys()
    for name, tensor in deltas.items():
        assert torch.allclose(back[name], tensor, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize(
    "tensors",
    [
        {"somebody's": torch.zeros(1)},
        {LORA_A + "x": torch.zeros(1, 1)},
        {DELTA + "x": torch.tensor([float("nan")])},
    ],
)
def test_foreign_files_are_refused(tensors) -> None:
    """Unknown names, half a LoRA, numbers that are none."""
    with pytest.raises(CorruptError, match="here"):
        decode_deltas(encode_deltas(tensors), "here")


def test_bytes_that_are_no_safetensors_are_refused() -> None:
    """Named with their place."""
    with pytest.raises(CorruptError, match="cannot read here"):
        decode_deltas(b"nothing", "here")


def test_deltas_of_another_encoder_are_refused() -> None:
    """Another shape, another name."""
    with pytest.raises(EncoderMismatchError, match="tune it again"):
        applied(base_of(), {DELTA + "query_start_head.bias": torch.zeros(5)}, 1.0)
    with pytest.raises(EncoderMismatchError, match="none"):
        applied(base_of(), {DELTA + "query_other.bias": torch.zeros(5)}, 1.0)


@pytest.mark.parametrize("options", [{"parameters": "all"}, {"rank": 0}, {"alpha": 0.0}])
def test_options_have_ranges(options) -> None:
    """Told with the value."""
    with pytest.raises(InvalidOptionError, match=str(next(iter(options.values())))):
        ParameterOptions(**options)


@pytest.mark.parametrize("architecture", ["shared-query", "three-tower"])
@pytest.mark.parametrize("parameters", ["full", "lora"])
def test_the_passage_side_never_gets_a_gradient(architecture, parameters) -> None:
    """The trainable parameters are deltas of the query side; what made the index does not move."""
    model = tiny_model(tiny_config(architecture))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    side = QuerySide(model, ParameterOptions(parameters))
    ids = torch.tensor([[2, 9, 10, 3], [2, 11, 3, 0]])
    is_token = torch.tensor([[True] * 4, [True] * 3 + [False]])

    start = side(ids, is_token)
    assert torch.allclose(start.start, model.query_vectors(ids, is_token).start, atol=1e-6)
    optimizer = torch.optim.AdamW(side.parameters(), lr=0.1)
    (start.start.sum() + start.end.square().sum()).backward()
    optimizer.step()

    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert not torch.allclose(side(ids, is_token).start, start.start, atol=1e-3)
    assert torch.allclose(side.start_vectors(ids, is_token).start, start.start, atol=1e-6)
    assert side.squared_change().item() > 0
    assert all(name.startswith("query_") for name in side.weights())


def test_options_are_frozen() -> None:
    """They are part of a run's identity."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        ParameterOptions().rank = 3  # type: ignore[misc]


def test_heads_may_be_of_low_rank_too() -> None:
    """A file of half the size; before the first step they change nothing."""
    base = base_of()

    deltas = begin(base, parameters="lora", rank=2, low_rank_heads=True)

    heads = [name for name in base if name.startswith(("query_start_head", "query_end_head"))]
    matrices = [name for name in heads if base[name].ndim == 2]
    assert matrices and all(LORA_A + name in deltas and DELTA + name not in deltas for name in matrices)
    assert all(DELTA + name in deltas for name in heads if name not in matrices)
    assert all(torch.equal(tensor, base[name]) for name, tensor in applied(base, deltas, 8.0).items())


def test_heads_of_low_rank_belong_to_lora() -> None:
    """Anything else has no rank."""
    with pytest.raises(InvalidOptionError, match="low_rank_heads is for"):
        ParameterOptions("full", low_rank_heads=True)
