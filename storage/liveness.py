"""Which passages and rows of a snapshot may be found: those of live documents, or of those that pass a filter, too."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from storage.ann_lists import AnnKind

__all__ = ["Liveness"]


class Liveness:
    """The live passages of a snapshot and what follows from them; immutable.

    Attributes:
        passages: bool (n_passages), read-only.
        n_passages: How many are live.
        n_rows: How many rows these have.
    """

    def __init__(
        self,
        passages: NDArray[np.bool_],
        passage_starts: NDArray[np.int64],
        token_counts: NDArray[np.int64],
    ) -> None:
        passages.flags.writeable = False
        self.passages = passages
        self.n_passages = int(np.count_nonzero(passages))
        self.n_rows = int(token_counts[passages].sum())
        self._starts = passage_starts
        self._token_counts = token_counts

    def count(self, kind: AnnKind) -> int:
        """Return how many rows, or passages, are live."""
        return self.n_rows if kind == "tokens" else self.n_passages

    def by_segment(self, kind: AnnKind) -> Sequence[NDArray[np.bool_] | None]:
        """Return for each segment which of its rows, or passages, are live, bool; None where all are."""
        return self._rows if kind == "tokens" else self._passages

    @property
    def is_all(self) -> bool:
        """Whether all passages are live."""
        return self.n_passages == len(self.passages)

    def silence(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the scores float32 (n_passages), set to 0 in place where a passage is not live."""
        if not self.is_all:
            scores[self._dead] = 0
        return scores

    @cached_property
    def _dead(self) -> NDArray[np.int64] | NDArray[np.bool_]:
        # Numbers of a few, a mask of many: whichever is written faster.
        dead = ~self.passages
        return np.flatnonzero(dead) if 2 * self.n_passages > len(dead) else dead

    @cached_property
    def _passages(self) -> list[NDArray[np.bool_] | None]:
        parts = [self.passages[start:end] for start, end in itertools.pairwise(self._starts)]
        return [None if part.all() else part for part in parts]

    @cached_property
    def _rows(self) -> list[NDArray[np.bool_] | None]:
        counts = [self._token_counts[start:end] for start, end in itertools.pairwise(self._starts)]
        return [
            None if part is None else np.repeat(part, count) for part, count in zip(self._passages, counts, strict=True)
        ]
