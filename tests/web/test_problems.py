"""Errors: one form, one table, stable codes; what is nobody's business is told to nobody."""

from __future__ import annotations

import codecs
import gzip
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import adapters.errors
import kbengine.errors
import web.errors
from kbengine.errors import (
    CorruptError,
    EmptyQueryError,
    LockedError,
    NotAKnowledgeBaseError,
    StorageFullError,
    TaskInputError,
    UnknownDocumentError,
)
from storage.errors import KBError
from tests.test_errors import all_errors
from tests.waiting import HANG_S, wait_until
from web.problems import STATUS_OF, catalogue, json_pointer, problem_of, status_of

SECRET = "/srv/secret/kb"
BODY = {"text": "Paris", "k": 1}


def is_problem(response, status, code):
    """Tell whether the response is the problem, wholly."""
    document = json.loads(response.data)
    return (
        response.status_code == document["status"] == status
        and response.mimetype == "application/problem+json"
        and document["code"] == code
        and document["type"] == f"/problems/{code}"
        and document["request_id"] == response.headers["X-Request-ID"]
        and document["title"]
        and document["detail"]
    )


def test_every_error_has_a_status_and_every_named_class_exists():
    """Each class of the tree has that of the nearest class in the table."""
    assert adapters.errors and kbengine.errors and web.errors
    for kind in all_errors():
        assert 400 <= status_of(kind) <= 599
    assert set(STATUS_OF) <= set(all_errors())


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (EmptyQueryError("x"), 400),
        (TaskInputError("x"), 400),
        (UnknownDocumentError("x"), 404),
        (LockedError("x"), 503),
        (NotAKnowledgeBaseError("x"), 503),
        (CorruptError("x"), 500),
        (StorageFullError("x"), 507),
        (KBError("x"), 500),
    ],
)
def test_errors_have_the_status_of_their_branch(error, status):
    """Usage 4xx, state 503, damage 500, no space 507."""
    assert problem_of(error).status == status


