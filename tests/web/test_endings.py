"""The problems that the OpenAPI document lists: each is asked for and had, and none is had that is not listed."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

from kbengine.errors import CorruptError, StateError, StorageFullError
from web.errors import DeadlineError, QueueFullError

CHANGES_OF_JOBS = frozenset(("submit", "cancel", "remove", "new_folder"))
METHODS_OF_JOBS = {
    429: frozenset(("submit",)),
    500: CHANGES_OF_JOBS | {"get", "newest"},
    503: CHANGES_OF_JOBS | {"get", "newest"},
    507: CHANGES_OF_JOBS,
}
METHODS_THAT_ASK = frozenset(("ask", "ask_one", "ask_each", "pages"))


class Failing:
    """Something of the service whose methods fail; all else is as it was."""

    def __init__(self, inner: Any, error: Exception, methods: frozenset[str] | None = None, **parts: Any) -> None:
        self._inner, self._error, self._methods, self._parts = inner, error, methods, parts

    def __getattr__(self, name: str) -> Any:
        if name in self._parts:
            return self._parts[name]
        found = getattr(self._inner, name)
        fails = callable(found) if self._methods is None else name in self._methods
        return self._fail if fails else found

    def _fail(self, queries: Any = (), *_: Any, **__: Any) -> Any:
        if (
            self._methods is METHODS_THAT_ASK
            and isinstance(queries, list)
            and queries
            and isinstance(queries[0], tuple)
        ):
            return [self._error] * len(queries)  # as `ask_each` gives the error of each query
        raise self._error


class FailingKnowledgeBase(Failing):
    """A knowledge base that cannot be read."""

    @property
    def generation(self) -> int:
        raise self._error


def broken(service: Any, door: str, status: int, error: Exception) -> Any:
    """The parts of a service, one of which fails wherever it is used."""
    engine = service.engine
    match door:
        case "ask":
            return replace(service, engine=Failing(engine, error, METHODS_THAT_ASK))
        case "write":
            return replace(service, engine=Failing(engine, error, frozenset(), writes=Failing(engine.writes, error)))
        case "read":
            kb = engine.knowledge_base
            methods = frozenset(("alias_matches", "setting", "info"))
            methods |= {"encoder_for"} if status == 500 else frozenset()  # a tuned encoder's file is damaged
            failing = FailingKnowledgeBase(kb, error, methods, reader=Failing(kb.reader, error))
            return replace(service, engine=Failing(engine, error, frozenset(("info",)), knowledge_base=failing))
        case "places":
            return replace(service, bulk=Failing(service.bulk, error, frozenset(("take",))))
    store = Failing(service.jobs.store, error, METHODS_OF_JOBS[status])
    return replace(service, jobs=Failing(service.jobs, error, METHODS_OF_JOBS[status], store=store))


FAILURES: dict[int, tuple[Exception, tuple[str, ...]]] = {
    429: (QueueFullError("full", retry_after_s=1), ("ask", "write", "places", "jobs")),
    500: (CorruptError("damaged"), ("ask", "write", "read", "jobs")),
    503: (StateError("not now"), ("ask", "write", "read", "jobs")),
    504: (DeadlineError("late"), ("ask",)),
    507: (StorageFullError("full"), ("write", "jobs")),
}
"""What goes wrong in the service, and behind which of its doors it can."""

JSON_LINES = {"content_type": "application/x-ndjson"}
RIGHT: dict[str, dict[str, Any]] = {
    "link_text": {"json": {"text": "Paris", "spans": [[0, 5]]}},
    "link_nif": {"data": b"", "content_type": "application/x-turtle"},
    "fill_table": {"data": b"q\n", "content_type": "text/csv", "query_string": {"question": "q"}},
    "describe": {"query_string": {"queries": '{"q0": {"query": "Paris"}}'}},
    "reconcile": {"data": {"queries": '{"q0": {"query": "Paris"}}'}},
    "get_profile": {"query_string": {"name": "Marie Curie", "n_relations": 20}},
    "add_aliases": {"json": {"document": "paris", "aliases": ["Lutetia"]}},
    "embed": {"json": {"model": "tiny:query", "input": "x"}},
    "answer_kilt": {"data": '{"id": 1, "input": "x"}', **JSON_LINES},
    "delete_aliases": {"json": {"document": "paris", "aliases": ["Lutetia"]}},
    "annotate_many": {"data": b'{"text": "Paris"}', **JSON_LINES},
    "preview": {"query_string": {"id": "paris"}},
    "match_alias": {"query_string": {"name": "Paris"}},
    "delete_feedback": {"json": {"ids": [1]}},
    "delete_documents": {"json": {"ids": ["paris"]}},
    "upload_documents": {"data": b'{"id": "x", "title": "x", "text": "x"}', **JSON_LINES},
    "start_export": {"query_string": {"form": "sqlite"}},
    "suggest_entity": {"query_string": {"prefix": "Pa"}},
    "suggest_property": {"query_string": {"prefix": "Pa"}},
    "suggest_type": {"query_string": {"prefix": "Pa"}},
    "propose_properties": {"query_string": {"type": "x"}},
    "search_store": {"json": {"query": "Paris"}},
}
"""What each operation takes, where it takes something and the document has no example."""
WITHOUT_ARGUMENTS = {"annotate_text": {"json": {"text": "Marie Curie was in Paris."}}}
KNOWN = {"doc_id": "paris", "job_id": "JOB", "task": "question", "code": "locked", "model": "tiny", "store": "kb"}
UNKNOWN = dict.fromkeys(KNOWN, "nowhere")
NAMED_NOWHERE: dict[str, dict[str, Any]] = {
    **{
        name: {"json": {"encoder": "nowhere", **body}}
        for name, body in (
            ("question", {"text": "x"}),
            ("search", {"text": "x"}),
            ("dialogue", {"turns": ["x"]}),
            ("slot_filling", {"subject": "x", "relation": "y"}),
            ("entity_linking", {"text": "x", "span": [0, 1]}),
        )
    },
    "get_profile": {"query_string": {"id": "nowhere"}},
    "post_profile": {"json": {"id": "nowhere"}},
    "list_aliases": {"query_string": {"document": "nowhere"}},
    "add_aliases": {"json": {"document": "nowhere", "aliases": ["x"]}},
    "delete_aliases": {"json": {"document": "nowhere", "aliases": ["x"]}},
    "delete_feedback": {"json": {"ids": [999]}},
    "delete_documents": {"json": {"ids": ["nowhere"]}},
    "embed": {"json": {"model": "nowhere", "input": "x"}},
    "preview": {"query_string": {"id": "nowhere"}},
}
"""What asks for something that is not there, besides unknown addresses."""
UNREADABLE: dict[str, dict[str, Any]] = {
    "describe": {"query_string": {"queries": "{"}},
    "reconcile": {"data": {"queries": "{"}},
    "link_nif": {"data": b"<no turtle", "content_type": "application/x-turtle"},
    "get_profile": {"query_string": {}},
    **{name: {"query_string": {"page_token": "zzz"}} for name in ("list_jobs", "list_aliases", "list_feedback")},
    "list_documents": {"query_string": {"page_token": "zzz"}},
    "delete_document": {"headers": {"Idempotency-Key": "a b"}},
    "start_export": {"query_string": {"form": "sqlite"}, "headers": {"Idempotency-Key": "a b"}},
    "start_backup": {"headers": {"Idempotency-Key": "a b"}},
}
OTHER: dict[str, dict[str, Any]] = {
    "add_documents": {"json": {"id": "other", "title": "t", "text": "x"}},
    "delete_documents": {"json": {"ids": ["band"]}},
    "add_aliases": {"json": {"document": "paris", "aliases": ["Paname"]}},
    "delete_aliases": {"json": {"document": "paris"}},
    "add_feedback": {
        "json": {"task": "question", "input": "x", "answer": "y", "verdict": "wrong", "document": "paris"}
    },
    "delete_feedback": {"json": {"ids": [1, 2]}},
    "start_export": {"query_string": {"form": "jsonl"}},
    "upload_documents": {"data": b'{"id": "y", "title": "y", "text": "y"}', **JSON_LINES},
    "annotate_many": {"data": b'{"text": "Rome"}', **JSON_LINES},
    "fill_table": {"data": b"r\n", "content_type": "text/csv", "query_string": {"question": "r"}},
}
"""Another change than the one in `RIGHT` or in the document's example."""


