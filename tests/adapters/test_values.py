"""All values of a slot, and values that contradict each other."""

from __future__ import annotations

import pytest

from adapters.commands.answer_text import values_text
from adapters.tasks.answerer import Answerer
from adapters.tasks.values import Value, values_of
from kbengine.inputs import Question, Slot, TaskInput
from tests.adapters.calibrations import calibration, settings_with
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase

TEXT = "Ada Thorne was born on 3 May 1879 in Ulm."
OTHER = "Ada Thorne, born in 1879, others say 4 May 1880, left Ulm."
PLACES = [
    Place("3 May 1879", TEXT, "Ada Thorne", start=9.0, passage_id=1),
    Place("1879", OTHER, "Painters", start=8.0, passage_id=2),
    Place("4 May 1880", OTHER, "Painters", start=7.0, passage_id=2),
]


def test_values_are_the_best_answer_and_those_that_are_probable_enough() -> None:
    """What says the same, in fewer or in more words, is told once."""
    answers = [
        ("Irène Joliot-Curie", 0.1),
        ("Ève Curie", 0.3),
        ("Irène", 0.3),
        ("Ève Denise Curie", 0.25),
        ("Pierre", 0.19),
    ]
    assert [(value.text, value.rank, value.contradicts) for value in values_of(answers, has_one=False)] == [
        ("Irène Joliot-Curie", 1, ()),
        ("Ève Curie", 2, ()),
    ]


def test_several_values_of_a_relation_that_has_one_contradict_each_other() -> None:
    """Each names the others."""
    values = values_of([("1867", 0.6), ("1868", 0.5)], has_one=True)
    assert values == (Value("1867", 1, 0.6, ("1868",)), Value("1868", 2, 0.5, ("1867",)))
    assert values[0].to_json() == {"text": "1867", "rank": 1, "probability": 0.6, "contradicts": ["1868"]}


def test_without_probabilities_there_are_no_values() -> None:
    """Scores are not comparable between queries."""
    assert values_of([("1867", None)], has_one=True) == ()


@pytest.mark.parametrize(
    ("asked", "values", "said"),
    [
        (
            Slot("Ada Thorne", "P569"),
            {"3 May 1879": ["4 May 1880"], "4 May 1880": ["3 May 1879"]},
            "the sources contradict each other: 3 May 1879; 4 May 1880",
        ),
        (
            Slot("Ada Thorne", "significant event"),
            {"3 May 1879": [], "4 May 1880": []},
            "values: 3 May 1879; 4 May 1880",
        ),
        (Slot.backwards("place of birth", "Ulm"), {}, ""),
        (Question("When was Ada Thorne born?"), {}, ""),
    ],
)
def test_answers_to_slots_have_their_values(asked: TaskInput, values: dict[str, list[str]], said: str) -> None:
    """As many as are told apart, by the table of relations; other tasks have none."""
    knowledge_base = ScriptedKnowledgeBase(lambda _: PLACES)
    knowledge_base.settings = settings_with(
        *(calibration(task, best=0.6, others=0.3) for task in ("slot-filling", "question"))
    )
    (found,) = Answerer(knowledge_base).answer([asked])
    assert {value["text"]: value["contradicts"] for value in found.to_json()["values"]} == values
    assert values_text(found) == said
