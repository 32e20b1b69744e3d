"""The comparison of two arithmetics."""

from __future__ import annotations

from benchmarks.arithmetic import Measured, compared


def measured(answers: list[str], rprec: float) -> Measured:
    """One set's answers and score."""
    return Measured(1000.0, {("squad", i): answer for i, answer in enumerate(answers)}, {"squad": {"Rprec": rprec}})


def test_other_first_answers_and_scores_are_counted() -> None:
    """In percent of the rows, and in points of the mean over sets."""
    reference = measured(["a"] * 200, 50.0)
    found = compared(measured(["a"] * 199 + ["b"], 50.2), reference)
    assert (found["first_answers_different"], found["first_answers_different_percent"]) == (1, 0.5)
    assert found["macro_difference"] == {"Rprec": 0.2, "KILT-em": 0.0}
    assert found["holds"]


def test_what_is_wanted_is_a_hundredth_and_a_third_of_a_point() -> None:
    """More of either is missed."""
    reference = measured(["a"] * 200, 50.0)
    assert not compared(measured(["a"] * 197 + ["b"] * 3, 50.0), reference)["holds"]
    assert not compared(measured(["a"] * 200, 49.6), reference)["holds"]
