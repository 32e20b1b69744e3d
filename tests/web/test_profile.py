"""Cards of entities over HTTP."""

from __future__ import annotations

import html
import re

import pytest

from adapters.profiles.card import Edge, EntityRef
from tests.tiny_encoder import SENTENCES
from web.models.profile import ProfileBody
from web.page.entities import picture


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


def test_the_page_shows_the_card_with_a_permalink_and_each_phrase_in_its_place(shared):
    """The values' links lead to the document with the phrase marked."""
    page = shared.client.get("/entity", query_string={"name": "Marie Curie"})
    assert page.status_code == 200 and 'href="/entity?id=marie-curie"' in page.text
    assert "Permalink" in page.text and SENTENCES[1].split(".")[0] in page.text
    addresses = [html.unescape(each) for each in re.findall(r'class="fact__source" href="([^"]+)"', page.text)]
    assert addresses
    for address in addresses:
        document = shared.client.get(address.partition("#")[0]).text
        (marked,) = re.findall(r'<mark id="mark" tabindex="-1">(.+?)</mark>', document)
        assert marked


def test_the_page_of_a_name_that_means_nothing_offers_what_is_there(shared):
    """Without a name there is only the form; an id that is not there is said to be missing."""
    assert "No document is called" in shared.client.get("/entity?name=Curiosity of Marie").text
    assert "Name of a person" in shared.client.get("/entity").text
    missing = shared.client.get("/entity?id=nowhere")
    assert missing.status_code == 404 and "There is no such card." in missing.text


@pytest.mark.parametrize("mark", ["1:0-5", "1:5-0", "9:0-4", "x", "1:0-999999999", "1:-1-4"])
def test_a_document_is_shown_whatever_is_to_be_marked(shared, mark):
    """What cannot be marked is not."""
    page = shared.client.get("/document", query_string={"id": "paris", "mark": mark})
    assert page.status_code == 200
    assert page.text.count('<mark id="mark"') == (mark in ("1:0-5", "1:0-999999999"))


def test_related_entities_stand_in_two_columns():
    """Answers on the right, links on the left; one kind alone goes to both."""
    answers = [Edge(EntityRef(f"a{i}", f"Answer {i}"), "answer", "child") for i in range(3)]
    links = [Edge(EntityRef("l", "A document with a very long title indeed"), "links_to", "links to")]
    both = picture("Ann", [*answers, *links])
    assert [node.anchor for node in both.nodes] == ["end", "start", "start", "start"]
    assert both.nodes[0].label.endswith("…") and len({(node.x, node.y) for node in both.nodes}) == 4
    assert {node.anchor for node in picture("Ann", answers).nodes} == {"start", "end"}
    assert picture("Ann", []) is None


@pytest.mark.parametrize("address", ["/entity", "/?task=slot-filling"])
def test_fields_for_names_offer_documents_from_where_they_are_suggested(shared, address):
    """The script is on these pages alone; what it asks is there."""
    page = shared.client.get(address).text
    (suggests, *_) = re.findall(r'data-suggest="([^"]+)"', page)
    assert "suggest.js" in page and "suggest.js" not in shared.client.get("/").text
    found = shared.client.get(suggests, query_string={"prefix": "Mar"}).json["result"]
    assert "Marie Curie" in [each["name"] for each in found]
