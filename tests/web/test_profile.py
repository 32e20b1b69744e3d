"""Cards of entities over HTTP."""

from __future__ import annotations

import pytest

from web.models.profile import ProfileBody


def test_a_card_by_get_and_by_post_is_the_same(shared):
    """And follows the schema."""
    by_get = shared.client.get("/v1/profile", query_string={"name": "Marie Curie", "n_relations": 3})
    by_post = shared.post("/v1/profile", {"name": "Marie Curie", "n_relations": 3})

    assert by_get.status_code == by_post.status_code == 200, by_get.text
    cards = [response.json | {"timings_ms": {}} for response in (by_get, by_post)]
    assert cards[0] == cards[1]
    card = ProfileBody.model_validate(by_get.json)
    assert card.status == "found" and card.entity.id == "marie-curie" and len(card.asked) == 3
    for fact in card.facts:
        for value in fact.values:
            start, end = value.evidence.span
            assert value.evidence.passage.text[start:end] == value.evidence.text


def test_relations_of_ones_own_are_asked_for(shared):
    """By id."""
    card = shared.post("/v1/profile", {"id": "marie-curie", "relations": ["P19", "P20"], "threshold": 0}).json
    assert card["asked"] == ["P19", "P20"]


def test_a_card_is_not_sent_again_until_something_changes(shared):
    """304 to the same question with its tag."""
    first = shared.client.get("/v1/profile?id=paris&n_relations=1")
    again = shared.client.get("/v1/profile?id=paris&n_relations=1", headers={"If-None-Match": first.headers["ETag"]})
    other = shared.client.get("/v1/profile?id=paris&n_relations=2", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.data, other.status_code) == (304, b"", 200)


def test_an_unknown_name_is_an_answer_and_an_unknown_id_an_error(shared):
    """A name may be anything; an id has to be one."""
    unknown = shared.client.get("/v1/profile", query_string={"name": "Zzyzx"})
    assert (unknown.status_code, unknown.json["status"]) == (200, "unknown")
    assert shared.client.get("/v1/profile", query_string={"id": "nowhere"}).status_code == 404


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({}, 400),
        ({"name": "Paris", "id": "paris"}, 400),
        ({"name": " "}, 400),
        ({"name": "Paris", "n_relations": 0}, 422),
        ({"name": "Paris", "relations": []}, 422),
        ({"name": "Paris", "relations": ["P99999"]}, 400),
    ],
)
def test_what_cannot_be_asked_is_refused(shared, asked, status):
    """By the status that belongs to it."""
    assert shared.post("/v1/profile", asked).status_code == status
