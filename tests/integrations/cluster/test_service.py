"""`kbengine serve --cluster` with objects in an object store and a catalog in PostgreSQL, as people start it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from kbengine.cluster.build import build_cluster
from storage.cluster import Cluster
from tests.integrations.cluster.load import asked
from tests.integrations.cluster.services import Postgres
from tests.kbengine.cluster.small_corpus import N, load_encoder, request_for, write_corpus
from tests.waiting import wait_until

ASKED = {"text": "Where is the number of part 3?", "k": 5, "unit": "document"}


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a service, which is asked to stop at the end and does."""
    command = [sys.executable, "-m", "kbengine.cli", "serve", *arguments, "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            yield _address(process), process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") == "serving":
            threading.Thread(target=process.stderr.read, daemon=True).start()  # so that it never waits for us
            return str(event["url"])
    raise AssertionError("".join(said[-20:]))


def request(url: str, body: object = None, method: str | None = None) -> tuple[int, Any]:
    """Return status and answer of a request."""
    data = None if body is None else json.dumps(body).encode()
    made = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(made, timeout=120) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.fixture
def arguments(bucket: Callable[[], str], catalog: str, tmp_path: Path) -> list[str]:
    """What serves a cluster of three shards."""
    root = bucket()
    cluster = Cluster.create(root, catalog)
    build_cluster(request_for(write_corpus(tmp_path / "corpus.jsonl")), cluster, encoder=load_encoder(tmp_path))
    cluster.close()
    # One query at a time: of several that are encoded together the last digit may differ.
    return [
        "--cluster",
        root,
        "--catalog",
        catalog,
        "--state",
        str(tmp_path / "state"),
        "--max-batch",
        "1",
        "--deadline-s",
        "300",
    ]


def answers(url: str) -> list[tuple[str, float]]:
    """Return documents and scores."""
    status, found = request(f"{url}/v1/search", ASKED)
    assert status == 200, found
    return [(each["document"]["id"], each["score"]) for each in found["answers"]]


def test_it_is_asked_changed_and_started_again(arguments: list[str], postgres: Postgres) -> None:
    """Two services of one cluster see each other's changes; without the catalog both answer and refuse changes."""
    with serving(*arguments) as (first, _), serving(*arguments) as (second, _):
        before = answers(first)
        assert before == answers(second) and len(before) == 5
        page = {"id": "z", "title": "Zworykin", "text": "Where is the number of part 3? In Zworykin."}
        status, made = request(f"{first}/v1/documents", page)
        assert (status, made["generation"]) == (201, 2), made
        changed = answers(second)
        assert "z" in [document for document, _ in changed] and changed == answers(first)
        assert request(f"{second}/v1/documents/doc%203", method="DELETE")[0] == 200
        assert request(f"{first}/v1/documents/doc%203")[0] == 404
        wanted = answers(second)

        postgres.stop()
        try:
            assert answers(first) == wanted == answers(second)
            status, refused = request(f"{second}/v1/documents", {**page, "id": "y"})
            assert (status, refused["code"]) == (503, "catalog_unavailable"), refused
        finally:
            postgres.start()
        assert request(f"{second}/v1/documents", {**page, "id": "y"})[0] == 201
        last = answers(second)
        assert "y" in [document for document, _ in last]
        # The other one lets a catalog that did not answer rest for a second.
        while request(f"{first}/v1/kb")[1]["generation"] < 4:
            time.sleep(0.1)
        assert last == answers(first)
    with serving(*arguments) as (again, _):
        assert answers(again) == last
        status, told = request(f"{again}/v1/kb")
        assert (status, told["documents"], told["generation"]) == (200, N + 1, 4)


def worker_of(process: subprocess.Popen[str]) -> int:
    """Return the process that answers: the child of the one that watches it."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def test_a_service_that_is_killed_under_load_comes_back_by_itself(arguments: list[str]) -> None:
    """Its worker, time and again, while clients ask and one adds: no wrong answer, nothing acknowledged lost."""
    with serving(*arguments) as (url, process):
        right = {tuple(answers(url))}
        with asked(lambda: request(f"{url}/v1/search", ASKED)) as load, ThreadPoolExecutor(1) as adding:
            for number in range(3):
                n = sum(load.answers.values())
                wait_until(lambda n=n: sum(load.answers.values()) > n)
                added = adding.submit(_added, url, number)
                os.kill(worker_of(process), signal.SIGKILL)
                added.result()
                right.add(tuple(answers(url)))
        assert process.poll() is None
        assert set(load.answers) <= right and load.unreachable > 0
        assert {status for status, _ in load.errors} <= {503}
        assert [request(f"{url}/v1/documents/far-{number}")[0] for number in range(3)] == [200] * 3


def _added(url: str, number: int) -> None:
    """Add a document under a name of the change, again and again until it is acknowledged."""
    page = {"id": f"far-{number}", "title": "Far", "text": "Nothing of all this."}
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"add-{number}"}
    while True:
        made = urllib.request.Request(f"{url}/v1/documents", json.dumps(page).encode(), headers)
        with contextlib.suppress(OSError, HTTPException), urllib.request.urlopen(made, timeout=120):
            return
        time.sleep(0.05)


def test_a_service_that_is_killed_leaves_nothing_that_stops_the_next(arguments: list[str]) -> None:
    """It holds nothing but what follows from the cluster."""
    with serving(*arguments) as (first, process):
        wanted = answers(first)
        process.kill()
    with serving(*arguments) as (again, _):
        assert answers(again) == wanted
