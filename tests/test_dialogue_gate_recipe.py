"""The recipe of the dialogue gate: the talks that it makes of rows, and its fit."""

from __future__ import annotations

import random

import numpy as np
import pytest

from recipes.dialogue_gate import Talk, fit, kept_talks, whole_talks


def talk(conversation: str, turn: int, *turns: str) -> Talk:
    """A row about Kafka."""
    return Talk(turns, ("1",), ("Kafka (writer)",), conversation, turn)


def test_earlier_turns_are_put_back() -> None:
    """A row has the newest turns alone; rows before it have the others. One that misses none is not told twice."""
    rows = [talk("a", 2, "one", "two"), talk("a", 4, "three", "four"), talk("b", 4, "drei", "vier")]

    assert [each.turns for each in whole_talks(rows)] == [("one", "two", "three", "four")]


def test_a_kept_talk_names_its_subject_in_the_opening_alone() -> None:
    """Its later turns are of other talks about the same page."""
    rows = [talk("a", 2, "Hello.", "I read Kafka."), talk("b", 2, "Was Kafka sad?", "Kafka was.")]

    for each in kept_talks(rows, random.Random(0)):
        assert "Kafka" in each.turns[0]
        assert not any("Kafka" in turn for turn in each.turns[3:])
        assert each.pages == ("1",)
    assert kept_talks(rows[:1], random.Random(0)) == []


def test_the_fit_finds_the_odds_of_two_groups() -> None:
    """Of rows with feature 0 a quarter is right, with feature 1 three quarters: log odds of -log 3 and log 3."""
    features = np.repeat([[0.0], [1.0]], 400, axis=0)
    is_right = np.tile([True, False, False, False], 200) ^ (features[:, 0] > 0)

    coefficients, intercept = fit(features, is_right, np.full(800, 1000.0))

    assert (intercept, coefficients[0]) == (pytest.approx(-np.log(3), abs=1e-3), pytest.approx(2 * np.log(3), abs=1e-3))
