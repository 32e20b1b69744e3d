"""Texts of our own that annotating is fitted on, and the fit."""

from __future__ import annotations

import numpy as np
import pytest

from adapters.annotating.evidence import ALONE, FEATURES, TOGETHER
from recipes.mention_model import TOGETHER_ONLY, fitted, marked_texts


def test_names_stand_where_the_texts_mark_them() -> None:
    """In order, apart, without blanks at their ends; most have a page, some have none."""
    titles = []
    for each in marked_texts():
        end = 0
        for begin, stop in each.names:
            assert end <= begin < stop <= len(each.text), each.text
            name, end = each.text[begin:stop], stop
            assert name == name.strip() and "[[" not in each.text and "|" not in name, each.text
        titles += each.names.values()
    assert len(titles) > 10_000
    assert 0.02 < titles.count(None) / len(titles) < 0.3


def test_the_fit_finds_what_tells_right_from_wrong() -> None:
    """And gives a column that is never there no weight."""
    pytest.importorskip("sklearn", reason="the extra calibration")
    numbers = np.random.default_rng(0).normal(size=(400, len(FEATURES)))
    numbers[:, FEATURES.index("said")] = 0.0
    model = fitted(numbers, numbers[:, 0] > 0, regularisation=1.0)
    assert model.coefficients[0] > 3 > 1 > max(map(abs, model.coefficients[1:]))
    assert model.coefficients[FEATURES.index("said")] == 0.0


def test_what_is_known_beside_other_mentions_is_not_used_before_they_are() -> None:
    """In the model that ships."""
    places = [FEATURES.index(name) for name in TOGETHER_ONLY]
    assert all(ALONE.coefficients[place] == 0.0 for place in places)
    assert all(TOGETHER.coefficients[place] > 0.0 for place in places)
