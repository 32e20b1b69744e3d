"""What tuning changes: differences to an encoder's query side, whole or of low rank, and how they are stored.

heads   the start and end heads: `W + Δ`
full    all of the query side but embeddings: `W + Δ`
lora    the matrices of the query encoders: `W + (alpha / rank)·B·A` (Hu et al., LoRA, 2022, Eq. 3), and the heads whole
        or, with `low_rank_heads`, alike
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from kbengine.errors import CorruptError, EncoderMismatchError, InvalidOptionError

Parameters = Literal["heads", "full", "lora"]
PARAMETERS: tuple[Parameters, ...] = get_args(Parameters)

DELTA, LORA_A, LORA_B = "delta:", "lora_a:", "lora_b:"
HEADS = ("query_start_head.", "query_end_head.")
_EMBEDDINGS = ".embeddings."


@dataclass(frozen=True)
class ParameterOptions:
    """What of the query side is tuned.

    Attributes:
        parameters: "heads", "full" or "lora"; see the module.
        rank: LoRA's rank.
        alpha: LoRA's scale is `alpha / rank`.
        low_rank_heads: Whether LoRA changes the heads by matrices of low rank too: a file of half the size.
    """

    parameters: Parameters = "full"
    rank: int = 8
    alpha: float = 16.0
    low_rank_heads: bool = False

    def __post_init__(self) -> None:
        if self.parameters not in PARAMETERS:
            raise InvalidOptionError(f"parameters is {self.parameters!r}, wanted one of {', '.join(PARAMETERS)}")
        if not 1 <= self.rank <= 1024:
            raise InvalidOptionError(f"the rank is {self.rank}, wanted 1 to 1024")
        if self.low_rank_heads and self.parameters != "lora":
            raise InvalidOptionError(f"low_rank_heads is for parameters 'lora', these are {self.parameters!r}")
        if not 0 < self.alpha < float("inf"):
            raise InvalidOptionError(f"alpha is {self.alpha}, wanted a positive number")

    @property
    def scale(self) -> float:
        """What LoRA's products are multiplied by."""
        return self.alpha / self.rank


def initial_deltas(
    base: Mapping[str, Tensor], options: ParameterOptions, *, generator: torch.Generator
) -> dict[str, Tensor]:
    """Return the trainable tensors before the first step, with which `applied` gives the start again.

    Args:
        base: the encoder's query-side weights.
        options: what is tuned.
        generator: draws LoRA's `A`; `B` and all differences begin at zero.

    Raises:
        InvalidOptionError: heads are wanted of an encoder that has none.
    """
    heads = [name for name in base if name.startswith(HEADS)]
    whole = [name for name in heads if not (options.low_rank_heads and base[name].ndim == 2)]
    if options.parameters == "heads" and not heads:
        raise InvalidOptionError("this encoder has no start and end heads to tune (three-tower); tune full or lora")
    if options.parameters == "full":
        whole = [name for name in base if _EMBEDDINGS not in name]
    deltas = {DELTA + name: torch.zeros_like(base[name]) for name in whole}
    if options.parameters == "lora":
        for name, tensor in base.items():
            if tensor.ndim == 2 and _EMBEDDINGS not in name and DELTA + name not in deltas:
                n_out, n_in = tensor.shape
                drawn = torch.randn(options.rank, n_in, generator=generator) / n_in**0.5
                deltas[LORA_A + name] = drawn
                deltas[LORA_B + name] = torch.zeros(n_out, options.rank)
    return deltas


def differences(deltas: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return by weight name what is added to it; gradients flow into the deltas."""
    found = {name.removeprefix(DELTA): tensor for name, tensor in deltas.items() if name.startswith(DELTA)}
    for name, tensor in deltas.items():
        if name.startswith(LORA_A):
            weight = name.removeprefix(LORA_A)
            found[weight] = scale * (deltas[LORA_B + weight] @ tensor)
    return found


def applied(base: Mapping[str, Tensor], deltas: Mapping[str, Tensor], scale: float) -> dict[str, Tensor]:
    """Return the tuned weights: whole query modules, as `Encoder.with_query_weights` takes them.

    Modules that no delta touches are left out, so that tuned heads need no copy of the query encoder.

    Raises:
        EncoderMismatchError: a delta is of a weight that the encoder has not, or has in another shape.
    """
    added = differences(deltas, scale)
    for name, tensor in added.items():
        if name not in base or base[name].shape != tensor.shape:
            seen = tuple(base[name].shape) if name in base else "none"
            raise EncoderMismatchError(
                f"the tuned encoder changes {name} of shape {tuple(tensor.shape)}, the encoder's has {seen}; it was "
                "tuned from another encoder: tune it again"
            )
    touched = {name.partition(".")[0] for name in added}
    return {
        name: tensor + added[name].to(tensor.device) if name in added else tensor
        for name, tensor in base.items()
        if name.partition(".")[0] in touched
    }


def encode_deltas(deltas: Mapping[str, Tensor]) -> bytes:
    """Return the file of the deltas, safetensors.

    All are float16, which is far finer than what tuning changes, but whole heads, which are float32.
    """
    stored = {}
    for name, tensor in deltas.items():
        is_head = name.removeprefix(DELTA).startswith(HEADS)
        stored[name] = tensor.detach().to("cpu", torch.float32 if is_head else torch.float16).contiguous()
    return save(stored, metadata={"format": "pt"})


def decode_deltas(data: bytes, where: str) -> dict[str, Tensor]:
    """Return what `encode_deltas` was given, in float32.

    Raises:
        CorruptError: the file is none of ours; `where` names it.
    """
    try:
        deltas = {name: tensor.float() for name, tensor in load(data).items()}
    except SafetensorError as error:
        raise CorruptError(f"cannot read {where}: {error}; tune the encoder again or restore it") from error
    for name, tensor in deltas.items():
        partner = LORA_B + name.removeprefix(LORA_A) if name.startswith(LORA_A) else name
        if not name.startswith((DELTA, LORA_A, LORA_B)) or partner not in deltas or not bool(tensor.isfinite().all()):
            raise CorruptError(f"{where}: {name} is unknown, without its other half or not finite; tune it again")
    return deltas
