"""Health, meters and log: what an operator sees, and what nobody is shown."""

from __future__ import annotations

import json
import re

import pytest
from gunicorn.config import Config
from prometheus_client.parser import text_string_to_metric_families

from web.engine import Engine
from web.metrics import MEDIA_TYPE
from web.request_log import ServerLogger

CANARY = "canary-4f1b-who-is-it"


def meters(service):
    """Return value by (name, labels) of all meters."""
    text = service.client.get("/metrics", buffered=True).text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_process_that_answers_is_alive(shared):
    """Whatever else."""
    assert shared.client.get("/livez").json == {"status": "alive"}


def test_a_service_is_ready_when_it_answers_a_query_of_its_own(shared):
    """All checks are named."""
    response = shared.client.get("/readyz")

    assert response.status_code == 200
    assert response.json["status"] == "ready"
    assert set(response.json["checks"]) == {"stopping", "knowledge_base", "query", "disk", "writes"}


def test_a_service_that_stops_or_cannot_answer_is_not_ready(make_service):
    """503, and the check that failed; no message, because anyone may ask."""
    stopping, failing = make_service(), make_service()
    stopping.app.extensions["kbengine"].stopping.set()

    class Broken:
        def search(self, *_, **__):
            raise RuntimeError("secret")

    failing.engine.answerer = Broken()
    answers = [each.client.get("/readyz", buffered=True) for each in (stopping, failing)]

    assert [each.status_code for each in answers] == [503, 503]
    assert answers[0].json["checks"]["stopping"] == "yes"
    assert answers[1].json["checks"]["query"] == "failed"
    assert "secret" not in answers[1].text
    assert stopping.client.get("/livez").status_code == 200


def test_meters_count_requests_stages_batches_cache_and_the_knowledge_base(service):
    """In Prometheus' text format."""
    for _ in range(2):
        service.post("/v1/question", {"text": "Who wrote the novel?"})
    service.post("/v1/question", {"text": " "})
    service.client.get("/v1/documents/nowhere", buffered=True)
    seen = meters(service)

    def count(name, **labels):
        return seen[name, tuple(sorted(labels.items()))]

    assert count("kbengine_requests_total", route="/v1/question", method="POST", status="200") == 2
    assert count("kbengine_requests_total", route="/v1/question", method="POST", status="422") == 1
    assert count("kbengine_requests_total", route="/v1/documents/<path:doc_id>", method="GET", status="404") == 1
    assert count("kbengine_request_seconds_count", route="/v1/question") == 3
    assert count("kbengine_cache_total", outcome="hit") == 1
    assert count("kbengine_batch_size_count") == 1
    for stage in ("queue", "encode", "total"):
        assert count("kbengine_stage_seconds_count", stage=stage) == 1
    assert count("kbengine_kb_documents") == 5
    assert count("kbengine_kb_generation") == service.engine.knowledge_base.generation
    assert count("kbengine_queue_depth") == 0
    assert count("kbengine_verify_findings") == -1
    assert count("kbengine_kb_disk_free_bytes") > 0
    assert count("kbengine_requests_in_flight") == 1  # the one that asks
    assert service.client.get("/metrics").content_type == MEDIA_TYPE


def test_files_of_the_page_are_counted_and_come_to_an_end(service):
    """Also when a part of one is asked for, or nothing but its headers."""
    for headers in ({}, {"Range": "bytes=0-9"}):
        assert service.client.get("/static/base.css", headers=headers, buffered=True).status_code in (200, 206)
    service.client.head("/static/base.css", buffered=True)
    seen = meters(service)

    requests = {labels: n for (name, labels), n in seen.items() if name == "kbengine_requests_total"}
    assert sum(n for labels, n in requests.items() if ("route", "/static/<path:filename>") in labels) == 3
    assert seen["kbengine_requests_in_flight", ()] == 1  # the one that asks


def test_labels_are_few_whatever_is_asked(service):
    """Neither paths nor methods nor queries become labels."""
    for n in range(30):
        service.client.get(f"/v1/documents/{CANARY}-{n}", buffered=True)
        service.client.get(f"/{CANARY}/{n}", buffered=True)
        service.client.open("/livez", method=f"X{n}", buffered=True)
    seen = meters(service)

    requests = [labels for name, labels in seen if name == "kbengine_requests_total"]
    assert len(requests) <= 5
    assert CANARY not in service.client.get("/metrics").text


def test_each_request_is_one_event_without_anything_that_was_asked(service):
    """Its route, status, time and id; texts, ids of documents and query strings are not in it."""
    service.post("/v1/question", {"text": CANARY}, X_Request_ID="job-1")
    service.post("/v1/entity-linking", {"text": CANARY})
    service.post("/v1/documents", {"id": CANARY, "title": CANARY, "text": CANARY})
    service.client.get(f"/v1/documents/{CANARY}", buffered=True)
    service.client.get(f"/v1/documents?q={CANARY}", buffered=True)
    service.client.get(f"/{CANARY}", buffered=True)
    service.post("/v1/batch", {"queries": [{"task": "question", "text": CANARY}, {"task": "search", "text": CANARY}]})
    events = service.events()

    assert [event["event"] for event in events] == ["request"] * 7
    assert events[0]["request_id"] == "job-1"
    assert events[0]["route"] == "/v1/question" and events[0]["status"] == 200 and events[0]["ms"] > 0
    assert events[1]["problem"] == "bad_task_input"
    assert events[2]["documents"] == 1
    assert events[5]["route"] == "unmatched"
    assert events[6]["queries"] == 2
    assert CANARY not in service.log.getvalue()
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", event["timestamp"]) for event in events)


def test_what_libraries_log_is_json_without_messages_of_exceptions(capsys):
    """Kinds and places of exceptions only: a message may hold a user's text."""
    import logging

    from web.request_log import JsonLines

    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    log = logging.getLogger("tests.web.operation")
    log.addHandler(handler)
    log.propagate = False
    try:
        try:
            raise ValueError(CANARY)
        except ValueError:
            log.exception("it failed: %s", 3)
    finally:
        log.removeHandler(handler)
    line = json.loads(capsys.readouterr().err)

    assert (line["event"], line["level"], line["error"]) == ("it failed: 3", "error", ["ValueError"])
    assert CANARY not in json.dumps(line)


@pytest.mark.parametrize(("error", "level"), [(BlockingIOError(11, CANARY), "warning"), (OSError(CANARY), "error")])
def test_a_client_that_stops_reading_is_no_error_of_the_service(capsys, error, level):
    """The server's log warns of it; other errors of sockets stay errors, without their messages."""
    log = ServerLogger(Config())
    try:
        raise error
    except OSError:
        log.exception("Socket error processing request.")
    line = json.loads(capsys.readouterr().err)

    assert line["level"] == level and CANARY not in json.dumps(line)


def test_an_engine_that_was_closed_answers_nothing(make_service):
    """503 for what comes too late."""
    service = make_service()
    service.engine.close()
    asked = service.post("/v1/question", {"text": "Paris"})
    changed = service.post("/v1/documents", {"id": "x", "title": "x", "text": "x"})

    assert asked.status_code == changed.status_code == 503
    assert service.client.get("/livez").status_code == 200


def test_an_engine_opens_with_the_encoder_of_its_knowledge_base(kb_path):
    """As the server opens it."""
    engine = Engine.open(kb_path)
    try:
        engine.self_query()
        assert engine.problem is None and engine.knowledge_base.path == kb_path
    finally:
        engine.close()
