"""The JSON twin of a search is what the API answers."""

from __future__ import annotations

import pytest

from web.page.json_answers import PATH
from web.page.search_form import SearchForm

FORMS = [
    SearchForm(q="Where is the river?", k=3, strategy="dense"),
    SearchForm(task="slot-filling", subject="Paris", relation="country"),
    SearchForm(task="entity-linking", text="By [START_ENT] Paris [END_ENT]."),
    SearchForm(task="entity-linking", text="[START_ENT] Paris [END_ENT] of [START_ENT] Band [END_ENT]"),
    SearchForm(task="dialogue", turns=("The river.", "Where is it?")),
]


def without_times(body):
    """The answer without what differs each time."""
    if isinstance(body, dict):
        return {name: without_times(each) for name, each in body.items() if name not in ("timings_ms", "cached")}
    return [without_times(each) for each in body] if isinstance(body, list) else body


@pytest.mark.parametrize("form", FORMS, ids=lambda form: f"{form.task}-{len(form.mentions)}")
def test_a_search_with_the_other_path_has_the_answer_of_the_api(shared, form):
    """The same parameters, the same envelope; the tag of the API too."""
    got = shared.client.get(form.address(PATH))
    asked = shared.post(f"/v1/{form.task}", form.body())

    assert got.status_code == 200, got.text
    assert got.content_type == "application/json"
    assert without_times(got.json) == without_times(asked.json)
    assert got.headers.get("ETag") == asked.headers.get("ETag")


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("q=x&k=0", 400, "bad_task_input"),
        ("q=x&encoder=none", 404, "unknown_encoder"),
        ("task=slot-filling&subject=Paris", 422, "invalid_body"),
        ("task=entity-linking&text=nothing", 422, "invalid_body"),
    ],
)
def test_what_cannot_be_asked_is_a_problem_document(shared, query, status, code):
    """As of the API, not a page."""
    response = shared.client.get(f"{PATH}?{query}")

    assert (response.status_code, response.json["code"]) == (status, code)
    assert response.content_type == "application/problem+json"


def test_the_page_links_to_it(client):
    """Beside the link to the search itself."""
    assert b'href="/answers.json?task=question&amp;q=x"' in client.get("/?q=x").data
