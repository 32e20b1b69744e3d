"""What a doubling of the vectors costs, and what a stage of a query could take at least."""

from __future__ import annotations

import pytest

from benchmarks.growth import growth
from benchmarks.limits import limit


def row(n: int, ms: float) -> dict[str, object]:
    """A knowledge base of n vectors, asked in so many milliseconds of every kind."""
    times = {"clock_ms": ms, "processor_ms": ms}
    return {"indexed_vectors": n, "single": times, "batch_of_64": times}


def test_a_step_of_several_doublings_is_told_as_that_of_one():
    """Eight times the vectors in eight times the time are three doublings, each twice the time."""
    (step,) = growth([row(1000, 2.0), row(8000, 16.0)])
    assert (step["from"], step["to"]) == (1000, 8000)
    assert step["single_clock"] == step["batch_of_64_processor"] == pytest.approx(2.0)


def test_a_limit_is_the_longer_one_of_reading_and_multiplying():
    """Both are added up over what is read, and over what is multiplied; the larger sum counts."""
    rates = {
        "read_in_order_bytes": 1e6,
        "read_rows_bytes": 1e5,
        "float32_multiply_adds": 1e6,
        "int8_multiply_adds": 1e7,
    }
    reading = limit(rates, in_order=2000, rows=100, float32=1000)
    assert reading["memory_ms"] == pytest.approx(3.0) and reading["limit_ms"] == pytest.approx(3.0)
    multiplying = limit(rates, in_order=1000, float32=1000, int8=20_000)
    assert multiplying["multiplying_ms"] == pytest.approx(3.0) and multiplying["limit_ms"] == pytest.approx(3.0)
