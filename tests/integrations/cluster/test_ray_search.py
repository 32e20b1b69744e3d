"""Two shards in two Ray actors: killed, moved and started again they answer as one knowledge base does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.cluster.knowledge_base import ClusterKnowledgeBase
from kbengine.cluster.opening import ClusterOptions, open_cluster
from kbengine.cluster.ray_hosts import RayReplica
from kbengine.cluster.ray_runtime import LOOPBACK, RayOptions, connect
from kbengine.cluster.replicas import ReplicaOptions
from kbengine.cluster.routing import RouterOptions
from kbengine.corpus.kilt import parse_kilt
from kbengine.encoders.encoder import Encoder
from kbengine.inputs import Mention, Question, Slot
from kbengine.knowledge_base import KnowledgeBase
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


def test_a_machine_is_drained_and_another_one_lost(served):
    """Actors move before the machine goes; what ran on a machine that is gone is started elsewhere."""
    _, cluster, ray = served
    wanted = answers(cluster)
    searchers = cluster.router._searchers
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--address", address, "--node-name", "second"]
    second = subprocess.Popen(
        [*command, "--num-cpus", "2", "--node-ip-address", LOOPBACK, "--block"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: "second" in searchers.nodes())
        (first,) = [name for name in searchers.nodes() if name != "second"]
        cluster.router.tend()
        cluster._cluster.catalog.set_node_state(first, "draining")
        assert len(cluster.router.tend()) == 2
        assert {each.node for each in replicas(cluster)} == {"second"}
        assert answers(cluster) == wanted
        cluster._cluster.catalog.set_node_state(first, "active")
    finally:
        os.killpg(second.pid, signal.SIGKILL)  # and with it, all that runs on this machine
        second.wait()
    wait_until(lambda: "second" not in searchers.nodes())
    cluster.router.tend()

    assert {each.node for each in replicas(cluster)} == {first}
    assert answers(cluster) == wanted
