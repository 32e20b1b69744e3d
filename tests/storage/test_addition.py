"""What a batch of passages becomes before it is written."""

from __future__ import annotations

import numpy as np

from storage.addition import SideBySide
from storage.codes import common_scale, covering_scale


def test_blocks_of_parts_are_those_of_the_whole() -> None:
    """Any slice, over empty parts too."""
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=(n, 4)).astype(np.float32) for n in (0, 3, 0, 5, 1, 0, 0, 7, 2, 0)]
    whole, rows = np.concatenate(parts), SideBySide(parts)
    assert len(rows) == len(whole)
    for start in range(len(whole)):
        for stop in range(start + 1, len(whole) + 1):
            np.testing.assert_array_equal(rows(slice(start, stop)), whole[start:stop])


def test_a_common_scale_follows_from_the_largest_components() -> None:
    """It needs no copy of the vectors."""
    vectors = np.random.default_rng(4).normal(size=(2000, 6)).astype(np.float32)
    assert covering_scale(np.abs(vectors).max(axis=1)) == common_scale(vectors)
