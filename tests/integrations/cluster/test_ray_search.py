"""Two shards in two Ray actors: killed, moved and started again they answer as one knowledge base does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.cluster.knowledge_base import ClusterKnowledgeBase
from kbengine.cluster.opening import ClusterOptions, open_cluster
from kbengine.cluster.ray_hosts import PoolOptions, RayPool, RayReplica
from kbengine.cluster.ray_runtime import LOOPBACK, RayOptions, connect
from kbengine.cluster.replicas import ReplicaOptions
from kbengine.cluster.routing import Router, RouterOptions
from kbengine.corpus.kilt import parse_kilt
from kbengine.encoders.encoder import Encoder
from kbengine.inputs import Mention, Question, Slot
from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions
from storage.cluster_arrangement import arrange
from tests.kbengine.cluster.small_cluster import corpus_of, make_cluster, one_knowledge_base
from tests.waiting import wait_until

DEMO = Path(__file__).parents[3] / "kbengine" / "demo" / "corpus.jsonl"
ASKED = (
    Question("What was the programming language Java called at first?"),
    Slot("Abraham Lincoln", "P26"),
    Mention("From Lincoln to Omaha.", (5, 12)),
)
OPTIONS = AnswerOptions(k=5)
PATIENT = RouterOptions(ReplicaOptions(patience_s=240.0), deadline_s=300.0)


@pytest.fixture(scope="module")
def served(module_demo_kb, tmp_path_factory) -> Iterator[tuple[KnowledgeBase, ClusterKnowledgeBase, Any]]:
    """One knowledge base, a cluster of the same documents in two actors, and Ray."""
    folder = tmp_path_factory.mktemp("ray")
    encoder = Encoder.load("minilm-phrase")
    lines = DEMO.read_text(encoding="utf-8").splitlines()[:40]
    corpus = corpus_of(module_demo_kb, encoder, [parse_kilt(json.loads(line)) for line in lines])
    root = make_cluster(folder / "cluster", folder, corpus, 2)
    ray = connect(RayOptions(cpus=2))
    options = ClusterOptions(root, folder=folder / "state", replicas=1, router=PATIENT)
    with (
        KnowledgeBase.open(one_knowledge_base(folder / "one", corpus)) as one,
        open_cluster(options) as cluster,
    ):
        yield one, cluster, ray
    ray.shutdown()


def replicas(cluster: ClusterKnowledgeBase) -> list[RayReplica]:
    """Return the actors."""
    found = [each.replica for each in cluster.router._searchers.all()]
    assert all(isinstance(each, RayReplica) for each in found)
    return found


def pid(ray: Any, replica: RayReplica) -> int:
    """Return the number of an actor's process."""
    return int(ray.get(replica.handle.pid.remote(), timeout=120))


def is_ended(ray: Any, replica: RayReplica) -> bool:
    """Return whether an actor is no more."""
    try:
        pid(ray, replica)
    except ray.exceptions.RayActorError:
        return True
    return False


def answers(knowledge_base: KnowledgeBase) -> list[list[tuple[str, float]]]:
    """Return texts and scores of the answers to everything."""
    found = Answerer(knowledge_base).answer(ASKED, OPTIONS)
    return [[(each.text, each.score) for each in answer.answers] for answer in found]


def test_two_actors_answer_as_one_knowledge_base_and_so_does_one_started_again(served):
    """A killed actor's shard is waited for; the process is another, the answers are the same."""
    one, cluster, ray = served
    wanted = answers(one)
    assert answers(cluster) == wanted
    first = replicas(cluster)[0]
    before = pid(ray, first)
    os.kill(before, signal.SIGKILL)

    assert answers(cluster) == wanted
    assert pid(ray, first) != before


def test_an_actor_started_again_knows_what_was_changed_meanwhile(served):
    """Its constructor knows an older generation; which one is asked for, each call says."""
    _, cluster, ray = served
    added = cluster.add([{"id": "z", "title": "Zworykin", "text": "The river Qarun crosses the town of Zworykin."}])
    cluster.delete(["abraham-lincoln"])
    wanted = answers(cluster)
    for replica in replicas(cluster):
        os.kill(pid(ray, replica), signal.SIGKILL)
    found = cluster.search("Which river crosses Zworykin?", unit="document", k=1)
    assert (found.hits[0].document.doc_id, found.generation) == ("z", added.generation + 1)
    assert found.shards is not None and not found.shards.degraded
    assert answers(cluster) == wanted