@pytest.fixture(scope="module")
def operations(shared) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Path, method and description of each operation of the document."""
    document = shared.client.get("/openapi.json").json
    return {
        operation["operationId"]: (path, method.upper(), operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] != "link_nif" or find_spec("rdflib") is not None
    }


def listed(operation: dict[str, Any]) -> set[int]:
    """The statuses of problems that a description lists, without answers of the operation's own kind."""
    return {
        int(status)
        for status, answer in operation["responses"].items()
        if int(status) >= 400 and "application/problem+json" in answer.get("content", {})
    }


def right(name: str, operation: dict[str, Any]) -> dict[str, Any]:
    """What the operation takes."""
    if name in WITHOUT_ARGUMENTS:
        return WITHOUT_ARGUMENTS[name]
    contents = operation.get("requestBody", {}).get("content", {})
    examples = [each["example"] for each in contents.values() if "example" in each]
    return {"json": examples[0]} if examples else RIGHT.get(name, {})


def test_what_goes_wrong_in_the_service_is_listed_where_it_can_be_had(make_service, operations):
    """Each operation, each failure, each place where it can happen: the statuses that come back are those listed."""
    service = make_service()
    whole = service.app.extensions["kbengine"]
    had: dict[str, set[int]] = {name: set() for name in operations}
    for status, (error, doors) in FAILURES.items():
        for door in doors:
            job = service.client.post("/v1/fill?question=q", data=b"q\n", content_type="text/csv").json["id"]
            service.app.extensions["kbengine"] = broken(whole, door, status, error)
            for name, (path, method, operation) in operations.items():
                address = path.format(**KNOWN).replace("JOB", job)
                answer = service.client.open(address, method=method, buffered=True, **right(name, operation))
                if answer.status_code == status:
                    had[name].add(status)
            service.app.extensions["kbengine"] = whole

    wanted = {name: listed(operation) & set(FAILURES) for name, (_, _, operation) in operations.items()}
    assert {name: sorted(statuses) for name, statuses in had.items()} == {
        name: sorted(statuses) for name, statuses in wanted.items()
    }


