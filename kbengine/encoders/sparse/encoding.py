"""Sparse vectors from token states: rows of the heaviest n-grams for passages, whole vectors for queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kbengine.encoders.sparse.checkpoint import read_sparse, sparse_fingerprint
from kbengine.encoders.sparse.config import SIDES, SparseConfig
from kbengine.encoders.sparse.grams import NO_GRAM, content_ids, gram_numbers, stored_grams
from kbengine.encoders.sparse.model import SparseHeads
from storage.sparse_rows import MAX_GRAMS, SparsePassage, SparseSide
from storage.sparse_scores import SparseQuery

Int64 = NDArray[np.int64]

_NO_WEIGHT: Final = 1e-6
"""Weights below are rounding: what ReLU cut off is 0."""


@dataclass(frozen=True, eq=False)
class WindowRows:
    """The sparse rows of the tokens that one window of a passage owns; see `SparsePassage`."""

    grams: NDArray[np.uint32]
    start: SparseSide
    end: SparseSide


class SparseEncoder:
    """Sparse heads ready for use on one device; nothing in it changes."""

    def __init__(
        self, heads: SparseHeads, tokenizer_json: str, *, vocab_size: int, device: torch.device, source: str
    ) -> None:
        self.config: SparseConfig = heads.config
        self.fingerprint = sparse_fingerprint(heads)
        self._heads = heads.eval().requires_grad_(False).to(device)
        self._is_content = content_ids(tokenizer_json, vocab_size, source=source)
        self._device = device

    @classmethod
    def load(
        cls, directory: Path, tokenizer_json: str, *, hidden_size: int, vocab_size: int, device: torch.device
    ) -> SparseEncoder:
        """Return the sparse encoder in a model directory that has one.

        Raises:
            EncoderError: its files are missing, damaged or of another encoder.
        """
        heads = read_sparse(directory, hidden_size=hidden_size)
        return cls(heads, tokenizer_json, vocab_size=vocab_size, device=device, source=str(directory))

    def window_rows(self, states: Tensor, ids: Int64, own: Sequence[slice]) -> list[WindowRows]:
        """Return the rows of the tokens that each input owns, `config.top` n-grams of each at most.

        Every position of an input can lend its n-gram, the title's too.

        Args:
            states: float32 (B, T, H), last hidden states.
            ids: int64 (B, T), token ids, padded with the padding token.
            own: For each input the positions whose rows are wanted.
        """
        orders = self.config.orders
        grams = gram_numbers(ids, self._is_content, orders)  # (K, B, T)
        weights = [
            torch.stack([self._heads.passage_head(side, order).weights(states) for order in orders], dim=1)
            for side in SIDES
        ]  # two of (B, K, T, T): token, then the position it attends to
        found = []
        for b, wanted in enumerate(own):
            flat = grams[:, b].reshape(-1)  # (K T,)
            positions = np.flatnonzero(flat != NO_GRAM)
            names, inverse = np.unique(stored_grams(flat[positions], len(self._is_content)), return_inverse=True)
            at = torch.from_numpy(positions).to(self._device)
            into = torch.from_numpy(inverse.astype(np.int64)).to(self._device)
            sides = []
            for side in weights:
                of_input = side[b, :, wanted].transpose(0, 1).flatten(1)[:, at]  # (R, positions)
                # The same n-gram at several positions is one coordinate: its weights add up (S F in Eq. 1).
                summed = of_input.new_zeros(of_input.shape[0], len(names)).index_add_(1, into, of_input)  # (R, grams)
                sides.append(_heaviest(summed, self.config.top))
            found.append(_used(names.astype(np.uint32), sides))
        return found

    def joined(self, windows: Sequence[WindowRows]) -> SparsePassage:
        """Return the rows of a passage from those of its windows, in order."""
        grams = np.unique(np.concatenate([window.grams for window in windows]))
        sides = []
        for name in SIDES:
            parts: list[SparseSide] = [getattr(window, name) for window in windows]
            places = [np.searchsorted(grams, window.grams) for window in windows]
            columns = np.concatenate([place[part.columns] for place, part in zip(places, parts, strict=True)])
            counts = np.concatenate([part.counts for part in parts])
            sides.append((counts, columns, np.concatenate([part.weights for part in parts])))
        if len(grams) > MAX_GRAMS:
            grams, sides = _fewer(grams, sides)
        start, end = (SparseSide(counts, columns.astype(np.uint16), weights) for counts, columns, weights in sides)
        return SparsePassage(grams, start, end, self.fingerprint)

    def queries(self, states: tuple[Tensor, Tensor], ids: Int64) -> list[SparseQuery]:
        """Return the sparse vector of each query, with all of its n-grams that weigh something.

        Args:
            states: Two of float32 (B, U, H), the query encoders' last hidden states for start and end.
            ids: int64 (B, U), padded with the padding token.
        """
        orders = self.config.orders
        grams = gram_numbers(ids, self._is_content, orders)  # (K, B, U)
        weights = [
            torch.stack([self._heads.query_head(side, order).query_weights(of_side) for order in orders]).cpu().numpy()
            for side, of_side in zip(SIDES, states, strict=True)
        ]  # two of (K, B, U)
        found = []
        for b in range(len(ids)):
            flat = grams[:, b].reshape(-1)
            positions = np.flatnonzero(flat != NO_GRAM)
            names, inverse = np.unique(stored_grams(flat[positions], len(self._is_content)), return_inverse=True)
            start, end = (
                np.bincount(inverse, weights=side[:, b].reshape(-1)[positions], minlength=len(names)).astype(np.float32)
                for side in weights
            )
            kept = (start > _NO_WEIGHT) | (end > _NO_WEIGHT)
            found.append(SparseQuery(names[kept].astype(np.uint32), start[kept], end[kept], self.fingerprint))
        return found


Entries = tuple[NDArray[np.uint8], Int64, NDArray[np.float32]]


def _heaviest(summed: Tensor, top: int) -> Entries:
    """Return counts, columns and weights of the heaviest entries of each row, columns rising, float32 (R, G) → rows."""
    R, G = summed.shape
    if not R or not G:
        return np.zeros(R, np.uint8), np.empty(0, np.int64), np.empty(0, np.float32)
    values, columns = torch.topk(summed, min(top, G), dim=1)
    columns, order = torch.sort(columns, dim=1)
    weights = torch.gather(values, 1, order).cpu().numpy()
    kept = weights > _NO_WEIGHT
    return kept.sum(axis=1).astype(np.uint8), columns.cpu().numpy()[kept], weights[kept].astype(np.float32)


def _used(grams: NDArray[np.uint32], sides: Sequence[Entries]) -> WindowRows:
    """Return the rows with those n-grams only that an entry names."""
    used = np.zeros(len(grams), dtype=np.bool_)
    for _, columns, _ in sides:
        used[columns] = True
    places = np.cumsum(used) - 1
    start, end = (SparseSide(counts, places[columns].astype(np.uint16), weights) for counts, columns, weights in sides)
    return WindowRows(grams[used], start, end)


def _fewer(grams: NDArray[np.uint32], sides: Sequence[Entries]) -> tuple[NDArray[np.uint32], list[Entries]]:
    """Return the rows with the n-grams that weigh most in the passage, as many as a passage may have."""
    totals = np.zeros(len(grams))
    for _, columns, weights in sides:
        totals += np.bincount(columns, weights=weights, minlength=len(grams))
    kept = np.zeros(len(grams), dtype=np.bool_)
    kept[np.argsort(-totals, kind="stable")[:MAX_GRAMS]] = True
    places = np.cumsum(kept) - 1
    fewer: list[Entries] = []
    for counts, columns, weights in sides:
        stays = kept[columns]
        owners = np.repeat(np.arange(len(counts)), counts)[stays]
        left = np.bincount(owners, minlength=len(counts)).astype(np.uint8)
        fewer.append((left, places[columns[stays]], weights[stays]))
    return grams[kept], fewer
