"""What computes a reader's logits: torch, or ONNX Runtime; and which of them is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.errors import InvalidOptionError
from kbengine.reading.inputs import ReaderInput

Runtime = Literal["onnx", "torch"]
RuntimeChoice = Literal["auto", "onnx", "torch"]
RUNTIMES: tuple[RuntimeChoice, ...] = get_args(RuntimeChoice)

Progress = Callable[[int], None]
"""Called with the number of inputs that were read since the last call."""


class InputLogits(NamedTuple):
    """What a reader says about one input of T tokens: float32 (T, …), columns as of `ReaderOutput`; and its fit."""

    logits: NDArray[np.float32]
    relevance: float


class Forward(Protocol):
    """A reader's model, ready for use from several threads."""

    def __call__(self, inputs: Sequence[ReaderInput], progress: Progress | None = None) -> list[InputLogits]:
        """Return the logits of each input, in order."""


def choose_runtime(choice: str, dtype: str, device: torch.device, stored: Mapping[str, Tensor]) -> Runtime:
    """Return what computes: "auto" is ONNX Runtime for a reader that is stored as int8, on a CPU, else torch.

    Its weights are then exactly those stored, and int8 takes less than half the time of float32 and two thirds of
    bfloat16's (Zen 5; benchmarks/reading_latency.py). A reader stored otherwise is computed as it was trained.

    Args:
        choice: one of `RUNTIMES`.
        dtype: as given; a dtype asked for by name is torch's.
        device: where to compute.
        stored: the reader's tensors.

    Raises:
        InvalidOptionError: there is no such runtime, or it does not compute there or in that dtype.
    """
    if choice not in RUNTIMES:
        raise InvalidOptionError(f"runtime is {choice!r}, wanted one of {', '.join(RUNTIMES)}")
    fits = device.type == "cpu" and dtype == "auto"
    if choice == "onnx" and not fits:
        raise InvalidOptionError(
            f"runtime is 'onnx' with device {device.type} and dtype {dtype}, wanted cpu and auto: it computes in int8 "
            "on processors; give these, or runtime 'torch'"
        )
    if choice == "torch" or not fits:
        return "torch"
    is_packed = any(tensor.dtype == torch.int8 for name, tensor in stored.items() if name.startswith("encoder."))
    return "onnx" if choice == "onnx" or is_packed else "torch"