@contextlib.contextmanager
def second_machine(ray: Any) -> Iterator[None]:
    """Another machine of the runtime, as far as Ray can tell; it is gone at once at the end."""
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--address", address, "--node-name", "second"]
    started: list[subprocess.Popen[bytes]] = []

    def is_there() -> bool:
        """Start it, and again where Ray gave up, as it does on a machine that is busy."""
        if any(node["Alive"] and node.get("NodeName") == "second" for node in ray.nodes()):
            return True
        if not started or started[-1].poll() is not None:
            started.append(
                subprocess.Popen(
                    [*command, "--num-cpus", "2", "--node-ip-address", LOOPBACK, "--block"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            )
        return False

    try:
        wait_until(is_there, interval_s=0.1, hang_s=600.0)
        yield
    finally:
        for each in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(each.pid, signal.SIGKILL)  # and with it, all that runs on this machine
            each.wait()


def test_a_machine_is_drained_and_another_one_lost(served):
    """Actors move before the machine goes; what ran on a machine that is gone is started elsewhere."""
    _, cluster, ray = served
    wanted = answers(cluster)
    searchers = cluster.router._searchers
    with second_machine(ray):
        wait_until(lambda: "second" in searchers.nodes())
        (first,) = [name for name in searchers.nodes() if name != "second"]
        cluster.router.tend()
        cluster._cluster.catalog.set_node_state(first, "draining")
        assert len(cluster.router.tend()) == 2
        assert {each.node for each in replicas(cluster)} == {"second"}
        assert answers(cluster) == wanted
        cluster._cluster.catalog.set_node_state(first, "active")
    wait_until(lambda: "second" not in searchers.nodes())
    cluster.router.tend()

    assert {each.node for each in replicas(cluster)} == {first}
    assert answers(cluster) == wanted


def test_shards_are_spread_anew_over_a_machine_that_was_added(served):
    """While it answers: requests under way go on, the next ones are answered by the new actors, the old ones end."""
    _, cluster, ray = served
    wanted = answers(cluster)
    before = replicas(cluster)
    assert len({each.node for each in before}) == 1
    with second_machine(ray):
        wait_until(lambda: "second" in cluster.router._searchers.nodes())
        for searchers, machines in ((2, 2), (1, 1), (2, 2)):
            arrange(cluster._cluster.catalog, searchers=searchers)
            with ThreadPoolExecutor(1) as thread:
                moving = thread.submit(cluster.router.tend)
                seen = [answers(cluster)]
                while not moving.done():
                    seen.append(answers(cluster))
            assert moving.result()[0] == f"of every shard to one of {searchers} searchers"
            assert [each for each in (*seen, answers(cluster)) if each != wanted] == []
            assert (len(replicas(cluster)), len({each.node for each in replicas(cluster)})) == (searchers, machines)
        for left in cluster.router._left:
            left.close()
        wait_until(lambda: is_ended(ray, before[0]))  # Ray ends actors in its own time
        assert answers(cluster) == wanted
        assert cluster.router.tend() == []
    cluster.router.tend()
    assert answers(cluster) == wanted


def test_an_actor_that_ray_gave_up_on_is_replaced(served):
    """Ray starts no actor again whose machine has nothing left for it, say; another takes its place."""
    _, cluster, ray = served
    wanted = answers(cluster)
    first = replicas(cluster)[0]
    ray.kill(first.handle, no_restart=True)
    with ThreadPoolExecutor(1) as thread:
        answering = thread.submit(answers, cluster)
        wait_until(lambda: cluster.router.tend() or answering.done(), interval_s=0.5)
        assert answering.result() == wanted
    assert replicas(cluster)[0].handle != first.handle


def test_services_share_the_actors_of_their_version_and_no_others(served):
    """So services are upgraded one after another: old and new ones answer beside each other, and alike."""
    _, cluster, ray = served
    wanted = answers(cluster)
    wait_until(
        lambda: "second" not in cluster.router._searchers.nodes()
    )  # that of an earlier test is missed after a while

    def pool_of(version: str) -> RayPool:
        options = PoolOptions(2, 1, is_shared=True)
        pool = RayPool(ray, f"pretended-{version}", cluster.router._searchers._spec_of, options, PATIENT.replicas)
        pool.start()
        return pool

    first, second, newer = pool_of("1"), pool_of("1"), pool_of("2")
    try:
        pids = [[pid(ray, each.replica) for each in pool.all()] for pool in (first, second, newer)]
        assert pids[0] == pids[1] and not set(pids[0]) & set(pids[2])
        for pool in (first, newer):
            router = Router(cluster._cluster, pool, PATIENT)
            options = KnowledgeBaseOptions()
            other = ClusterKnowledgeBase(cluster._cluster, router, cluster.encoder, cluster.path, options)
            assert answers(other) == wanted
        first.close()  # as its service ends; the other one's is still answered
        assert [pid(ray, each.replica) for each in second.all()] == pids[1]
    finally:
        for pool in (second, newer):
            pool._end_all()
