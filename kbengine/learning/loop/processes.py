"""One process, or several that train one model together: devices, gathered vectors, averaged gradients."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from kbengine.encoders.device import choose_device
from kbengine.errors import InvalidOptionError, MissingExtraError


class Processes:
    """What a training run needs to know about the processes it runs in: this one alone, on the CPU or one GPU."""

    def __init__(self, device: str = "auto") -> None:
        self.rank = 0
        self.world = 1
        self.device = choose_device(device)

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files."""
        return self.rank == 0

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the processes' tensors concatenated along their first dimension, in order of rank.

        The gradient flows back into every process's part, so that a loss over gathered vectors, averaged over the
        processes, has the gradient of the same loss in one process. Shapes must be equal.
        """
        return tensor

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replace each gradient by its mean over the processes."""

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of a tensor over the processes, without gradient."""
        return values.detach()

    def any(self, flag: bool) -> bool:
        """Return whether the flag is set in any process."""
        return flag

    def wait(self) -> None:
        """Wait until every process has come here."""


class AcceleratedProcesses(Processes):
    """One of several processes that `accelerate launch` or `torchrun` started."""

    def __init__(self, device: str = "auto") -> None:
        try:
            from accelerate import Accelerator
        except ImportError as e:
            raise MissingExtraError.of("training in several processes", "accelerate", "training") from e
        if device not in ("auto", "cpu", "cuda"):
            raise InvalidOptionError(
                f"device is {device!r}, but with several processes each takes the device of its rank; wanted auto, "
                "cpu or cuda"
            )
        self._accelerator: Any = Accelerator(cpu=device == "cpu")
        self.rank = int(self._accelerator.process_index)
        self.world = int(self._accelerator.num_processes)
        self.device = cast("torch.device", self._accelerator.device)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return all parts, with gradient."""
        return cast("Tensor", _Gather.apply(tensor, self))  # type: ignore[no-untyped-call]  # torch

    def average_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Average over the processes, all gradients in one message; one that is missing here counts as zero."""
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        mean = self._accelerator.reduce(flat, reduction="mean")
        begin = 0
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = mean[begin : begin + gradient.numel()].view_as(gradient)
            begin += gradient.numel()

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over the processes."""
        return cast("Tensor", self._accelerator.reduce(values.detach().clone(), reduction="mean"))

    def any(self, flag: bool) -> bool:
        """Ask all processes."""
        flags = torch.tensor([float(flag)], device=self.device)
        return bool(self._accelerator.reduce(flags, reduction="sum").item() > 0)

    def wait(self) -> None:
        """Wait for all."""
        self._accelerator.wait_for_everyone()

    def all_parts(self, tensor: Tensor) -> Tensor:
        """Return the processes' tensors concatenated, without gradient."""
        return cast("Tensor", self._accelerator.gather(tensor.contiguous()))

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum over the processes, without gradient."""
        return cast("Tensor", self._accelerator.reduce(tensor.contiguous(), reduction="sum"))


class _Gather(torch.autograd.Function):
    """Concatenation over processes; the gradient of one's own part is the sum of what all processes ask of it."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, processes: AcceleratedProcesses) -> Tensor:
        ctx.processes = processes
        ctx.n = tensor.shape[0]
        return processes.all_parts(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        summed = ctx.processes.sum(gradients[0])
        begin = ctx.processes.rank * ctx.n
        return summed[begin : begin + ctx.n], None


def join_processes(device: str = "auto") -> Processes:
    """Return the processes this one belongs to: several when a launcher has said so, else it alone.

    Raises:
        MissingExtraError: a launcher started several and accelerate is not installed.
        InvalidOptionError: the device is not there.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return AcceleratedProcesses(device)
    return Processes(device)
