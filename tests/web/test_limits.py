"""Every limit: n is accepted, n + 1 refused, and the answer says which and where."""

from __future__ import annotations

import io
import json

import pytest

from web import limits

T = limits.TEXT_CHARS


def question(**options):
    """Return the body of a question."""
    return {"text": "Paris", "k": 1, **options}


LIMITS = {
    "text": ("/v1/question", lambda n: question(text="a" * n, truncate=True), T, "/text"),
    "search text": ("/v1/search", lambda n: {"text": "a" * n, "truncate": True, "k": 1}, T, "/text"),
    "subject": ("/v1/slot-filling", lambda n: {"subject": "a" * n, "relation": "x", "truncate": True}, T, "/subject"),
    "relation": ("/v1/slot-filling", lambda n: {"subject": "a", "relation": "x" * n, "truncate": True}, T, "/relation"),
    "linking text": ("/v1/entity-linking", lambda n: {"text": "a" * n, "span": [0, 1]}, T, "/text"),
    "spans": ("/v1/entity-linking", lambda n: {"text": "ab", "spans": [[0, 1]] * n, "k": 1}, limits.SPANS, "/spans"),
    "turn": ("/v1/dialogue", lambda n: {"turns": ["a" * n], "k": 1}, T, "/turns/0"),
    "turns": ("/v1/dialogue", lambda n: {"turns": ["hello"] * n, "k": 1}, limits.TURNS, "/turns"),
    "k": ("/v1/question", lambda n: question(k=n), limits.K, "/k"),
    "batch": (
        "/v1/batch",
        lambda n: {"queries": [{"task": "question", **question()}] * n},
        limits.BATCH,
        "/queries",
    ),
    "turns in a batch": (
        "/v1/batch",
        lambda n: {"queries": [{"task": "dialogue", "turns": ["a"] * n, "k": 1}]},
        limits.TURNS,
        "/queries/0/turns",
    ),
    "names": (
        "/v1/aliases",
        lambda n: {"document": "paris", "aliases": [f"alias {i} of {n}" for i in range(n)]},
        limits.ALIASES,
        "/aliases",
    ),
    "ids": ("/v1/documents:delete", lambda n: {"ids": ["nowhere"] * n}, limits.DOCUMENTS, "/ids"),
}


@pytest.mark.parametrize("name", LIMITS)
def test_n_is_accepted_and_one_more_is_refused(shared, name):
    """A body beyond a limit is answered 422 with a pointer to the place."""
    path, body_of, n, pointer = LIMITS[name]
    accepted = shared.post(path, body_of(n))
    refused = shared.post(path, body_of(n + 1))

    assert accepted.status_code != 422, accepted.text[:500]
    assert refused.status_code == 422 and refused.json["code"] == "invalid_body"
    assert [each["pointer"] for each in refused.json["errors"]] == [pointer]


def test_a_query_body_of_a_mebibyte_is_read_and_a_longer_one_is_not(shared):
    """Blanks count: it is the body that is measured."""
    body = json.dumps(question()).encode()
    whole = body + b" " * (limits.QUERY_BODY_BYTES - len(body))
    accepted = shared.client.post("/v1/question", data=whole, content_type="application/json")
    refused = shared.client.post("/v1/question", data=whole + b" ", content_type="application/json")

    assert accepted.status_code == 200
    assert refused.status_code == 413 and refused.json["code"] == "body_too_large"


def test_a_body_without_a_length_is_cut_at_the_same_limit(shared):
    """Chunked: it is refused while it is read."""
    body = json.dumps(question()).encode()
    answers = []
    for extra in (0, 1):
        whole = body + b" " * (limits.QUERY_BODY_BYTES - len(body) + extra)
        response = shared.client.open(
            "/v1/question",
            method="POST",
            input_stream=io.BytesIO(whole),
            headers={"Content-Type": "application/json", "Transfer-Encoding": "chunked"},
            environ_overrides={"wsgi.input_terminated": True, "CONTENT_LENGTH": ""},
        )
        answers.append((response.status_code, response.json.get("code")))

    assert answers == [(200, None), (413, "body_too_large")]


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/v1/documents", "application/json"),
        ("/v1/documents", "application/x-ndjson"),
        ("/v1/batch", "application/json"),
        ("/v1/kilt/question", "application/x-ndjson"),
    ],
)
def test_bulk_routes_read_64_mebibytes(shared, path, content_type):
    """Told by the length alone, before anything is read."""
    answers = [
        shared.client.post(
            path,
            data=b"x",
            content_type=content_type,
            environ_overrides={"CONTENT_LENGTH": str(limits.BULK_BODY_BYTES + extra)},
        ).status_code
        for extra in (0, 1)
    ]

    assert answers[0] != 413 and answers[1] == 413


def test_documents_at_once_are_limited(shared):
    """One list holds a thousand."""
    documents = [{"id": f"{n}", "title": "t", "text": ""} for n in range(limits.DOCUMENTS + 1)]
    refused = shared.post("/v1/documents", {"documents": documents})

    assert refused.status_code == 422
    assert any(each["pointer"] == "/documents" for each in refused.json["errors"])


@pytest.mark.parametrize("limit", [0, limits.PAGE_ITEMS + 1, "x", ""])
def test_pages_hold_one_to_two_hundred(shared, limit):
    """Of documents and of names."""
    for path in ("/v1/documents", "/v1/aliases"):
        refused = shared.client.get(path, query_string={"limit": limit})
        assert refused.status_code == 422 and refused.json["errors"][0]["pointer"] == "/limit"
    assert shared.client.get("/v1/documents", query_string={"limit": limits.PAGE_ITEMS}).status_code == 200
