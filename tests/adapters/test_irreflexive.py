"""Nobody is their own spouse: a slot's subject is no object where that is certain, and stays one elsewhere."""

from __future__ import annotations

import pytest

from adapters.tasks.answerer import Answerer, AnswerOptions
from adapters.tasks.irreflexive import IRREFLEXIVE, impossible_object
from adapters.tasks.relations import RelationTable
from kbengine.inputs import Question, Slot
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase

WORLD = [
    Place("Ada Thorne", "Ada Thorne married Ines Rook.", "A", start=9.0, passage_id=1),
    Place("Ines Rook", "Ada Thorne married Ines Rook.", "A", start=8.0, passage_id=1),
    Place("the ADA THORNE", "It is the ADA THORNE of poetry.", "B", start=7.0, passage_id=2),
    Place("Bo Lind", "Bo Lind wept.", "C", start=6.0, passage_id=3),
]


def texts(relation: str, **options) -> list[str]:
    """The answers for the subject 'Ada Thorne', best first."""
    answerer = Answerer(ScriptedKnowledgeBase(lambda _: WORLD))
    (found,) = answerer.answer([Slot("Ada Thorne", relation)], AnswerOptions(**options))
    assert [each.rank for each in found.answers] == list(range(1, len(found.answers) + 1))
    return [each.text for each in found.answers]


@pytest.mark.parametrize("relation", ["P26", "spouse", "Spouse ", "husband", "sibling", "place of birth"])
def test_the_subject_is_not_offered_as_its_own_object(relation: str) -> None:
    """By id, name or alias of the relation; case and articles do not count, and the answers asked for are all there."""
    assert texts(relation, k=2) == ["Ines Rook", "Bo Lind"]


@pytest.mark.parametrize("relation", ["P138", "named after", "performer", "capital", "father", "is married to"])
def test_elsewhere_the_subject_may_be_the_object(relation: str) -> None:
    """Albums and sons have the names of performers and fathers; of a relation in free text nothing is known."""
    assert texts(relation, k=1) == ["Ada Thorne"]


def test_other_units_are_as_they_were() -> None:
    """A sentence or document that says it is an answer, whatever its name."""
    assert texts("spouse", unit="document")[0] == "A"


def test_only_slots_have_a_subject_and_every_relation_listed_is_known() -> None:
    """A question excludes nothing; the ids are those of the table."""
    assert impossible_object(Question("spouse")) == ""
    assert {RelationTable.load().by_id(each).id for each in IRREFLEXIVE} == IRREFLEXIVE
