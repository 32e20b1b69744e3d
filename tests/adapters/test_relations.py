"""Wikidata relations by id and by name."""

from __future__ import annotations

import re

import pytest

from adapters.errors import UnknownRelationError
from adapters.tasks.relations import Relation, RelationTable, property_id_of


@pytest.fixture(scope="module")
def table() -> RelationTable:
    """The table that ships."""
    return RelationTable.load()


@pytest.mark.parametrize(
    ("property_id", "name"),
    [
        ("P17", "country"),
        ("P19", "place of birth"),
        ("P569", "date of birth"),
        ("P36", "capital"),
        ("P106", "occupation"),
        ("P131", "located in the administrative territorial entity"),
        ("P161", "cast member"),
        ("P1412", "languages spoken, written or signed"),
    ],
)
def test_common_properties_have_their_names(table: RelationTable, property_id: str, name: str) -> None:
    """By id and back."""
    assert table.by_id(property_id).name == name
    assert table.by_name(name).id == property_id


def test_the_table_is_large_and_free_of_contradictions(table: RelationTable) -> None:
    """At least 300 relations; a name or alias belongs to one of them; ids rise."""
    relations = list(table)
    assert len(relations) == len(table) >= 300
    names = [name.casefold() for relation in relations for name in (relation.name, *relation.aliases)]
    assert len(names) == len(set(names))
    assert all(name == name.strip() and name for name in names)
    numbers = [int(relation.id.removeprefix("P")) for relation in relations]
    assert numbers == sorted(set(numbers))


def test_every_relation_says_what_it_means(table: RelationTable) -> None:
    """A short description without notes to editors, and a question with one place for the subject."""
    for relation in table:
        description, question = relation.description, relation.question
        assert description and description == " ".join(description.split()), relation
        assert not re.search(r"\b[PQ][0-9]+\b|https?:|\[|qualifier|\b[Ww]ikidata", description), relation
        assert len(description) <= 140, relation
        assert question.count("{}") == 1 and question.endswith("?"), relation
        assert question == " ".join(question.split()) and question[0].isupper(), relation


def test_relations_with_one_value_are_marked(table: RelationTable) -> None:
    """Nothing can have two dates of birth; it can have two children, or two heads of state one after the other."""
    marked = {relation.name for relation in table if relation.has_one_value}
    assert {"date of birth", "place of birth", "father", "atomic number"} <= marked
    assert not marked & {"child", "spouse", "head of state", "capital", "notable work", "occupation", "country"}


@pytest.mark.parametrize("relation", ["P19", "place of birth", "Birthplace", " born in "])
def test_a_question_is_asked_by_id_name_or_alias(table: RelationTable, relation: str) -> None:
    """The subject stands where the form says."""
    assert table.question_of(relation, " Marie Curie ") == "Where was Marie Curie born?"


def test_a_relation_without_a_form_of_its_own_is_asked_for_plainly(table: RelationTable) -> None:
    """Free text too, a subject with braces as well."""
    assert table.question_of(" favourite  dish ", "Nero") == "What is the favourite dish of Nero?"
    assert table.question_of("P19", "{}") == "Where was {} born?"
    assert RelationTable([Relation("P1", "colour")]).question_of("P1", "it") == "What is the colour of it?"
    with pytest.raises(UnknownRelationError, match="P1700"):
        table.question_of("P1700", "Nero")


@pytest.mark.parametrize(
    "text",
    [
        "P19",
        " p19 ",
        "wdt:P19",
        "wd:P19",
        "https://www.wikidata.org/wiki/Property:P19",
        "http://www.wikidata.org/entity/P19",
        "http://www.wikidata.org/prop/direct/P19",
    ],
)
def test_an_id_is_known_in_each_form_that_users_paste(table: RelationTable, text: str) -> None:
    """Bare, prefixed or as an address."""
    assert property_id_of(text) == "P19"
    assert table.relation_text(text) == "place of birth"


@pytest.mark.parametrize("text", ["Place of  Birth", "birthplace", "PLACE OF BIRTH"])
def test_names_and_aliases_are_found_without_case(table: RelationTable, text: str) -> None:
    """Blanks are collapsed too."""
    assert table.find(text) == table.by_name(text) == table.by_id("P19")


def test_free_text_is_a_relation_of_its_own(table: RelationTable) -> None:
    """Only ids are translated; other texts are searched with as they are."""
    assert table.find("was seen near") is None
    assert table.relation_text(" was seen near ") == "was seen near"
    assert table.relation_text("Birthplace") == "Birthplace"


def test_an_unknown_id_is_an_error_that_names_close_ones(table: RelationTable) -> None:
    """Whichever way it is asked for."""
    for call in (table.by_id, table.find, table.relation_text):
        with pytest.raises(
            UnknownRelationError, match=r"P1700 is not among .*P170 \(creator\).*relation's name instead"
        ):
            call("P1700")


def test_an_unknown_name_is_an_error_that_names_close_ones(table: RelationTable) -> None:
    """A spelling mistake leads to the right id."""
    with pytest.raises(UnknownRelationError, match=r"no relation is called 'place of brith'.*P19 \(place of birth\)"):
        table.by_name("place of brith")


def test_an_item_id_is_not_a_relation(table: RelationTable) -> None:
    """Q5 is an entity."""
    with pytest.raises(UnknownRelationError, match="'Q5' is not a Wikidata property id"):
        table.by_id("Q5")


def test_a_table_of_ones_own_has_no_suggestions_to_make() -> None:
    """An unknown id in a small table is named without false friends."""
    with pytest.raises(UnknownRelationError, match="P2 is not among the 1 relations that kbengine knows by id; give"):
        RelationTable([Relation("P1000", "record held")]).by_id("P2")
