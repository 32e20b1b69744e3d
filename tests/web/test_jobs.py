"""Long work as jobs: accepted at once, followed, cancelled, gone on with after an interruption, fetched, forgotten."""

from __future__ import annotations

import json
import threading
from io import BytesIO

import pytest

from tests.waiting import wait_until
from web import limits
from web.errors import IdempotencyConflictError, QueueFullError, UnknownJobError
from web.jobs.job import Outcome, ResultFile
from web.jobs.runner import MAX_ATTEMPTS, JobRunner
from web.jobs.store import MAX_UNFINISHED, JobStore
from web.keys import KeyFile
from web.models.jobs import JobBody, JobList

LINES = {"Content-Type": "application/x-ndjson"}
MILLS = [
    {"id": f"mill-{n}", "title": f"Mill {n}", "text": f"The mill number {n} of Quillmere was built in {1700 + n}."}
    for n in range(5)
]


class Work:
    """Counts to `total`, a step whenever it is let; keeps where it goes on."""

    def __init__(self, total=3):
        self.total, self.begun, self.steps = total, [], threading.Semaphore(0)

    def __call__(self, context):
        start = context.job.cursor or 0
        self.begun.append(start)
        for n in range(start, self.total):
            context.progress("steps", n, self.total)
            while not self.steps.acquire(timeout=0.01):
                context.progress("steps", n, self.total)
                context.save(n)
            context.save(n + 1)
        context.result.write_text(f"{self.total} steps")
        return Outcome({"steps": self.total}, ResultFile("steps.txt", "text/plain"))


