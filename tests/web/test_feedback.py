"""/v1/feedback, and the buttons of the page without scripts."""

from __future__ import annotations

import re

from storage.reader import KBReader

SAID = {"input": "Where was Marie Curie born?", "answer": "Warsaw", "verdict": "right", "document": "marie-curie"}


def test_feedback_is_given_listed_and_deleted(service):
    """With its place; what is left out is a question."""
    given = service.post("/v1/feedback", {**SAID, "paragraph": 1})
    service.post("/v1/feedback", {**SAID, "answer": "Paris", "verdict": "wrong"})
    listed = service.client.get("/v1/feedback", query_string={"limit": 1}).json
    rest = service.client.get("/v1/feedback", query_string={"page_token": listed["next_page_token"]}).json
    wrong = service.client.get("/v1/feedback", query_string={"verdict": "wrong"}).json

    assert given.status_code == 201 and given.json["ids"] == [1] and given.json["repeated"] is False
    [entry] = listed["feedback"]
    assert entry.pop("at")
    assert entry == {"id": 1, "task": "question", "paragraph": 1, **SAID}
    assert [each["answer"] for each in rest["feedback"]] == ["Paris"] == [each["answer"] for each in wrong["feedback"]]
    assert rest["next_page_token"] is None

    assert service.post("/v1/feedback:delete", {"ids": [1]}).json["ids"] == [1]
    missing = service.post("/v1/feedback:delete", {"ids": [1]})
    assert (missing.status_code, missing.json["code"]) == (404, "unknown_feedback")


def test_feedback_sent_again_is_stored_once(service, kb_path):
    """By its name; the same name for something else is a conflict."""
    first, again = (service.post("/v1/feedback", SAID, Idempotency_Key="one") for _ in range(2))
    other = service.post("/v1/feedback", {**SAID, "verdict": "wrong"}, Idempotency_Key="one")

    assert first.json["ids"] == again.json["ids"] and again.json["repeated"] is True
    assert other.status_code == 409
    with KBReader.open(kb_path) as reader:
        assert [each.verdict for each in reader.list_feedback()] == ["right"]


def test_what_cannot_be_judged_is_refused(service):
    """A slot without a relation, a mention's right answer without a document, an unknown verdict."""
    for changes in ({"task": "slot-filling"}, {"task": "dialogue", "document": None}, {"verdict": "maybe"}):
        refused = service.post("/v1/feedback", {**SAID, **changes})
        assert refused.status_code in (400, 422), refused.json


def test_the_page_shows_what_was_said_and_changes_it(service):
    """Right, then wrong, then taken back; each leads back to the search."""
    search = "/?task=question&q=Where+was+Marie+Curie+born%3F&k=2"
    for verdict, pressed in (("right", ["true", "false"]), ("wrong", ["false", "true"]), ("wrong", ["false", "false"])):
        page = service.client.get(search).text
        form = page[page.index("data-judge") :].split("</form>")[0]
        fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
        assert fields["back"].startswith("/?")
        sent = service.client.post("/feedback", data={**fields, "back": search, "verdict": verdict})
        assert (sent.status_code, sent.location) == (303, search)
        shown = service.client.get(search).text
        assert re.findall(r'aria-pressed="(\w+)"', shown[shown.index("data-judge") :].split("</form>")[0]) == pressed


def test_the_page_leads_nowhere_else_and_answers_scripts(service):
    """An address of another place is not followed; JSON says what is so now."""
    data = {"task": "question", "input": "Where?", "answer": "Ulm", "document": "paris", "verdict": "right"}
    away = service.client.post("/feedback", data={**data, "back": "//elsewhere.example"})
    now = service.client.post("/feedback", data=data, headers={"Accept": "application/json"})
    wrong = service.client.post("/feedback", data={**data, "verdict": "perhaps"})

    assert away.location == "/" and now.json == {"verdict": ""}
    assert wrong.status_code == 400
