"""Filling tables over HTTP and on the page: sent, previewed, made a job, downloaded."""

from __future__ import annotations

import csv
import io

import pytest

from kbengine.inputs import Slot
from tests.waiting import wait_until
from web.jobs.context import JobContext

TABLE = b"name,country\nParis,\nMarie Curie,Poland\n,\n"
CSV = {"Content-Type": "text/csv"}


def fill(service, query, data=TABLE, headers=CSV):
    """Return the answer to a table."""
    return service.client.post(f"/v1/fill?{query}", data=data, headers=headers)


def finished(service, job_id):
    """Return the job when it is over."""
    wait_until(lambda: service.client.get(f"/v1/jobs/{job_id}").json["finished_at"])
    return service.client.get(f"/v1/jobs/{job_id}").json


def rows_of(service, job):
    """Return the rows of the result."""
    result = service.client.get(job["result"], buffered=True)
    assert result.status_code == 200, result.text
    return list(csv.DictReader(io.StringIO(result.text)))


def test_a_table_is_filled_as_a_job(service):
    """Every row comes back, with the same answers as one by one."""
    accepted = fill(service, "name=places.csv&subject=name&relation=country&relation=capital+of&threshold=0")
    assert accepted.status_code == 202, accepted.text
    job = finished(service, accepted.json["id"])

    assert (job["state"], job["title"], job["facts"]["rows"]) == ("succeeded", "places.csv", 3), job
    rows = rows_of(service, job)
    assert [row["name"] for row in rows] == ["Paris", "Marie Curie", ""]
    assert rows[1]["country"] == "Poland" and rows[1]["country evidence"] == ""
    wanted = service.post("/v1/slot-filling", {"subject": "Paris", "relation": "capital of", "threshold": 0}).json
    assert rows[0]["capital of"] == wanted["answers"][0]["text"]
    assert rows[2]["fill note"] == "name: is empty"
    sent = service.client.get(job["result"], buffered=True).headers["Content-Disposition"]
    assert "places-filled.csv" in sent


def test_questions_get_answers_in_another_format(service):
    """As tabs part them."""
    job = finished(service, fill(service, "question=q&out=tsv&threshold=0", b"q\nWho was Marie Curie?\n").json["id"])
    result = service.client.get(job["result"], buffered=True)
    assert result.mimetype == "text/tab-separated-values" and result.text.startswith("q\tanswer\t")


@pytest.mark.parametrize(
    ("query", "data", "code"),
    [
        ("", TABLE, "invalid_option"),
        ("subject=nobody", TABLE, "bad_table"),
        ("subject=name&relation=P99999999", TABLE, "unknown_relation"),
        ("subject=name", b"a,a\n", "bad_table"),
        ("subject=name", b"", "bad_request"),
        ("subject=name&values=0", TABLE, "invalid_body"),
    ],
)
def test_what_cannot_be_filled_is_told_at_once(shared, query, data, code):
    """By the answer rather than by a job that fails; nothing is left of it."""
    refused = fill(shared, query, data)
    assert refused.status_code in (400, 422) and refused.json["code"] == code, refused.text
    store = shared.app.extensions["kbengine"].jobs.store
    assert store.newest(10) == []
    assert not store.folder.exists() or not [each for each in store.folder.iterdir() if each.is_dir()]


def test_a_job_whose_process_ended_at_the_very_end_is_written_again(service, monkeypatch):
    """The result was there, and nobody had heard of it: what was noted is not asked again."""
    from web.works.filling import fill as work

    store = service.app.extensions["kbengine"].jobs.store
    job = finished(service, fill(service, "subject=name&relation=country").json["id"])
    before = rows_of(service, job)
    context = JobContext(store.get(job["id"]), store, is_stopping=lambda: False, wait=lambda s: None)
    monkeypatch.setattr(service.engine, "ask_each", lambda *asked: pytest.fail(f"asked {asked}"))

    work(service.engine, context)

    assert rows_of(service, job) == before


def test_the_page_takes_a_table_shows_rows_filled_and_leads_to_the_job(service):
    """Upload, columns, preview, job, download."""
    assert "Fill a table" in service.client.get("/fill").text
    sent = service.client.post("/fill", data={"file": (io.BytesIO(TABLE), "pla<ces.csv")})
    assert sent.status_code == 303, sent.text
    page = service.client.get(sent.location).text
    assert "pla&lt;ces.csv" in page and "3 rows" in page and "<option>country</option>" in page
    table = sent.location.partition("table=")[2]
    asked = {"table": table, "column": "name", "kind": "names", "relations": "country\ncapital of", "threshold": "0"}

    page = service.client.get("/fill", query_string=asked).text

    assert "The first rows, filled" in page and "capital of evidence" in page
    bad = service.client.get("/fill", query_string={**asked, "relations": "P99999999"})
    assert bad.status_code == 400 and "P99999999" in bad.text
    started = service.client.post("/fill/start", data=asked)
    assert started.status_code == 303 and "/jobs#" in started.location, started.text
    job = finished(service, started.location.partition("#")[2])
    assert len(rows_of(service, job)) == 3
    assert f'href="/v1/jobs/{job["id"]}/result"' in service.client.get("/jobs").text
    assert service.client.post("/fill/start", data=asked).status_code == 404
    assert service.client.get("/fill?table=../../x").status_code == 404
    assert service.client.post("/fill", data={"file": (io.BytesIO(b"x"), "t.doc")}).status_code == 400


def test_slots_of_a_table_wait_in_the_queue_of_everybody(service):
    """One relation of one name is what /v1/slot-filling asks."""
    asked = []
    each = service.engine.ask_each
    service.engine.ask_each = lambda queries, deadline=None: asked.extend(queries) or each(queries, deadline)
    finished(service, fill(service, "subject=name&relation=country", b"name\nParis\n").json["id"])
    assert Slot("Paris", "country") in [request for request, _ in asked]
