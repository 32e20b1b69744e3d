"""Distinct answers from hits: what counts as the same, which writing is shown."""

from __future__ import annotations

import pytest

from adapters.tasks.grouping import groups_of, searched_unit
from kbengine.search.query import Query
from kbengine.search.results import Hit
from tests.adapters.scripted_knowledge_base import Place, ScriptedKnowledgeBase


def hits(unit: str, *places: Place) -> list[Hit]:
    """The hits of the places, in the order given."""
    scored = [Place(p.phrase, p.text, p.page, start=100.0 - i, passage_id=i + 1) for i, p in enumerate(places)]
    knowledge_base = ScriptedKnowledgeBase(lambda _: scored)
    return list(knowledge_base.search([Query.question("Who?")], k=50, unit=unit)[0].hits)


def phrases(*texts: str) -> list[Hit]:
    """Hits on phrases, each in a passage of its own, on the pages A, B and so on."""
    return hits("phrase", *(Place(text, f"It was {text} then.", chr(65 + i)) for i, text in enumerate(texts)))


def test_phrases_that_differ_by_case_articles_and_punctuation_are_one_answer() -> None:
    """KILT's normalisation; places stay best first; the group ranks as its best place does."""
    groups = groups_of("phrase", phrases("the Danube", "Rhine", "Danube.", "danube", "Rhine!"))
    assert [(group.text, len(group.hits), group.score) for group in groups] == [
        ("the Danube", 3, 100.0),
        ("Rhine", 2, 99.0),
    ]
    assert [hit.document.title for hit in groups[0].hits] == ["A", "C", "D"]


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        (("WARSAW", "Warsaw", "Warsaw"), "Warsaw"),
        (("Painter", "painter", "painter"), "painter"),
        (("Warsaw", "WARSAW"), "Warsaw"),
        (("the Danube", "Danube", "Danube"), "the Danube"),
        (("iPhone",), "iPhone"),
    ],
)
def test_the_commonest_letter_case_of_the_best_place_is_shown(texts, shown) -> None:
    """Equally common ones give way to the best place's; words are never exchanged."""
    assert groups_of("phrase", phrases(*texts))[0].text == shown


def test_phrases_that_normalise_to_nothing_keep_apart() -> None:
    """A band called "The The" is not the article "a"; nothing but punctuation is no answer."""
    groups = groups_of("phrase", phrases("The The", "A", "…"))
    assert [group.text for group in groups] == ["The The", "A"]


def test_passages_of_a_document_are_one_answer() -> None:
    """Its title, and its passages best first."""
    found = hits("passage", Place("a", "a 1", "Ulm"), Place("b", "b 2", "Bonn"), Place("c", "c 3", "Ulm"))
    groups = groups_of("document", found)
    assert [(group.text, [hit.passage.text for hit in group.hits]) for group in groups] == [
        ("Ulm", ["a 1", "c 3"]),
        ("Bonn", ["b 2"]),
    ]


@pytest.mark.parametrize("unit", ["sentence", "passage"])
def test_sentences_and_passages_stay_as_they_are(unit) -> None:
    """Each is an answer of its own."""
    found = hits(unit, Place("a", "a 1", "Ulm"), Place("b", "b 2", "Ulm"))
    assert [group.text for group in groups_of(unit, found)] == ["a 1", "b 2"]


def test_documents_are_searched_by_their_passages() -> None:
    """So that each comes with several."""
    assert [searched_unit(unit) for unit in ("phrase", "sentence", "passage", "document")] == [
        "phrase",
        "sentence",
        "passage",
        "passage",
    ]