class Clock:
    """Says what it is told."""

    now = 1_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The time of day, which stands still."""
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    """No jobs yet."""
    store = JobStore(tmp_path, clock=clock)
    yield store
    store.close()


@pytest.fixture
def runner_of():
    """A function from a store and works to a runner; what is left running is ended."""
    made = []

    def make(store, work, **options):
        made.append(JobRunner(store, {"count": work}, **options))
        return made[-1]

    yield make
    for runner in made:
        runner.close()


def added(store, **options):
    """A job that waits."""
    return store.add(store.new_folder(), "count", "a table", {}, **options)


def finished(store, job):
    """Wait until the job is over and return it."""
    wait_until(lambda: store.get(job.id).is_finished)
    return store.get(job.id)


def test_a_job_is_done_and_tells_what_came_of_it(store, runner_of):
    """Its states follow each other, its result is a file."""
    work = Work()
    job = runner_of(store, work).submit(store.new_folder(), "count", "a table", {"a": 1})
    assert (job.state, job.title, job.arguments, job.progress) == ("queued", "a table", {"a": 1}, None)
    work.steps.release(3)

    job = finished(store, job)

    assert (job.state, job.outcome.facts, job.attempts) == ("succeeded", {"steps": 3}, 1)
    assert (store.folder / job.id / "result").read_text() == "3 steps"
    assert store.unfinished() == []


def test_an_interrupted_job_goes_on_where_it_was_in_another_process(tmp_path, store, runner_of):
    """Closing leaves it to whoever looks next."""
    work = Work()
    first = runner_of(store, work)
    job = first.submit(store.new_folder(), "count", "a table", {})
    work.steps.release(2)
    wait_until(lambda: store.get(job.id).cursor == 2)
    first.close()
    other = JobStore(tmp_path)
    left = other.get(job.id)
    assert (left.state, left.progress.done, left.progress.total) == ("queued", 2, 3)

    runner_of(other, work).start()
    work.steps.release(1)

    assert finished(other, job).state == "succeeded" and work.begun == [0, 2]


def test_a_job_whose_process_ended_is_taken_up_and_given_up_after_some_times(store, runner_of):
    """The kernel gave its claim back; a job that ends every process is not begun for ever."""
    once, often = added(store), added(store)
    store.begin(once.id)
    for _ in range(MAX_ATTEMPTS):
        store.begin(often.id)
    work = Work()
    work.steps.release(3)
    runner_of(store, work).start()

    assert finished(store, once).state == "succeeded"
    job = finished(store, often)
    assert job.state == "failed" and "ended 3 times" in job.problem["detail"]


def test_one_job_is_done_by_one_process(tmp_path, store):
    """Whoever holds it; the other waits for the next look."""
    job = added(store)
    other = JobStore(tmp_path)
    with store.claimed(job.id) as mine, other.claimed(job.id) as theirs:
        assert (mine, theirs) == (True, False)
    with other.claimed(job.id) as theirs:
        assert theirs and other.begin(job.id).state == "running"
    other.close()


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_soon(tmp_path, store, runner_of):
    """Also by another process."""
    waiting = added(store)
    assert store.cancel(waiting.id).state == "cancelled"

    runner = runner_of(store, Work())
    job = runner.submit(store.new_folder(), "count", "a table", {})
    wait_until(lambda: store.get(job.id).state == "running")
    other = JobStore(tmp_path)
    assert other.cancel(job.id).is_cancelling
    other.close()

    assert finished(store, job).state == "cancelled"


def test_an_unforeseen_error_fails_the_job_and_tells_nothing_of_it(store, runner_of):
    """The log says more; the next job is done."""

    def work(context):
        raise RuntimeError("a secret")

    job = runner_of(store, work).submit(store.new_folder(), "count", "a table", {})

    job = finished(store, job)
    assert (job.state, job.problem["code"]) == ("failed", "internal") and "secret" not in json.dumps(job.problem)


def test_the_same_name_makes_one_job(store):
    """Another job under it is refused."""
    first = added(store, operation="x")
    assert added(store, operation="x").id == first.id
    assert len(list(store.folder.glob("*/"))) == 1
    with pytest.raises(IdempotencyConflictError):
        store.add(store.new_folder(), "count", "a table", {"other": 1}, operation="x")


def test_jobs_are_bounded_and_forgotten_after_a_time(store, clock):
    """With their files; folders whose input never came, too."""
    jobs = [added(store) for _ in range(MAX_UNFINISHED)]
    with pytest.raises(QueueFullError):
        added(store)
    store.cancel(jobs[0].id)
    store.remove([job.id for job in jobs])
    assert len(store.unfinished()) == MAX_UNFINISHED - 1 and not (store.folder / jobs[0].id).exists()
    store.cancel(jobs[1].id)
    clock.now += 100
    assert store.expire(1000) == []
    clock.now += 1000
    assert store.expire(1000) == [jobs[1].id]
    with pytest.raises(UnknownJobError):
        store.get(jobs[1].id)
    assert (store.folder / jobs[2].id).exists()


def follow(service, response):
    """Return the job as it is told when it is over."""
    assert response.status_code == 202, response.text
    address = response.headers["Location"]
    assert response.json["address"] == address
    JobBody.model_validate(response.json)
    wait_until(lambda: service.client.get(address).json["finished_at"])
    return JobBody.model_validate(service.client.get(address).json)


def upload(service, data, query="?name=mills.jsonl", **headers):
    """Return the answer to an upload of JSON lines."""
    lines = b"".join(json.dumps(each).encode() + b"\n" for each in data) if isinstance(data, list) else data
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.client.post(f"/v1/documents:upload{query}", data=lines, headers={**LINES, **named})


def test_an_upload_is_added_as_a_job(service):
    """Found when it is done; the same key does it once."""
    response = upload(service, MILLS, Idempotency_Key="a")
    job = follow(service, response)

    assert (job.state, job.kind, job.title, job.result) == ("succeeded", "upload", "mills.jsonl", None)
    assert (job.facts["documents"], job.facts["added"], job.facts["replaced"]) == (5, 5, 0)
    assert service.client.get("/v1/documents/mill-3").status_code == 200
    assert upload(service, MILLS, Idempotency_Key="a").json["id"] == job.id
    assert upload(service, MILLS[:1], Idempotency_Key="a").status_code == 409


def test_an_upload_goes_on_behind_the_last_piece(service, monkeypatch):
    """What was added is not added again, and is counted."""
    monkeypatch.setattr("web.works.uploads.PIECE_PASSAGES", 2)
    runner, add = service.app.extensions["kbengine"].jobs, service.engine.knowledge_base.add
    pieces = []

    def adding(documents, **options):
        pieces.append(len(documents))
        if len(pieces) == 2:
            runner._stopping.set()  # as closing does
        return add(documents, **options)

    monkeypatch.setattr(service.engine.knowledge_base, "add", adding)
    job = upload(service, MILLS).json
    wait_until(lambda: pieces == [2, 2] and runner.store.get(job["id"]).state == "queued")
    runner.close()

    again = JobRunner(JobStore(runner.store.folder.parent), runner._works)
    again.start()
    wait_until(lambda: again.store.get(job["id"]).is_finished)

    done = again.store.get(job["id"])
    again.close()
    assert done.outcome.facts["documents"] == done.outcome.facts["added"] == 5
    assert sum(pieces) in (5, 7)  # the piece that was just added may be named again, and is not added twice
    assert service.engine.info().documents == 10


def test_an_upload_that_cannot_be_read_adds_nothing(service):
    """The job says which line; ids that are there are refused where nothing is to be replaced."""
    job = follow(service, upload(service, [*MILLS, {"id": "x"}]))
    assert job.state == "failed" and job.problem["code"] == "bad_corpus"
    assert "mills.jsonl, line 6" in job.problem["detail"] and "/jobs/" not in job.problem["detail"]
    job = follow(service, upload(service, [*MILLS, {**MILLS[0], "id": "paris"}], "?replace=false"))
    assert job.state == "failed" and "'paris' already" in job.problem["detail"]
    assert service.engine.info().documents == 5
    assert upload(service, b"").status_code == 400
    assert service.client.post("/v1/documents:upload", data=b"x", content_type="image/png").status_code == 415


def test_a_large_body_of_documents_becomes_a_job(service, monkeypatch):
    """A small one is answered when it is done."""
    monkeypatch.setattr(limits, "DIRECT_BYTES", 200)
    assert service.post("/v1/documents", MILLS[0]).status_code == 201
    job = follow(service, service.post("/v1/documents", {"documents": MILLS}))
    assert (job.title, job.facts["added"], job.facts["replaced"]) == ("5 documents", 4, 1)


def test_many_texts_are_annotated_as_a_job(shared):
    """A line for each, in order, as one by one; a job without a result has none to download."""
    texts = [{"id": n, "text": f"Marie Curie was in {place}."} for n, place in enumerate(("Paris", "Quillmere"))]
    data = b"".join(json.dumps(each).encode() + b"\n" for each in texts)
    job = follow(shared, shared.client.post("/v1/annotate:batch?threshold=0", data=data, headers=LINES))

    assert job.state == "succeeded" and job.facts["texts"] == 2
    result = shared.client.get(job.result, buffered=True)
    found = [json.loads(line) for line in result.text.splitlines()]
    assert "annotations.jsonl" in result.headers["Content-Disposition"]
    one = shared.post("/v1/annotate", {"text": texts[0]["text"], "threshold": 0}).json
    assert found[0] == {"id": 0, **one} and found[1]["id"] == 1

    bad = follow(shared, shared.client.post("/v1/annotate:batch", data=b'{"text": ""}\n', headers=LINES))
    assert bad.state == "failed" and "line 1: text" in bad.problem["detail"]
    assert shared.client.get(f"{bad.address}/result").json["code"] == "no_job_result"


def test_jobs_are_listed_by_pages_and_deleted(service):
    """The newest first; a finished one is gone with its files."""
    jobs = [follow(service, upload(service, MILLS[:1], f"?name=m{n}.jsonl")) for n in range(3)]

    page = JobList.model_validate(service.client.get("/v1/jobs?limit=2").json)
    rest = JobList.model_validate(service.client.get(f"/v1/jobs?limit=2&page_token={page.next_page_token}").json)

    assert [job.id for job in (*page.jobs, *rest.jobs)] == [job.id for job in reversed(jobs)]
    assert service.client.get("/v1/jobs?state=failed").json["jobs"] == []
    assert 'kbengine_jobs{state="queued"} 0.0' in service.client.get("/metrics").text
    assert service.client.delete(jobs[0].address).json["id"] == jobs[0].id
    assert service.client.get(jobs[0].address).json["code"] == "unknown_job"
    assert service.client.get("/v1/jobs/../../kb.sqlite").status_code == 404


def test_a_key_sees_its_own_jobs_and_admin_all(make_service, kb_path):
    """Another key's job is as unknown as one that is not there."""
    service = make_service(require_key=True)
    keys = KeyFile(kb_path / "api-keys.json")
    tokens = {name: keys.create(name, scope)[1] for name, scope in (("a", "write"), ("b", "write"), ("c", "admin"))}
    sent = {name: {"Authorization": f"Bearer {token}"} for name, token in tokens.items()}
    address = upload(service, MILLS, **sent["a"]).headers["Location"]

    seen = {name: service.client.get(address, headers=headers).status_code for name, headers in sent.items()}
    assert seen == {"a": 200, "b": 404, "c": 200}
    listed = {name: len(service.client.get("/v1/jobs", headers=each).json["jobs"]) for name, each in sent.items()}
    assert listed == {"a": 1, "b": 0, "c": 1}
    assert service.client.delete(address, headers=sent["b"]).status_code == 404


def test_the_page_shows_jobs_and_large_files_become_one(service, monkeypatch):
    """Titles are escaped; a job is removed by its button."""
    assert "There are no jobs" in service.client.get("/jobs").text
    monkeypatch.setattr(limits, "DIRECT_BYTES", 100)
    data = b"".join(json.dumps(each).encode() + b"\n" for each in MILLS)
    files = [(BytesIO(data), "<b>mills.jsonl"), (BytesIO(b"Harrowby\n\nA lighthouse."), "harrowby.txt")]
    response = service.client.post("/documents", data={"files": files})
    assert response.status_code == 303 and "/jobs#" in response.location
    job_id = response.location.partition("#")[2]
    wait_until(lambda: service.client.get(f"/v1/jobs/{job_id}").json["finished_at"])

    page = service.client.get("/jobs").text

    assert "&lt;b&gt;mills.jsonl and 1 more" in page and "6 documents" in page, page
    assert service.client.get("/v1/documents/harrowby.txt").status_code == 200
    assert service.client.post("/jobs/stop", data={"id": job_id}).status_code == 303
    assert "There are no jobs" in service.client.get("/jobs").text
