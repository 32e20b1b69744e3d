"""The head of a Ray runtime is killed while services are asked: no wrong answer, nothing acknowledged is lost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kbengine.cluster.build import build_cluster
from storage.cluster import Cluster
from tests.integrations.cluster.load import Load, asked
from tests.integrations.cluster.ray_machines import RayMachines, ray_machines
from tests.integrations.cluster.test_service import ASKED, request, serving
from tests.kbengine.cluster.small_corpus import load_encoder, request_for, write_corpus
from tests.waiting import wait_until

PAGE = {"id": "z", "title": "Zworykin", "text": "Where is the number of part 3? In Zworykin."}


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    """What serves a cluster of three shards."""
    cluster = Cluster.create(f"file://{tmp_path}/cluster")
    build_cluster(request_for(write_corpus(tmp_path / "corpus.jsonl")), cluster, encoder=load_encoder(tmp_path))
    cluster.close()
    return [
        "--cluster",
        f"file://{tmp_path}/cluster",
        "--state",
        str(tmp_path / "state"),
        "--max-batch",
        "1",
        "--deadline-s",
        "300",
    ]


def by_ray(arguments: list[str], machines: RayMachines) -> list[str]:
    """The same searched by actors of a runtime."""
    return [*arguments, "--replicas", "2", "--searchers", "2", "--ray", machines.address]


def ask(url: str) -> tuple[int, Any]:
    """Return status and answer."""
    return request(f"{url}/v1/search", ASKED)


def answer(url: str) -> tuple[tuple[str, float], ...]:
    """Return documents and scores."""
    status, found = ask(url)
    assert status == 200, found
    return tuple((each["document"]["id"], each["score"]) for each in found["answers"])


def answer_after_a_change_without_a_head(url: str, machines: RayMachines, load: Load) -> tuple[tuple[str, float], ...]:
    """Kill the head, see that answers go on, add a document, and return what is answered then."""
    wait_until(lambda: load.answers)
    machines.kill_head()
    n = sum(load.answers.values())
    wait_until(lambda: sum(load.answers.values()) >= n + 20)
    status, made = request(f"{url}/v1/documents", PAGE)
    assert status == 201, made
    return answer(url)


@pytest.mark.slow
def test_a_head_whose_state_is_kept_dies_and_comes_back_unnoticed(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched and changed meanwhile; actors that die afterwards are started again."""
    with ray_machines(tmp_path, keeps_state=True) as machines:
        for name, value in machines.environment.items():
            monkeypatch.setenv(name, value)
        with serving(*by_ray(arguments, machines)) as (url, process):
            before = answer(url)
            with asked(lambda: ask(url)) as load:
                after = answer_after_a_change_without_a_head(url, machines, load)
                machines.start_head()
                actors = machines.actors()
                os.kill(actors[0], signal.SIGKILL)
                wait_until(lambda: len(machines.actors()) == len(actors) and actors[0] not in machines.actors())
                n = sum(load.answers.values())
                wait_until(lambda: sum(load.answers.values()) >= n + 20)
            assert process.poll() is None
            assert "z" in [document for document, _ in after] and answer(url) == after
            assert set(load.answers) <= {before, after} and not load.errors and not load.unreachable


@pytest.mark.slow
def test_a_head_without_kept_state_is_started_again_with_its_services(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers go on without it; started again, head, machine and service answer as before, changes included."""
    with ray_machines(tmp_path, waits_s=30) as machines:
        for name, value in machines.environment.items():
            monkeypatch.setenv(name, value)
        with serving(*by_ray(arguments, machines)) as (url, _):
            before = answer(url)
            with asked(lambda: ask(url)) as load:
                after = answer_after_a_change_without_a_head(url, machines, load)
            assert set(load.answers) <= {before, after} and not load.errors
        machines.start_head()
        machines.start_machine()
        with serving(*by_ray(arguments, machines)) as (url, _):
            assert answer(url) == after
