"""Which rows of several files an epoch has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbengine.learning.tuning.mixing import epoch_rows, source_shares


@pytest.mark.parametrize(
    ("mixing", "expected"), [("proportional", [90, 9, 1]), ("root", [70, 22, 8]), ("equal", [34, 33, 33])]
)
def test_files_share_an_epoch(mixing, expected) -> None:
    """By size, by its root (30 : 9.49 : 3.16 of 100), or alike."""
    assert source_shares([900, 90, 10], mixing, 100) == expected


@given(st.lists(st.integers(1, 500), min_size=1, max_size=5), st.integers(5, 400))
def test_shares_sum_to_the_epoch(sizes, total) -> None:
    """And every file has one row at least."""
    shares = source_shares(sizes, "root", total)

    assert min(shares) >= 1
    assert total <= sum(shares) <= total + len(sizes)


def test_every_row_is_seen_before_one_is_seen_again() -> None:
    """Five rows, two an epoch: after five epochs each came twice."""
    rows = [10, 11, 12, 13, 14]
    epochs = [epoch_rows([rows], [2], seed=3, epoch=epoch).tolist() for epoch in range(5)]

    assert sorted(epochs[0] + epochs[1] + epochs[2][:1]) == rows
    assert sorted(each for epoch in epochs for each in epoch) == sorted(rows + rows)
    assert epoch_rows([rows], [2], seed=3, epoch=4).tolist() == epochs[4]


def test_a_small_file_may_be_seen_several_times_an_epoch() -> None:
    """Where its share is larger than it is."""
    found = epoch_rows([[1, 2], [5]], [5, 1], seed=0, epoch=0)

    assert np.bincount(found)[[1, 2, 5]].tolist() in ([3, 2, 1], [2, 3, 1])
