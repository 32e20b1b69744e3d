"""Annotating over HTTP and on the page: a text without marks, its mentions with their links."""

from __future__ import annotations

import json

import pytest

from web.models.annotate import AnnotatedBody

TEXT = "Marie Curie was in Paris with Quillmere."


def test_a_text_comes_back_with_its_mentions(shared):
    """In order, with offsets of the text, candidates and reasons."""
    response = shared.post("/v1/annotate", {"text": TEXT, "threshold": 0})

    assert response.status_code == 200, response.text
    body = AnnotatedBody.model_validate(response.json)
    assert body.characters == len(TEXT)
    assert [each.text for each in body.annotations] == ["Marie Curie", "Paris", "Quillmere"]
    assert all(TEXT[each.span[0] : each.span[1]] == each.text for each in body.annotations)
    assert all(each.link is not None and each.reason is None for each in body.annotations)


def test_names_without_a_link_have_a_reason_or_are_left_out(shared):
    """A name that is known and one that is not."""
    response = shared.post("/v1/annotate", {"text": TEXT, "threshold": 1})

    reasons = {each["text"]: each["reason"] for each in response.json["annotations"]}
    assert reasons == {"Marie Curie": "below_threshold", "Paris": "below_threshold", "Quillmere": "unknown_name"}
    assert shared.post("/v1/annotate", {"text": TEXT, "threshold": 1, "unlinked": False}).json["annotations"] == []


def test_a_stream_says_the_same_line_by_line_and_how_far_it_is(shared):
    """The last line is the end of the text."""
    whole = shared.post("/v1/annotate", {"text": TEXT}).json["annotations"]

    response = shared.post("/v1/annotate", {"text": TEXT, "stream": True})

    lines = [json.loads(line) for line in response.text.splitlines()]
    assert response.mimetype == "application/x-ndjson"
    assert [line["annotation"] for line in lines if "annotation" in line] == whole
    assert lines[-1] == {"progress": {"characters": len(TEXT), "of": len(TEXT)}}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"text": "  "}, "text"),
        ({"text": "a", "threshold": 2}, "threshold"),
        ({"text": "a", "candidates": 0}, "candid"),
    ],
)
def test_what_cannot_be_annotated_is_refused_by_the_field(shared, body, field):
    """With 422, before anything is asked."""
    response = shared.post("/v1/annotate", body)

    assert response.status_code == 422 and field in response.text


def test_a_filter_that_cannot_be_read_is_refused_also_of_a_stream(shared):
    """By the status, since the first line is made before it."""
    for stream in (False, True):
        response = shared.post("/v1/annotate", {"text": TEXT, "where": "and and", "stream": stream})
        assert response.status_code == 400, response.text


def test_an_added_document_is_linked_to_at_once_and_a_deleted_one_no_more(service):
    """The names are those of the newest commit."""
    text = "They walked to Quillmere."
    service.post("/v1/documents", {"id": "quillmere", "title": "Quillmere", "text": "Quillmere is a village."})

    found = service.post("/v1/annotate", {"text": text, "threshold": 0}).json["annotations"]
    assert [(each["text"], each["link"]["document"]["id"]) for each in found if each["text"] == "Quillmere"]
    titles = {each["document"]["title"] for one in found for each in one["candidates"]}
    assert "Quillmere" in titles

    service.post("/v1/documents:delete", {"ids": ["quillmere"]})
    found = service.post("/v1/annotate", {"text": text, "threshold": 1}).json["annotations"]
    assert {each["text"]: each["reason"] for each in found}["Quillmere"] == "unknown_name"


def test_the_page_shows_the_text_with_its_links_and_a_line_for_each_mention(shared):
    """With the candidates' documents to go to."""
    page = shared.client.get("/annotate").text
    assert "<textarea" in page and 'aria-current="page">Annotate' in page

    page = shared.client.post("/annotate", data={"text": TEXT, "threshold": "0"}).text

    assert "3 links in 3 names" in page
    assert '<mark><a class="annotated__link" href="#mention-1"' in page and 'id="mention-3"' in page
    assert 'href="/document?id=' in page


def test_the_page_says_what_is_wrong_and_escapes_what_it_shows(shared):
    """Nothing of a text is markup."""
    page = shared.client.post("/annotate", data={"text": "<script>Marie Curie</script>", "threshold": "x"})
    assert page.status_code == 400 and "wanted a probability" in page.text
    assert "<script>Marie" not in page.text
    assert "<script>Marie" not in shared.client.post("/annotate", data={"text": "<script>Marie Curie</script>"}).text
    assert shared.client.post("/annotate", data={"text": " "}).status_code == 400
    assert "at most" in shared.client.post("/annotate", data={"text": "A" * 20_000}).text
