"""int8 codes with a float16 scale per row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.codes import common_scale, dequantise, quantise
from storage.errors import InvalidOptionError, UsageError


def test_codes_stand_for_the_vectors_within_half_a_step() -> None:
    """Rounding to int8 moves no component by more than half its row's scale."""
    vectors = np.random.default_rng(1).normal(size=(200, 24)).astype(np.float32)
    codes, scales = quantise(vectors, common_scale(vectors))
    error = np.abs(dequantise(codes, scales) - vectors)
    assert (error <= 0.5 * scales.astype(np.float32)[:, None] + 1e-6).all()


def test_nearly_all_rows_share_the_common_scale() -> None:
    """Only rows whose largest component does not fit get a scale of their own."""
    vectors = np.random.default_rng(2).normal(size=(2000, 16)).astype(np.float32)
    common = common_scale(vectors, coverage=0.99)
    _, scales = quantise(vectors, common)
    assert (scales == np.float16(common)).mean() >= 0.99


def test_an_outlier_is_kept_and_not_clipped() -> None:
    """A component a thousand times larger than the others comes back."""
    vectors = np.ones((2, 4), dtype=np.float32)
    vectors[1, 2] = 1000
    codes, scales = quantise(vectors, 0.01)
    assert dequantise(codes, scales)[1, 2] == pytest.approx(1000, rel=0.005)
    assert scales[0] == np.float16(0.01)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 1e3), st.integers(0, 2**31))
def test_no_code_leaves_its_range_whatever_the_size_of_the_vectors(size: float, seed: int) -> None:
    """Scales are rounded upwards to float16, so codes stay in −127…127 and the scale never below the common one."""
    vectors = (np.random.default_rng(seed).normal(size=(20, 8)) * size).astype(np.float32)
    common = common_scale(vectors, coverage=0.5)
    codes, scales = quantise(vectors, common)
    assert np.abs(codes.astype(np.int16)).max() <= 127
    assert (scales.astype(np.float32) >= np.float32(np.float16(common))).all()
    assert np.abs(dequantise(codes, scales) - vectors).max() <= 0.5 * scales.astype(np.float32).max() * 1.001


def test_zero_rows_and_no_rows_are_fine() -> None:
    """A zero vector has zero codes; no vectors give empty arrays."""
    codes, scales = quantise(np.zeros((1, 3), dtype=np.float32), 0.5)
    assert codes.tolist() == [[0, 0, 0]]
    assert scales.tolist() == [0.5]
    assert quantise(np.zeros((0, 3), dtype=np.float32), 0.5)[0].shape == (0, 3)


def test_vectors_that_are_not_finite_are_refused() -> None:
    """NaN and infinity are errors that name the row."""
    vectors = np.ones((3, 2), dtype=np.float32)
    vectors[1, 0] = np.nan
    with pytest.raises(UsageError, match="vector 1"):
        quantise(vectors, 0.1)
    with pytest.raises(UsageError, match="vector 0"):
        quantise(np.full((1, 2), 1e9, dtype=np.float32), 0.1)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-9, 1e6])
def test_impossible_common_scales_are_refused(scale: float) -> None:
    """A common scale must be a positive number that float16 holds."""
    with pytest.raises(InvalidOptionError, match="common scale"):
        quantise(np.ones((1, 2), dtype=np.float32), scale)