def test_paths_are_not_told():
    """The knowledge base's directory is replaced; damage says nothing at all."""
    assert SECRET not in problem_of(UnknownDocumentError(f"no 'x' in {SECRET}; look"), private=SECRET).detail
    assert SECRET not in problem_of(CorruptError(f"{SECRET}/segments/1 is damaged"), private="").detail


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/nowhere", {}, 404, "not_found"),
        ("GET", "/v1/documents/nowhere", {}, 404, "unknown_document"),
        ("DELETE", "/v1/documents/nowhere", {}, 404, "unknown_document"),
        ("GET", "/problems/nothing", {}, 404, "not_found"),
        ("GET", "/v1/question", {}, 405, "method_not_allowed"),
        ("DELETE", "/v1/kb", {}, 405, "method_not_allowed"),
        ("POST", "/v1/question", {"data": "{", "content_type": "application/json"}, 400, "bad_request"),
        ("POST", "/v1/question", {"data": b"\xff", "content_type": "application/json"}, 400, "bad_request"),
        ("POST", "/v1/question", {"data": "NaN", "content_type": "application/json"}, 400, "bad_request"),
        (
            "POST",
            "/v1/question",
            {"data": '{"text":"\\ud800"}', "content_type": "application/json"},
            400,
            "bad_request",
        ),
        ("POST", "/v1/question", {"data": "[" * 10_000, "content_type": "application/json"}, 400, "bad_request"),
        ("POST", "/v1/documents", {"data": "[" * 10_000, "content_type": "application/json"}, 400, "bad_request"),
        ("POST", "/v1/documents", {"data": "{\n", "content_type": "application/x-ndjson"}, 400, "invalid_option"),
        ("POST", "/v1/question", {"data": "", "content_type": "application/json"}, 400, "bad_request"),
        ("POST", "/v1/question", {"data": '"text"', "content_type": "application/json"}, 422, "invalid_body"),
        ("POST", "/v1/question", {"data": "x", "content_type": "text/plain"}, 415, "unsupported_media_type"),
        ("POST", "/v1/question", {"data": "text=x"}, 415, "unsupported_media_type"),
        ("POST", "/v1/documents", {"data": "x", "content_type": "text/csv"}, 415, "unsupported_media_type"),
        ("POST", "/v1/kilt/question", {"json": {}}, 415, "unsupported_media_type"),
        ("POST", "/v1/question", {"json": {"text": " "}}, 422, "invalid_body"),
        ("POST", "/v1/slot-filling", {"json": {"relation": "country"}}, 400, "bad_task_input"),
        (
            "POST",
            "/v1/slot-filling",
            {"json": {"subject": "Ulm", "relation": "country", "object": "Germany"}},
            400,
            "bad_task_input",
        ),
        ("POST", "/v1/question", {"json": {"text": "\u200b"}}, 400, "empty_query"),
        ("POST", "/v1/question", {"json": {"text": "word " * 2000}}, 400, "query_too_long"),
        ("POST", "/v1/question", {"json": {**BODY, "threshold": 0.5}}, 400, "invalid_option"),
        ("POST", "/v1/slot-filling", {"json": {"subject": "a", "relation": "P999999999"}}, 400, "unknown_relation"),
        ("POST", "/v1/entity-linking", {"json": {"text": "abc"}}, 400, "bad_task_input"),
        ("POST", "/v1/entity-linking", {"json": {"text": "abc", "span": [2, 9]}}, 400, "bad_task_input"),
    ],
)
def test_every_wrong_request_has_a_problem_of_its_own(shared, method, path, options, status, code):
    """Status, media type, code, type and request id agree."""
    response = shared.client.open(path, method=method, **options)

    assert is_problem(response, status, code), response.text


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"{", "is not JSON (EOF while parsing an object at line 1 column 1)"),
        (b'{"text": "a"} {}', "is not JSON (trailing characters"),
        (b'{"text": "\xff"}', "is not UTF-8 at byte 10"),
        (b'{"text": "\xed\xa0\x80"}', "is not UTF-8 at byte 10"),
        (b'{"text": "\\ud800"}', "half of a surrogate pair"),
        (b'{"text": "a", "k": NaN}', "holds NaN or Infinity"),
        (b'{"text": "a", "k": -Infinity}', "holds NaN or Infinity"),
        (gzip.compress(b'{"text": "a"}', mtime=0), "is compressed with gzip"),
        ('{"text": "a"}'.encode("utf-16"), "is UTF-16 or UTF-32"),
        ('{"text": "a"}'.encode("utf-16-be"), "is UTF-16 or UTF-32"),
        ('{"text": "a"}'.encode("utf-32"), "is UTF-16 or UTF-32"),
        (codecs.BOM_UTF8 + b'{"text": "a"}', "begins with a byte order mark"),
        (b'{"a":' * 300 + b"1" + b"}" * 300, "is nested too deeply"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/question", "/v1/documents"])
def test_what_is_wrong_with_a_body_that_is_no_json_is_named(shared, path, data, told):
    """And what to do about it; the text that was sent is not repeated."""
    response = shared.client.post(path, data=data, content_type="application/json")

    assert is_problem(response, 400, "bad_request")
    assert told in response.json["detail"] and "; send" in response.json["detail"].replace("; leave", "; send")


def test_a_compressed_body_is_refused_by_its_header(shared):
    """Whatever its coding is; `identity` is none."""
    refused = shared.post("/v1/question", BODY, Content_Encoding="br")
    accepted = shared.post("/v1/question", BODY, Content_Encoding="identity")

    assert is_problem(refused, 415, "unsupported_media_type") and "'br'" in refused.json["detail"]
    assert accepted.status_code == 200


def test_what_is_wrong_with_a_body_is_named_with_its_place(shared):
    """One entry each, as JSON pointers; the values sent are not repeated."""
    body = {"text": "", "k": "many", "weights": {"phrase": -1, "passage": 1}, "unknown": "canary-9"}
    response = shared.post("/v1/question", body)

    places = {each["pointer"] for each in response.json["errors"]}
    assert places == {"/text", "/k", "/weights/phrase", "/unknown"}
    assert "canary-9" not in response.text


def test_pointers_leave_out_the_tags_of_unions():
    """And escape what pointers escape."""
    assert json_pointer(("queries", 3, "question", "text"), ["question"]) == "/queries/3/text"
    assert json_pointer(("a/b", "c~d", 0)) == "/a~1b/c~0d/0"


def test_a_method_that_is_not_taken_names_those_that_are(shared):
    """In the Allow header."""
    response = shared.client.put("/v1/documents/paris")

    assert {"GET", "DELETE"} <= set(response.headers["Allow"].replace(",", " ").split())


def test_a_type_leads_to_what_it_means(shared):
    """Every code has a page of its own."""
    for code, meaning in catalogue().items():
        response = shared.client.get(f"/problems/{code}")
        assert response.json == meaning and response.status_code == 200


class Broken:
    """An answerer that answers in a way nobody foresaw: not at all."""

    def __init__(self, answerer):
        self.search = answerer.search

    def answer(self, requests, options):
        raise RuntimeError(f"SELECT secret FROM {SECRET}")


def test_an_unforeseen_error_tells_the_request_id_and_nothing_else(service):
    """The log has its kind and place, and not its message either: it may hold a user's text."""
    service.engine.answerer = Broken(service.engine.answerer)
    response = service.post("/v1/question", {"text": "canary-7"})
    (event,) = [event for event in service.events() if event["event"] == "crashed"]

    assert is_problem(response, 500, "internal")
    for told in (response.text, service.log.getvalue()):
        assert SECRET not in told and "SELECT" not in told and "canary-7" not in told
    assert event["request_id"] == response.json["request_id"]
    assert event["error"][0] == "RuntimeError" and any("test_problems.py" in place for place in event["where"])


def test_an_unforeseen_error_in_a_batch_is_that_of_its_query(service):
    """The others are answered."""
    service.engine.answerer = Broken(service.engine.answerer)
    items = [{"task": "question", **BODY}, {"task": "search", **BODY}]
    response = service.post("/v1/batch", {"queries": items})

    assert [item["status"] for item in response.json["items"]] == [500, 200]
    assert SECRET not in response.text


def test_too_many_requests_are_told_when_to_come_back(make_service):
    """429 with Retry-After; the others are answered."""
    service = make_service()
    release, begun = threading.Event(), threading.Semaphore(0)
    answer = service.engine.answerer.answer

    class Slow:
        def answer(self, requests, options):
            begun.release()
            assert release.wait(HANG_S)
            return answer(requests, options)

    service.engine.answerer = Slow()
    batcher = service.engine._batcher
    size = batcher._options.queue_size - batcher._options.dispatchers
    with ThreadPoolExecutor(size + 2) as pool:
        held = []
        for n in range(batcher._options.dispatchers):  # each dispatcher is kept busy with one
            held.append(pool.submit(service.post, "/v1/question", {"text": f"first {n}", "k": n + 1}))
            assert begun.acquire(timeout=HANG_S)
        waiting = [pool.submit(service.post, "/v1/question", {"text": f"next {n}"}) for n in range(size)]
        wait_until(lambda: batcher.depth >= size)
        refused = service.post("/v1/question", {"text": "one more"})
        release.set()
        statuses = [each.result().status_code for each in held + waiting]

    assert is_problem(refused, 429, "queue_full") and int(refused.headers["Retry-After"]) >= 1
    assert set(statuses) == {200}