def test_every_listed_refusal_can_be_had(make_service, operations):
    """Of each operation: unreadable, without key, unknown, contradicting, too large, of another type, not by schema."""
    service = make_service()
    locked = make_service(require_key=True)
    missed = []
    for name, (path, method, operation) in operations.items():
        known, sent = path.format(**KNOWN), right(name, operation)
        for status in sorted(listed(operation) & {400, 401, 403, 404, 409, 413, 415, 422}):
            client, address, asked = service.client, known, dict(sent)
            match status:
                case 400:
                    asked = UNREADABLE.get(name) or {
                        **sent,
                        "json": None,
                        "data": b"",
                        "content_type": _type(operation),
                    }
                    asked.pop("json", None)
                case 401:
                    client = locked.client
                case 403:
                    asked["headers"] = {"Host": "elsewhere.example"}
                case 404:
                    address, asked = path.format(**UNKNOWN), NAMED_NOWHERE.get(name, sent)
                case 409:
                    if name == "get_result":
                        job = client.post("/v1/documents:upload", data=b"x\n", content_type="text/plain").json["id"]
                        address = path.format(job_id=job)
                    else:
                        asked["headers"] = {"Idempotency-Key": f"of-{name}"}
                        client.open(path.format(**{**KNOWN, "doc_id": "amazon"}), method=method, **asked)
                        address = path.format(**{**KNOWN, "doc_id": "band"})
                        asked = {**OTHER.get(name, sent), "headers": asked["headers"]}
                case 413:
                    if name == "describe":
                        many = {
                            "ids": [str(n) for n in range(200)],
                            "properties": [{"id": f"P{n}"} for n in range(17, 21)],
                        }
                        asked = {"query_string": {"extend": json.dumps(many)}}
                    else:
                        asked = {"data": b"x", "content_type": _type(operation), "environ_overrides": HUGE}
                case 415:
                    asked = {"data": b"<x/>", "content_type": "application/rdf+xml"}
                case 422:
                    asked = _against_the_schema(name, path, operation, sent)
            answer = client.open(address, method=method, buffered=True, **asked)
            if answer.status_code != status:
                missed.append((name, status, answer.status_code, answer.text[:120]))
    assert not missed, "\n".join(map(str, missed))


HUGE = {"CONTENT_LENGTH": str(1 << 40)}


def _type(operation: dict[str, Any]) -> str:
    return next(iter(operation.get("requestBody", {}).get("content", {})), "application/x-turtle")


def _against_the_schema(name: str, path: str, operation: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    if path.startswith("/reconcile/"):  # tools may send more than the standard has
        return {"query_string": {"limit": "few", "cursor": "few"}}
    if name == "reconcile":
        return {"data": {"queries": '{"q0": {}}'}}
    if any(each["in"] == "query" for each in operation.get("parameters", ())):
        return {**sent, "query_string": {**sent.get("query_string", {}), "surprise": "1"}}
    return {"json": {**sent.get("json", {}), "surprise": 1}}


def test_an_encoder_that_is_not_there_is_the_problem_of_its_query_alone(shared):
    """The others of the batch are answered."""
    queries = [{"task": "question", "text": "Paris", "encoder": "nowhere"}, {"task": "question", "text": "Paris"}]
    answer = shared.post("/v1/batch", {"queries": queries})

    assert [each["status"] for each in answer.json["items"]] == [404, 200]
