"""Compiled functions give what they give in Python, wherever their machine code can or cannot be kept."""

from __future__ import annotations

import numpy as np

from storage.compiled import compiled, or_go_on


def add_up(numbers: np.ndarray) -> float:
    """Return the sum, one after the other."""
    total = 0.0
    for number in numbers:
        total += number
    return total


def test_a_function_gives_what_it_gave_before_it_was_compiled() -> None:
    """Of arrays and numbers."""
    assert compiled()(add_up)(np.arange(5.0)) == add_up(np.arange(5.0)) == 10


def test_free_sums_are_sums() -> None:
    """In another order, so but for rounding."""
    numbers = np.random.default_rng(0).normal(size=1000)
    np.testing.assert_allclose(compiled(free_sums=True)(add_up)(numbers), numbers.sum(), rtol=1e-12)


def test_what_has_no_place_to_be_kept_is_compiled_all_the_same() -> None:
    """As where neither the program's folder nor the user's can be written."""
    namespace: dict[str, object] = {}
    exec("def double(n):\n    return 2 * n", namespace)  # of no file, so that there is no folder beside it
    double = namespace["double"]
    assert callable(double)
    assert compiled()(double)(21) == 42


def test_a_full_disk_stops_nothing() -> None:
    """What cannot be written is computed again by the next process."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    or_go_on(full, "double")("signature", "code")


def test_machine_code_is_kept_where_it_can_be() -> None:
    """It is given on as it is."""
    kept: list[object] = []
    or_go_on(lambda *args: kept.append(args), "double")("signature", "code")
    assert kept == [("signature", "code")]
