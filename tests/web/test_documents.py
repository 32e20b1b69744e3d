"""Documents and names over HTTP: durable and searchable when answered, done once however often they are sent."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from kbengine.errors import LockedError
from storage.reader import KBReader
from storage.writer import KBWriter
from tests.waiting import HANG_S
from web.engine import EngineOptions

ZEBRA = {
    "id": "zebra",
    "title": "Zebra",
    "text": "A zebra has stripes.\n\nIt lives on grass.",
    "url": "https://z.example",
}


def texts_of(answer):
    """Return the passages of an answer."""
    return {place["passage"]["text"] for each in answer["answers"] for place in each["evidence"]}


def find(service, text):
    """Return the passages found for a text."""
    return texts_of(service.post("/v1/search", {"text": text, "unit": "passage", "k": 50}).json)


def test_a_document_is_added_read_found_and_deleted(service):
    """Each change is seen by the next request."""
    added = service.post("/v1/documents", {**ZEBRA, "meta": {"kind": "animal"}, "aliases": ["stripy horse"]})
    read = service.client.get("/v1/documents/zebra").json
    found = find(service, "stripes")
    deleted = service.client.delete("/v1/documents/zebra")

    assert added.status_code == 201
    assert added.json == {
        "generation": read["added_in"],
        "added": 1,
        "replaced": 0,
        "deleted": 0,
        "repeated": False,
    }
    assert (read["title"], read["url"]) == ("Zebra", "https://z.example")
    assert read["meta"]["kind"] == "animal"
    assert [passage["text"] for passage in read["passages"]] == ["A zebra has stripes.", "It lives on grass."]
    assert "A zebra has stripes." in found
    assert deleted.status_code == 200 and deleted.json["deleted"] == 1
    assert service.client.get("/v1/documents/zebra").status_code == 404
    assert "A zebra has stripes." not in find(service, "stripes")


def test_a_document_that_is_there_is_not_replaced_when_it_is_not_to_be(service):
    """Then nothing of the request is added, and the answer says which id and how to replace it."""
    service.post("/v1/documents", ZEBRA)
    other = [{**ZEBRA, "title": "Other"}, {"id": "new", "title": "New", "text": "Something new."}]
    refused = service.post("/v1/documents?replace=false", {"documents": other})

    assert refused.status_code == 409
    assert "'zebra'" in refused.json["detail"] and "replace is off" in refused.json["detail"]
    assert service.client.get("/v1/documents/zebra").json["title"] == "Zebra"
    assert service.client.get("/v1/documents/new").status_code == 404
    assert service.post("/v1/documents?replace=false", other[1]).status_code == 201
    assert service.post("/v1/documents?replace=perhaps", other[1]).status_code == 422
    service.post("/v1/documents:delete", {"ids": ["zebra", "new"]})


def test_several_documents_are_added_as_a_list_or_as_lines(service):
    """All in one commit; a document that is there is replaced."""
    many = [{"id": f"n{n}", "title": f"Number {n}", "text": f"The number {n}."} for n in range(5)]
    listed = service.post("/v1/documents", {"documents": many[:3]})
    lines = "\n".join(json.dumps(each) for each in many[2:]) + "\n"
    streamed = service.client.post("/v1/documents", data=lines, content_type="application/x-ndjson")

    assert listed.json["added"] == 3
    assert (streamed.json["added"], streamed.json["replaced"]) == (2, 1)


def test_documents_are_listed_by_their_fields(service):
    """By id and by words, page by page; a filter that does not fit says what there is."""
    animals = [{**ZEBRA, "id": f"z{n}", "meta": {"kind": "animal", "legs": n}} for n in range(4)]
    service.post("/v1/documents", {"documents": animals})
    listed = service.client.get(
        "/v1/documents", query_string={"where": "kind = 'animal' and legs > 0", "limit": 2}
    ).json
    token = listed["next_page_token"]
    rest = service.client.get(
        "/v1/documents", query_string={"where": "kind = 'animal' and legs > 0", "limit": 2, "page_token": token}
    ).json
    by_words = service.client.get("/v1/documents", query_string={"q": "stripes", "where": "legs in (1, 3)"}).json
    refused = service.client.get("/v1/documents", query_string={"where": "leg = 4"})
    other = service.client.get("/v1/documents", query_string={"where": "legs > 1", "page_token": token})

    assert [each["id"] for each in listed["documents"] + rest["documents"]] == ["z1", "z2", "z3"]
    assert listed["documents"][0]["meta"] == {"kind": "animal", "legs": 1} and rest["next_page_token"] is None
    assert sorted(each["id"] for each in by_words["documents"]) == ["z1", "z3"]
    assert refused.status_code == 400 and "kind (text), legs (number)" in refused.json["detail"]
    assert other.status_code == 400
    assert service.client.get("/v1/kb").json["fields"]["legs"] == ["number"]


def test_documents_are_listed_in_a_chosen_order(service):
    """Page by page; the token of one order is not taken for another."""
    animals = [{**ZEBRA, "id": f"s{n}", "meta": {"rank": -n}} for n in range(3)]
    service.post("/v1/documents", {"documents": animals})
    query = {"where": "rank <= 0", "sort": "rank", "limit": 2}
    listed = service.client.get("/v1/documents", query_string=query).json
    rest = service.client.get("/v1/documents", query_string=query | {"page_token": listed["next_page_token"]}).json
    found = service.client.get("/v1/documents", query_string={"q": "stripes", "where": "rank < 0", "sort": "-id"}).json
    other = {**query, "sort": "-rank", "page_token": listed["next_page_token"]}

    assert [each["id"] for each in listed["documents"] + rest["documents"]] == ["s2", "s1", "s0"]
    assert rest["next_page_token"] is None and [each["id"] for each in found["documents"]] == ["s2", "s1"]
    assert service.client.get("/v1/documents", query_string=other).status_code == 400
    assert "'size'" in service.client.get("/v1/documents", query_string={"sort": "size"}).json["detail"]
    service.post("/v1/documents:delete", {"ids": [each["id"] for each in animals]})


def test_all_documents_are_added_or_none(service):
    """A list that names one id twice changes nothing."""
    before = service.engine.knowledge_base.generation
    twice = [ZEBRA, {**ZEBRA, "text": "another"}]
    response = service.post("/v1/documents", {"documents": twice})

    assert response.status_code == 409 and response.json["code"] == "duplicate_document"
    assert service.engine.knowledge_base.generation == before


def test_deleting_several_is_all_or_nothing(service):
    """One that is not there keeps the others."""
    refused = service.post("/v1/documents:delete", {"ids": ["paris", "nowhere"]})
    done = service.post("/v1/documents:delete", {"ids": ["paris", "a/b c"]})

    assert refused.status_code == 404 and refused.json["code"] == "unknown_document"
    assert str(service.engine.knowledge_base.path) not in refused.text
    assert done.json["deleted"] == 2


def test_ids_may_hold_slashes_and_blanks(service):
    """Percent-encoded or not."""
    assert service.client.get("/v1/documents/a/b c").json["id"] == "a/b c"
    assert service.client.get("/v1/documents/a%2Fb%20c").json["id"] == "a/b c"


def test_documents_are_listed_page_by_page(shared):
    """Every one once, by id."""
    seen, token, pages = [], None, 0
    while pages == 0 or token:
        query = {"limit": 2} | ({"page_token": token} if token else {})
        page = shared.client.get("/v1/documents", query_string=query).json
        seen += [document["id"] for document in page["documents"]]
        token, pages = page["next_page_token"], pages + 1

    assert seen == ["a/b c", "amazon", "band", "marie-curie", "paris"] and pages == 3


def test_documents_are_looked_for_by_words_page_by_page(shared):
    """Best matches first; the token is good for the same words only."""
    first = shared.client.get("/v1/documents", query_string={"q": "the of", "limit": 2}).json
    token = first["next_page_token"]
    second = shared.client.get("/v1/documents", query_string={"q": "the of", "limit": 2, "page_token": token}).json
    other = shared.client.get("/v1/documents", query_string={"q": "paris", "page_token": token})
    nothing = shared.client.get("/v1/documents", query_string={"q": "xyzzy"}).json

    ids = [document["id"] for page in (first, second) for document in page["documents"]]
    assert len(ids) == len(set(ids)) == 4
    assert other.status_code == 400 and other.json["code"] == "bad_page_token"
    assert nothing == {"documents": [], "next_page_token": None, "generation": shared.engine.knowledge_base.generation}


@pytest.mark.parametrize("token", ["x", "AAAA", "bm9uc2Vuc2U", "é", "a" * 4000])
def test_a_token_that_was_not_given_out_is_refused(shared, token):
    """Whatever it is made of."""
    response = shared.client.get("/v1/documents", query_string={"page_token": token})

    assert response.status_code == 400 and response.json["code"] == "bad_page_token"


def test_a_change_sent_again_with_its_key_is_done_once(make_service, kb_path):
    """Also by another process of the service, after a restart."""
    service = make_service()
    first = service.post("/v1/documents", ZEBRA, Idempotency_Key="k-1").json
    service.client.delete("/v1/documents/zebra")
    again = service.post("/v1/documents", ZEBRA, Idempotency_Key="k-1").json
    service.engine.close()
    restarted = make_service()
    once_more = restarted.post("/v1/documents", ZEBRA, Idempotency_Key="k-1").json

    assert first["repeated"] is False
    assert again == once_more == {**first, "repeated": True}
    assert restarted.client.get("/v1/documents/zebra").status_code == 404


def test_a_key_for_something_else_is_refused(service):
    """On the same route with another body; on another route it is another key."""
    service.post("/v1/documents", ZEBRA, Idempotency_Key="k-1")
    other = service.post("/v1/documents", {**ZEBRA, "text": "another text"}, Idempotency_Key="k-1")
    elsewhere = service.post("/v1/documents:delete", {"ids": ["zebra"]}, Idempotency_Key="k-1")

    assert other.status_code == 409 and other.json["code"] == "idempotency_conflict"
    assert elsewhere.status_code == 200


def test_the_same_change_sent_twice_at_once_is_done_once(service):
    """Both callers are told of the one commit."""
    with ThreadPoolExecutor(8) as pool:
        sent = [pool.submit(service.post, "/v1/documents", ZEBRA, Idempotency_Key="k") for _ in range(8)]
        answers = [each.result().json for each in sent]

    assert len({answer["generation"] for answer in answers}) == 1
    assert sum(not answer["repeated"] for answer in answers) >= 1
    assert service.engine.info().documents == 6


@pytest.mark.parametrize("key", ["", " ", "a b", "ü", "x" * 256])
def test_a_key_that_is_none_is_refused(service, key):
    """It names nothing that could be found again."""
    response = service.post("/v1/documents", ZEBRA, Idempotency_Key=key)

    assert response.status_code == 400 and response.json["code"] == "invalid_option"
    assert service.client.get("/v1/documents/zebra").status_code == 404


def test_names_are_given_listed_matched_and_taken(service):
    """A mention by its new name finds the document."""
    given = service.post("/v1/aliases", {"document": "marie-curie", "aliases": ["Madame Curie", "Maria Sklodowska"]})
    listed = service.client.get("/v1/aliases", query_string={"document": "marie-curie"}).json
    matches = service.client.get("/v1/aliases/matches", query_string={"name": "madame curie"}).json
    taken = service.post("/v1/aliases:delete", {"document": "marie-curie", "aliases": ["Madame Curie"]})
    left = service.client.get("/v1/aliases", query_string={"prefix": "m"}).json

    assert given.status_code == 201 and given.json["aliases"] == 2
    assert [each["alias"] for each in listed["aliases"]] == ["Madame Curie", "Maria Sklodowska"]
    assert [(each["document"], each["form"]) for each in matches["matches"]] == [("marie-curie", "case")]
    assert taken.json["aliases"] == 1
    assert [each["alias"] for each in left["aliases"]] == ["Maria Sklodowska"]


def test_names_are_listed_page_by_page(service):
    """Every one once, by name."""
    names = [f"name {n:02}" for n in range(7)]
    service.post("/v1/aliases", {"document": "paris", "aliases": names})
    seen, token = [], None
    while not seen or token:
        query = {"limit": 3} | ({"page_token": token} if token else {})
        page = service.client.get("/v1/aliases", query_string=query).json
        seen += [each["alias"] for each in page["aliases"]]
        token = page["next_page_token"]

    assert seen == names


def test_names_that_cannot_be_changed_are_told_by_their_codes(service):
    """Unknown documents and names, and names that are there."""
    service.post("/v1/aliases", {"document": "paris", "aliases": ["City of Light"]})
    answers = [
        service.post("/v1/aliases", {"document": "nowhere", "aliases": ["x"]}),
        service.post("/v1/aliases", {"document": "paris", "aliases": ["City of Light"]}),
        service.post("/v1/aliases:delete", {"document": "paris", "aliases": ["Lutetia"]}),
    ]

    assert [(each.status_code, each.json["code"]) for each in answers] == [
        (404, "unknown_document"),
        (409, "duplicate_alias"),
        (404, "unknown_alias"),
    ]


def test_a_change_of_names_sent_again_is_done_once(service):
    """As with documents."""
    body = {"document": "paris", "aliases": ["City of Light"]}
    first = service.post("/v1/aliases", body, Idempotency_Key="n").json
    again = service.post("/v1/aliases", body, Idempotency_Key="n").json

    assert again == {**first, "repeated": True}


def test_the_writer_lock_is_given_back_when_nothing_is_written(make_service, kb_path):
    """So that other programs may write beside a service that is running."""
    service = make_service(EngineOptions(refresh_s=0.02, writer_idle_s=0.1))
    service.post("/v1/documents", ZEBRA)

    with KBWriter.open(kb_path, lock_timeout_s=HANG_S) as writer:
        writer.delete(["zebra"])
    assert "A zebra has stripes." not in find(service, "stripes")


def test_another_writer_is_a_problem_that_goes_away(make_service, kb_path):
    """503 with a time to come back; nothing was changed."""
    service = make_service()
    service.engine.knowledge_base._options = type(service.engine.knowledge_base._options)(lock_timeout_s=0.05)
    with KBWriter.open(kb_path):
        response = service.post("/v1/documents", ZEBRA)

    assert response.status_code == 503 and response.json["code"] == LockedError.code
    assert int(response.headers["Retry-After"]) >= 1
    assert service.post("/v1/documents", ZEBRA).status_code == 201


def test_the_knowledge_base_describes_itself(service, kb_path):
    """Counts are those of its files; where it lies is nobody's business."""
    before = service.client.get("/v1/kb").json
    service.post("/v1/documents", ZEBRA)
    after = service.client.get("/v1/kb").json

    with KBReader.open(kb_path) as reader:
        info = reader.info()
    assert (after["documents"], after["passages"]) == (info.documents, info.passages)
    assert after["documents"] == before["documents"] + 1
    assert after["last_commits"][0]["operation"] == "add"
    assert after["verify"]["state"] == "never"
    assert str(kb_path) not in json.dumps(after)


def test_verifying_runs_in_the_background_and_is_reported(service):
    """What is damaged is named."""
    begun = service.client.post("/v1/kb:verify")
    service.engine.verification.wait()
    verified = service.client.get("/v1/kb").json["verify"]

    assert begun.status_code == 202 and begun.json["state"] == "running"
    assert verified["state"] == "done" and verified["ok"] is True and verified["findings"] == []
