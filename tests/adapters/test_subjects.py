"""Relations asked backwards: where the object has to stand."""

from __future__ import annotations

import pytest

from adapters.tasks.subjects import WantedObject
from tests.adapters.fake_knowledge_base import hit


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [("Danube", True), ("the danube", True), ("Albert Einstein", True), ("Dan", False), ("Warsaw", False)],
)
def test_only_places_where_the_object_stands_speak_for_a_subject(name: str, is_allowed: bool) -> None:
    """As whole words, whatever their case."""
    assert WantedObject.of(name).allows(hit()) is is_allowed


def test_an_object_is_also_called_as_the_documents_that_it_names() -> None:
    """Their titles count without what tells them from others."""
    assert WantedObject.of("Donau", ["Danube (river)"]).allows(hit())


def test_the_document_about_the_object_is_no_subject() -> None:
    """Ulm stands in its own passage."""
    assert not WantedObject.of("Ulm").allows(hit())
    assert WantedObject.of("Ulm").allows(hit(title="Albert Einstein"))


def test_without_an_object_every_place_speaks() -> None:
    """Other queries have none."""
    assert WantedObject().allows(hit())
