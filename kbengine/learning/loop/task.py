"""What is trained: a model, its batches and losses, and how it is scored; the loop knows nothing else about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from kbengine.learning.loop.order import epoch_order
from kbengine.learning.loop.processes import Processes

B = TypeVar("B")


@dataclass(frozen=True)
class Position:
    """Where a run is: optimiser steps done, the epoch, and the next batch of its order."""

    step: int = 0
    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True)
class LossTerms:
    """What one batch costs.

    Attributes:
        total: A scalar with a gradient: what is minimised, the mean over the batch's examples.
        parts: Named scalars for the log, not yet weighted, the same names in every process; detached by the loop.
    """

    total: Tensor
    parts: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """A development score (higher is better) and the measures behind it."""

    score: float
    measures: Mapping[str, float] = field(default_factory=dict)


class TrainingTask(ABC, Generic[B]):
    """A model with its data: one object a run, used by `kbengine.learning.loop.loop.train`.

    `collate` is called from threads and must depend on its arguments alone; everything else is called from one thread.
    Nothing here may draw from torch's global generator but `losses` (dropout).
    """

    def __init__(self, model: nn.Module, n_examples: int) -> None:
        self.model = model
        self.n_examples = n_examples

    @abstractmethod
    def collate(self, indices: Sequence[int], *, epoch: int) -> B:
        """Return the batch of these examples, on the CPU."""

    @abstractmethod
    def losses(self, batch: B, position: Position, processes: Processes) -> LossTerms:
        """Return what the batch costs; the model is in training mode, autocast is on where asked for."""

    def order(self, *, seed: int, epoch: int) -> NDArray[np.int64]:
        """Return the order in which an epoch sees the examples, int64 (n_examples,)."""
        return epoch_order(self.n_examples, seed=seed, epoch=epoch)

    def begin_epoch(self, epoch: int, n_epochs: int) -> None:
        """Prepare an epoch; called once for each, and again when one is resumed in its middle."""

    def evaluate(self, processes: Processes) -> Evaluation | None:  # noqa: ARG002  # for those that override it
        """Return the development score, or None where there is no development set; the model is in evaluation mode."""
        return None

    def extra_state(self) -> dict[str, Tensor]:
        """Return what a resumed run needs beside the model, such as cached batches; same on every process."""
        return {}

    def load_extra_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `extra_state` gave."""

    def fingerprint(self) -> str:
        """Return a text that differs when data or losses differ: a run is resumed only with what it began with."""
        return str(self.n_examples)
