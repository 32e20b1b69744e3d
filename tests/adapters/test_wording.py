"""Slots in words: own wordings of a relation, and the table's question forms."""

from __future__ import annotations

import pytest

from adapters.errors import UnknownRelationError
from adapters.tasks.relations import RelationTable
from adapters.tasks.wording import in_words, own_form, reading_input, relation_words
from kbengine.errors import TaskInputError
from kbengine.inputs import Dialogue, Mention, Question, Slot


@pytest.mark.parametrize(
    ("relation", "text"),
    [
        ("instrument that X plays", "What is the instrument that Ann plays?"),
        ("the town X comes from", "What is the town Ann comes from?"),
        ("Who taught {}?", "Who taught Ann?"),
        ("who taught X", "who taught Ann?"),
        ("In which city did X  live", "In which city did Ann live?"),
        ("What is X's job?", "What is Ann's job?"),
        ("X was born in", "Ann was born in"),
        ("the X-ray that {} discovered", "What is the X-ray that Ann discovered?"),
        ("P19", "Where was Ann born?"),
        ("Birthplace", "Where was Ann born?"),
        ("favourite dish", "What is the favourite dish of Ann?"),
    ],
)
def test_a_slot_is_put_into_words(relation: str, text: str) -> None:
    """By its own wording, by the form of the table, or plainly."""
    assert in_words(Slot(" Ann ", relation)) == Question(text)


@pytest.mark.parametrize(
    ("relation", "text"),
    [
        ("P19", "Who or what has place of birth Ulm?"),
        ("founded by", "Who or what is founded by Ulm?"),
        (
            "located in the administrative territorial entity",
            "Who or what is located in the administrative territorial entity Ulm?",
        ),
        ("part of", "Who or what is part of Ulm?"),
        ("crosses", "Who or what crosses Ulm?"),
        ("has part", "Who or what has part Ulm?"),
        ("town that X loves", "Who or what has town that loves Ulm?"),
    ],
)
def test_a_relation_asked_backwards_is_put_into_words(relation: str, text: str) -> None:
    """With a verb that joins it to whatever is wanted."""
    assert in_words(Slot.backwards(relation, " Ulm ")) == Question(text)


def test_a_relation_that_only_names_itself_has_no_own_form() -> None:
    """No name, alias or id of the table is taken for a wording, nor is an X within a word."""
    for relation in RelationTable.load():
        for name in (relation.id, relation.name, *relation.aliases):
            assert own_form(name) is None
    assert own_form("X-ray of") is None
    assert own_form("who was it?") is None


def test_the_words_of_a_wording_are_matched_without_the_subjects_place() -> None:
    """Those of an id are its name."""
    assert relation_words(" instrument that X plays ") == "instrument that plays"
    assert relation_words("wdt:P19") == "place of birth"
    assert relation_words(" seen near ") == "seen near"
    with pytest.raises(UnknownRelationError, match="P99999"):
        relation_words("P99999")


@pytest.mark.parametrize("relation", ["X", " {}? ", "{}"])
def test_the_subjects_place_alone_is_no_wording(relation: str) -> None:
    """The message says what is wanted."""
    with pytest.raises(TaskInputError, match=r"place alone; wanted words around it, as in 'instrument that X plays'"):
        in_words(Slot("Ann", relation))


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Slot(" Ann ", "P641"), "What sport does Ann have?"),
        (Slot("Ann", "favourite dish"), "What favourite dish does Ann have?"),
        (Slot("Tower Bridge", "crosses"), "What does Tower Bridge cross?"),
        (Slot("Ann", "instrument that X plays"), "What is the instrument that Ann plays?"),
        (Slot.backwards("founded by", "Ann"), "Who or what is founded by Ann?"),
    ],
)
def test_a_reader_reads_a_slot_as_a_question(asked: Slot, text: str) -> None:
    """In the wording that was measured to be read best."""
    assert reading_input(asked) == Question(text)


@pytest.mark.parametrize("asked", [Question("Why?"), Mention("in Ulm", (3, 6)), Dialogue(("Hello.",))])
def test_anything_else_is_read_as_it_is(asked) -> None:
    """Only slots have wordings."""
    assert reading_input(asked) is asked
