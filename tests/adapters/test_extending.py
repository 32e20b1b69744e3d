"""What a cell of a table gets of the answers to a slot."""

from __future__ import annotations

import pytest

from adapters.reconciliation.extending import values_shown
from adapters.tasks.values import values_of
from kbengine.inputs import Slot
from tests.web.page.fake_engine import answer, task_answer


@pytest.mark.parametrize(("has_one", "shown"), [(True, ["Warsaw"]), (False, ["Warsaw", "Vell"])])
def test_a_relation_with_one_value_has_the_best_and_others_all_that_are_probable(has_one, shown) -> None:
    """A second value takes a row of its own in a table, and would move what stands below."""
    found = [answer("Warsaw", rank=1, probability=0.5), answer("Vell", rank=2, probability=0.4)]
    values = values_of([(each.text, each.probability) for each in found], has_one=has_one)
    asked = task_answer(Slot("Ines Rook", "place of birth"), *found, values=values)
    assert [each.text for each in values_shown(asked)] == shown


def test_without_probabilities_the_best_is_shown_and_without_answers_nothing() -> None:
    """As text."""
    slot = Slot("Ines Rook", "place of birth")
    assert [each.text for each in values_shown(task_answer(slot, answer("Warsaw"), answer("Vell", rank=2)))] == [
        "Warsaw"
    ]
    assert values_shown(task_answer(slot)) == []
