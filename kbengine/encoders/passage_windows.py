"""Passages as inputs of the phrase encoder: long ones in overlapping windows, joined again afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from kbengine.encoders.sparse.encoding import SparseEncoder, WindowRows
from kbengine.encoders.tokenization import TextTokens
from kbengine.encoders.windows import Window
from storage.sparse_rows import SparsePassage


@dataclass(frozen=True, slots=True)
class PassageVectors:
    """One encoded passage of t tokens; the arrays may be views into larger ones.

    Attributes:
        vectors: float32 (t, d), not normalised.
        starts: int32 (t,), first character of each token in the passage's text.
        ends: int32 (t,), the character after its last.
        filter_logits: float32 (t, 2), start and end.
        passage_vector: float32 (d,), L2-normalised (zeros when the encoder has none).
        n_encoded_tokens: tokens that went through the encoder, with title, special tokens and overlaps.
        sparse: sparse rows of the t tokens; None when the encoder has no sparse heads.
    """

    vectors: NDArray[np.float32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    filter_logits: NDArray[np.float32]
    passage_vector: NDArray[np.float32]
    n_encoded_tokens: int
    sparse: SparsePassage | None = None


@dataclass(frozen=True, slots=True)
class PassageWindow:
    """One input of the phrase encoder: a window of a passage, whose number it has, behind its title."""

    passage: int
    title: list[int]
    tokens: TextTokens
    window: Window

    @property
    def n_tokens(self) -> int:
        """Return how many tokens are encoded: [CLS] title [SEP] window [SEP]."""
        return 3 + len(self.title) + self.window.end - self.window.begin

    @property
    def own_positions(self) -> slice:
        """Return the positions in the input of the tokens that come out of this window and no other."""
        shift = 2 + len(self.title) - self.window.begin
        return slice(self.window.own_begin + shift, self.window.own_end + shift)


@dataclass(frozen=True, slots=True)
class EncodedWindow:
    """What one input gave: vectors, logits and sparse rows of its own tokens, and the mean state of all of them."""

    vectors: NDArray[np.float32]
    filter_logits: NDArray[np.float32]
    mean_state: NDArray[np.float32]
    sparse: WindowRows | None


def join_windows(
    tokens: Sequence[TextTokens],
    inputs: Sequence[PassageWindow],
    encoded: Sequence[EncodedWindow],
    sparse: SparseEncoder | None,
) -> list[PassageVectors]:
    """Return one result for each passage from those of its windows."""
    results = []
    by_passage = groupby(zip(inputs, encoded, strict=True), key=lambda pair: pair[0].passage)
    for of_passage, (_, pairs) in zip(tokens, by_passage, strict=True):
        own, parts = zip(*pairs, strict=True)
        if len(parts) == 1:
            vectors, logits, mean = parts[0].vectors, parts[0].filter_logits, parts[0].mean_state
        else:
            vectors = np.concatenate([part.vectors for part in parts])
            logits = np.concatenate([part.filter_logits for part in parts])
            n_tokens = [value.window.end - value.window.begin for value in own]
            mean = np.average([part.mean_state for part in parts], axis=0, weights=n_tokens).astype(np.float32)
        norm = float(np.linalg.norm(mean))
        results.append(
            PassageVectors(
                vectors=vectors,
                starts=of_passage.starts,
                ends=of_passage.ends,
                filter_logits=logits,
                passage_vector=mean / np.float32(norm) if norm > 0 else mean,
                n_encoded_tokens=sum(value.n_tokens for value in own),
                sparse=None
                if sparse is None
                else sparse.joined([part.sparse for part in parts if part.sparse is not None]),
            )
        )
    return results
