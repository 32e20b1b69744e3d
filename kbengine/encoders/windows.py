"""How long passages are cut into overlapping windows, and how inputs of many lengths are put into batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MIN_OVERLAP_TOKENS = 64
"""Neighbouring windows share at least this many tokens (or half a window): 32 tokens of context at each cut."""


@dataclass(frozen=True)
class Window:
    """Tokens `begin..end` of a passage are encoded together; of these, `own_begin..own_end` are stored from here."""

    begin: int
    end: int
    own_begin: int
    own_end: int


def windows(n_tokens: int, room: int, *, min_overlap: int = MIN_OVERLAP_TOKENS) -> list[Window]:
    """Return the windows of a passage: every token lies in one or more and is owned by exactly one.

    The windows are evenly spread and all of size `room` when there is more than one; the owner of a token is the window
    in which it is most central.

    Args:
        n_tokens: tokens of the passage.
        room: tokens of the passage that one input takes, at least 2.
        min_overlap: least number of tokens that neighbours share; at most half a window is used.
    """
    if n_tokens <= room:
        return [Window(0, n_tokens, 0, n_tokens)]
    overlap = min(min_overlap, room // 2)
    n_windows = -(-(n_tokens - overlap) // (room - overlap))
    begins = [i * (n_tokens - room) // (n_windows - 1) for i in range(n_windows)]
    cuts = [0, *((begins[i + 1] + begins[i] + room) // 2 for i in range(n_windows - 1)), n_tokens]
    return [Window(begin, begin + room, cuts[i], cuts[i + 1]) for i, begin in enumerate(begins)]


def plan_batches(lengths: NDArray[np.int64], *, max_tokens: int, overhead_tokens: int) -> list[NDArray[np.int64]]:
    """Return the batches as arrays of positions, int64, longest inputs first; each position is in exactly one.

    Inputs are sorted by length (equal ones keep their order). A batch ends when padding the next input would take its
    wasted tokens beyond `overhead_tokens`, so that mostly inputs of one length, needing no mask, go together.

    Args:
        lengths: int64 (n,), tokens of each input.
        max_tokens: most tokens of a batch, padding included (one input may be longer).
        overhead_tokens: what starting one more batch costs, in tokens.
    """
    order = np.argsort(-lengths, kind="stable")
    batches: list[NDArray[np.int64]] = []
    begin = wasted = width = 0
    for position, length in enumerate(lengths[order].tolist()):
        n = position - begin
        wasted += width - length
        if n and (wasted > overhead_tokens or (n + 1) * width > max_tokens):
            batches.append(order[begin:position])
            begin, n = position, 0
        if not n:
            width, wasted = length, 0
    if len(order):
        batches.append(order[begin:])
    return batches


def padded_rows(
    rows: Sequence[Sequence[int] | NDArray[np.int64]], pad_id: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the rows as one array, int64 (B, T), padded to the longest, and which of its places hold a token."""
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), int(lengths.max())), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return ids, np.arange(ids.shape[1]) < lengths[:, None]
