"""The sum of a text's word, position and type embeddings, straight from the tensors as they are stored."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.packing import SCALE

Float32 = NDArray[np.float32]


class EmbeddingRows:
    """Embeddings that stay packed in memory: a quarter of float32's, and the same values."""

    def __init__(self, stored: Mapping[str, Tensor], prefix: str = "embeddings.") -> None:
        """Take the tables from the tensors of a model directory."""
        self._words = _Table(stored, f"{prefix}word_embeddings.weight")
        self._positions, self._types = (
            table.rows(np.arange(len(table)))
            for table in (_Table(stored, f"{prefix}{kind}_embeddings.weight") for kind in ("position", "token_type"))
        )

    def __call__(self, ids: NDArray[np.int64], types: NDArray[np.int64]) -> Float32:
        """Return the sums, float32 (1, T, H), for ids and types int64 (T,); not yet normalised."""
        rows = self._words.rows(ids)
        rows += self._positions[: len(ids)]
        rows += self._types[types]
        return rows[None]


class _Table:
    def __init__(self, stored: Mapping[str, Tensor], name: str) -> None:
        self._codes = stored[name].numpy()
        scale = stored.get(f"{name}{SCALE}")
        self._scale: Float32 | None = None if scale is None else scale.float().numpy()[:, None]

    def __len__(self) -> int:
        return len(self._codes)

    def rows(self, ids: NDArray[np.int64]) -> Float32:
        found = self._codes[ids].astype(np.float32)
        if self._scale is not None:
            found *= self._scale[ids]
        return found
