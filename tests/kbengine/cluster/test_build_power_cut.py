"""The power fails while a cluster is built: what was told of is there, and the same call goes on with the rest."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kbengine.cluster.build import build_cluster
from storage.cluster import Cluster
from storage.cluster_copies import verify_generation
from storage.cluster_verification import verify_catalog
from storage.errors import InvalidOptionError, NotAKnowledgeBaseError
from tests.kbengine.cluster.small_corpus import load_encoder, request_for, write_corpus
from tests.storage.power.scenarios import Cuts, Recording, check_all, record
from tests.storage.power.state import Read, State

DOCUMENTS = 4


def facts_of(path: Path) -> State:
    """How many documents the newest generation has; nothing without one."""
    with contextlib.suppress(NotAKnowledgeBaseError, InvalidOptionError):
        cluster = Cluster.open(path.as_uri())
        try:
            cluster.catalog.cluster()
            manifest = cluster.manifest()
            assert not verify_generation(manifest, cluster.store)
            assert not verify_catalog(cluster)
            return {"documents": manifest.documents}
        finally:
            cluster.close()
    return {}


def recorded(tmp_path: Path) -> Recording:
    """A build of a few documents, and how it goes on after a restart."""
    corpus = write_corpus(tmp_path / "corpus.jsonl", n=DOCUMENTS)
    encoder = load_encoder(tmp_path)
    wanted: State = {"documents": DOCUMENTS}

    def build(path: Path) -> None:
        cluster = Cluster.create(path.as_uri())
        try:
            build_cluster(request_for(corpus, shards=2), cluster, encoder=encoder)
        finally:
            cluster.close()

    def check(path: Path, allowed: list[State], read: Read) -> None:
        assert read(path) in allowed
        build(path)
        assert read(path) == wanted

    recording = record(tmp_path / "run", [("cluster build", build, lambda _: wanted)])
    recording.read, recording.check = facts_of, check
    return recording


def test_a_power_cut_costs_a_build_at_most_what_was_under_way(tmp_path: Path) -> None:
    """At the acknowledgement and some places before it."""
    recording = recorded(tmp_path)
    n_places = len(recording.machine.events)
    assert check_all(recording, tmp_path, Cuts(stride=n_places // 5, seed=1)) >= 2


@pytest.mark.slow
def test_many_power_cuts_cost_a_build_at_most_what_was_under_way(tmp_path: Path) -> None:
    """Anywhere, with anything left of what was not synced."""
    assert check_all(recorded(tmp_path), tmp_path, Cuts(random=60, seed=1)) > 30
