"""Batches of tensors, which move between devices as one."""

from __future__ import annotations

from dataclasses import fields
from typing import Self

import torch
from torch import Tensor


class OnDevice:
    """A dataclass of tensors, of others like it, and of None where something is not there."""

    def to(self, device: torch.device) -> Self:
        """Return the same on a device."""
        moved = {}
        for each in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, each.name)
            moved[each.name] = value.to(device) if isinstance(value, Tensor | OnDevice) else value
        return type(self)(**moved)
