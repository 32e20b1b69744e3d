"""Pre-batch negatives: gold phrase vectors of the last batches, kept without gradient (DensePhrases, section 4.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor


class GoldPhrases(NamedTuple):
    """The gold phrases of one batch, with what tells whether one is really wrong for another question.

    Attributes:
        start: (n, H), vectors of first tokens.
        end: (n, H), vectors of last tokens.
        answer_keys: int64 (n,), equal for equal answer strings.
    """

    start: Tensor
    end: Tensor
    answer_keys: Tensor

    def __len__(self) -> int:
        return int(self.start.shape[0])


class PreBatchQueue:
    """A first-in-first-out store of the gold phrases of the last C batches."""

    def __init__(self, n_batches: int) -> None:
        self._batches: deque[GoldPhrases] = deque(maxlen=n_batches)

    def __len__(self) -> int:
        return len(self._batches)

    def push(self, golds: GoldPhrases) -> None:
        """Keep a batch's gold phrases, detached; the oldest batch goes when there are more than C."""
        self._batches.append(GoldPhrases(*(tensor.detach().clone() for tensor in golds)))

    def columns(self) -> GoldPhrases | None:
        """Return the kept phrases, oldest first, or None when there are none."""
        if not self._batches:
            return None
        return GoldPhrases(*(torch.cat(parts) for parts in zip(*self._batches, strict=True)))

    def state(self) -> dict[str, Tensor]:
        """Return everything kept, by name."""
        return {
            f"{number}.{name}": tensor
            for number, batch in enumerate(self._batches)
            for name, tensor in zip(GoldPhrases._fields, batch, strict=True)
        }

    def load_state(self, state: Mapping[str, Tensor], device: torch.device) -> None:
        """Take over what `state` gave."""
        self._batches.clear()
        for number in range(len(state) // len(GoldPhrases._fields)):
            parts = (state[f"{number}.{name}"].to(device) for name in GoldPhrases._fields)
            self._batches.append(GoldPhrases(*parts))
