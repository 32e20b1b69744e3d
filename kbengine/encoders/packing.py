"""How weights are stored: float32, float16, or int8 with float16 scales by row in `NAME.scale`; a file may mix them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from kbengine.errors import EncoderError

WeightsDType = Literal["int8", "float16", "float32"]
WEIGHTS_DTYPES: tuple[WeightsDType, ...] = get_args(WeightsDType)

SCALE = ".scale"
"""What the name of an int8 matrix's scales ends in."""

# Narrower matrices (token types, heads of few numbers) stay float16: there is nothing to save in them.
_MIN_INT8_ROWS = 16
_SMALLEST_HALF = 2.0**-24
_LISTED = 8


def pack(name: str, tensor: Tensor, dtype: WeightsDType) -> dict[str, Tensor]:
    """Return what is stored for one float32 tensor: itself, or int8 values and scales.

    Raises:
        EncoderError: a value is beyond what float16 holds.
    """
    if dtype == "float32":
        return {name: tensor.contiguous()}
    if dtype == "float16" or tensor.ndim != 2 or tensor.shape[0] < _MIN_INT8_ROWS:
        half = tensor.to(torch.float16)
        if not bool(torch.isfinite(half).all()):
            raise EncoderError(f"{name} holds values beyond float16 (65504); store the model as float32")
        return {name: half.contiguous()}
    largest = tensor.abs().amax(dim=1)
    scale = (largest / 127).to(torch.float16).clamp_min(_SMALLEST_HALF)
    # One half up where rounding went down, so that no value of the row is clipped.
    scale = (scale.view(torch.int16) + (scale.float() * 127 < largest).to(torch.int16)).view(torch.float16)
    if not bool(torch.isfinite(scale).all()):
        raise EncoderError(f"{name} holds values beyond float16's range times 127; store the model as float32")
    codes = torch.round(tensor / scale.float()[:, None]).to(torch.int8)
    return {name: codes.contiguous(), name + SCALE: scale}


def unpack(name: str, tensor: Tensor, scale: Tensor | None, path: Path) -> Tensor:
    """Return the float32 tensor that is stored so; `path` is for messages.

    Raises:
        EncoderError: the dtype is none that is stored, or scales are missing, too many or of another shape.
    """
    if tensor.dtype == torch.int8:
        if scale is None:
            raise EncoderError(f"{path}: {name} is int8 without {name}{SCALE}; copy the model directory again")
        if scale.shape != tensor.shape[:1]:
            raise EncoderError(
                f"{path}: {name}{SCALE} has shape {tuple(scale.shape)}, wanted {tuple(tensor.shape[:1])}, one per row"
            )
        # Exact: 7 bits times 11 bits fit into float32's 24. numpy, which takes a sixth of torch's time for two dtypes.
        rows = scale.float().view(-1, *[1] * (tensor.ndim - 1)).numpy()
        return torch.from_numpy(np.multiply(tensor.numpy(), rows, dtype=np.float32))
    if scale is not None:
        raise EncoderError(f"{path}: {name} has a scale but is {tensor.dtype}, wanted int8; store it anew")
    if tensor.dtype not in (torch.float16, torch.float32):
        raise EncoderError(f"{path}: {name} is {tensor.dtype}, wanted float32, float16 or int8 with a scale")
    return tensor.float()


def unpack_all(stored: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return the float32 tensors that are stored so, scales applied; errors as of `unpack`."""
    return {
        name: unpack(name, tensor, stored.get(name + SCALE), path)
        for name, tensor in stored.items()
        if not (name.endswith(SCALE) and name.removesuffix(SCALE) in stored)
    }


def read_packed(path: Path, *, prefix: str = "") -> dict[str, Tensor]:
    """Return a safetensors file's tensors, those whose names begin so, as they are in it.

    Raises:
        EncoderError: the file cannot be read.
    """
    try:
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118  # not a mapping
            return {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as e:
        raise EncoderError(f"cannot read {path}: {e}; copy the model directory again") from e


def check_finite(tensors: Mapping[str, Tensor], source: Path) -> None:
    """Refuse tensors that hold NaN or infinite values.

    Raises:
        EncoderError: one does.
    """
    # A float32 sum is NaN or infinite when a value is, and many times faster than asking each of them.
    if spoilt := [
        name
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and not math.isfinite(tensor.sum(dtype=torch.float32).item())
    ]:
        raise EncoderError(f"{source} holds NaN or infinite values in {some_of(spoilt)}; train or copy it anew")


def some_of(names: Iterable[str]) -> str:
    """Return the first few of the names, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _LISTED} more" if len(ordered) > _LISTED else ""
    return ", ".join(ordered[:_LISTED]) + more
