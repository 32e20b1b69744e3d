"""Small shards put together while a cluster is asked and changed: fewer shards, the same answers."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from adapters.tasks.answerer import Answerer, AnswerOptions
from kbengine.cluster.compacting import Compacting
from kbengine.cluster.opening import ClusterOptions, open_cluster
from kbengine.cluster.plan import CREATED_AT
from kbengine.cluster.writer import ClusterWriter
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.corpus.kilt import parse_kilt
from kbengine.encoders.encoder import Encoder
from kbengine.errors import InvalidOptionError
from storage import cluster_schema
from storage.cluster import Cluster
from storage.cluster_compaction import CompactionLimits, compact_step, plan_step
from storage.cluster_copies import verify_generation
from storage.errors import CatalogUnavailableError, LockedError
from storage.generation_manifest import ShardEntry
from tests.kbengine.cluster.small_cluster import PATIENT, corpus_of, make_cluster
from tests.kbengine.cluster.test_cluster import ASKED, DEMO, plain
from tests.kbengine.cluster.test_writer import copy_tree

THREE = CompactionLimits(fan_in=3)


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """The default encoder."""
    return Encoder.load("minilm-phrase")


@pytest.fixture(scope="module")
def built(bundled_kb: Path, encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster of three shards and seven changes, which made five small ones; to be copied."""
    folder = tmp_path_factory.mktemp("built")
    lines = DEMO.read_text(encoding="utf-8").splitlines()
    pages = [parse_kilt(json.loads(line)) for line in (*lines[:12], *lines[90:100])]
    cluster = Cluster.open(make_cluster(folder / "cluster", folder, corpus_of(bundled_kb, encoder, pages), 3))
    writer = ClusterWriter(cluster, encoder)
    for number in range(6):
        text = f"Zworykin {number} built a camera in the town of Qarun."
        writer.add([CorpusDocument(f"z{number}", f"Zworykin {number}", passages=(CorpusPassage(1, text),))])
    writer.delete(["z1", pages[3].doc_id])
    cluster.close()
    return folder / "cluster"


@pytest.fixture
def root(built: Path, tmp_path: Path) -> str:
    """The address of a copy of it."""
    copy_tree(built, tmp_path / "cluster")
    return (tmp_path / "cluster").as_uri()


def opened(root: str, tmp_path: Path, limits: CompactionLimits | None = None):
    """The cluster as a knowledge base."""
    return open_cluster(ClusterOptions(root, folder=tmp_path / "state", router=PATIENT, compaction=limits))


def answers(knowledge_base) -> list[object]:
    """What is answered to all inputs, but for the number of the generation and of shards."""
    found = Answerer(knowledge_base).answer([*ASKED], AnswerOptions(k=20, explain=True))
    found += Answerer(knowledge_base).answer([*ASKED], AnswerOptions(unit="document", effort="exact"))
    return [plain(each) for each in found]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait as long as it takes."""
    while not condition():
        time.sleep(0.02)


def step(root: str, **options) -> object:
    """One step of it here."""
    cluster = Cluster.open(root)
    try:
        return compact_step(cluster, THREE, created_at=CREATED_AT, kbengine_version="1", **options)
    finally:
        cluster.close()


def test_answers_stay_while_shards_become_few(root: str, tmp_path: Path) -> None:
    """To the last bit; a service does it by itself."""
    plainly = opened(root, tmp_path)
    try:
        before, shards = answers(plainly), len(plainly.router.manifest().shards)
    finally:
        plainly.close()
    compacting = opened(root, tmp_path, THREE)
    try:
        at_work = compacting.router.compacting
        assert at_work is not None
        at_work._look_s = 0.01
        wait_until(lambda: not plan_step(compacting.router.manifest().shards, THREE))
        assert answers(compacting) == before
        assert len(compacting.router.manifest().shards) < shards == 8
        counts = compacting.router.facts().compaction
        assert counts is not None and counts.made >= 2 and counts.replaced >= 6 and counts.failed == 0
        assert compacting.info().documents == compacting.router.manifest().documents
    finally:
        compacting.close()
    cluster = Cluster.open(root)
    assert verify_generation(cluster.manifest(), cluster.store) == []
    cluster.close()


def test_a_shard_is_fetched_before_it_is_asked(root: str, tmp_path: Path) -> None:
    """So no request waits for its files."""
    knowledge_base = opened(root, tmp_path)
    try:
        fetched: list[bool] = []

        def uploaded(entry: ShardEntry, old: frozenset[str]) -> None:
            folders = list((tmp_path / "state" / "shards").glob("*"))
            assert not (folders[0] / entry.name).exists()
            knowledge_base.router.fetch_ahead(entry, old)
            fetched.append((folders[0] / entry.name / "kb.sqlite").exists())

        assert step(root, uploaded=uploaded) is not None
        assert fetched == [True]
    finally:
        knowledge_base.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from storage.cluster import Cluster
from storage.cluster_compaction import CompactionLimits, compact_step

root, scratch, stage = sys.argv[1:]
asked = []

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def goes_on():
    asked.append(1)
    if stage == ("fetching" if len(asked) == 1 else "uploading" if len(asked) == 5 else ""):
        die()
    return True

limits = CompactionLimits(fan_in=3)
options = {"created_at": "2026-01-01T00:00:00+00:00", "kbengine_version": "1"}
compact_step(Cluster.open(root), limits, scratch=Path(scratch), goes_on=goes_on, uploaded=die, **options)
"""


def test_killed_at_any_step_it_has_changed_nothing_and_another_goes_on(root: str, tmp_path: Path) -> None:
    """What it left is removed by the next; its lease ends by itself."""
    scratch = tmp_path / "scratch"
    cluster = Cluster.open(root)
    before = cluster.manifest().ref()
    for stage in ("fetching", "uploading", "publishing"):
        command = [sys.executable, "-c", KILLED, root, str(scratch), stage]
        died = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(Path.cwd())}, check=False)
        assert died.returncode == -signal.SIGKILL
        assert cluster.manifest().ref() == before
        assert len(list(scratch.iterdir())) == 1
        with pytest.raises(LockedError, match=r"another may begin in \d+ s"):
            step(root, scratch=scratch)
        cluster.catalog.renew("compaction", _holder(cluster), duration_s=-1)  # as if its time were over
    assert step(root, scratch=scratch) is not None
    assert list(scratch.iterdir()) == []
    cluster.close()


def _holder(cluster: Cluster) -> str:
    with cluster.catalog.database.reading() as connection:
        return str(connection.execute(select(cluster_schema.leases.c.holder)).scalar_one())


def test_a_step_that_is_to_end_changes_nothing(root: str) -> None:
    """Whenever it is asked."""
    for n in range(5):
        left = [True] * n
        assert step(root, goes_on=lambda left=left: bool(left and left.pop())) is None


def test_it_goes_on_after_what_went_wrong(root: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Failures are counted and said; a catalog that is away is waited for."""

    class Away(Cluster):
        problems: Iterator[Exception]

        def manifest(self, generation: int | None = None):
            raise next(self.problems)

    cluster = Cluster.open(root)
    away = Away(cluster.store, cluster.catalog, cluster.name)
    left = [CatalogUnavailableError("away"), InvalidOptionError("odd"), RuntimeError("odder")]
    away.problems = iter(left)
    with caplog.at_level(logging.WARNING):
        compacting = Compacting(away, THREE, tmp_path, lambda *_: None, look_s=0.001)
        wait_until(lambda: compacting.counts.failed >= 2)
        compacting.close()
    assert "small shards stay as they are, tried again in 0 s: odd" in caplog.text
    assert "RuntimeError: odder" in caplog.text
    cluster.close()


def test_only_what_is_small_is_put_together() -> None:
    """Eight of a size; what was built for several machines stays for several; half dead ones alone."""

    def shard(rows: int, *, dead: int = 0) -> ShardEntry:
        return ShardEntry("x", (), 0, 10, 10, 0, rows, dead=dead)

    limits = CompactionLimits()
    assert plan_step([shard(100)] * 7, limits) == []
    assert len(plan_step([shard(1_000_000), *[shard(100)] * 9], limits)) == 8
    assert plan_step([shard(100_000)] * 16, limits) == []
    assert len(plan_step([shard(20_000)] * 16, CompactionLimits(fan_in=2, max_rows=50_000))) == 2
    half_dead = shard(100_000, dead=5)
    assert plan_step([shard(100_000), half_dead], limits) == [half_dead]
    assert plan_step([shard(100_000), half_dead], CompactionLimits(max_rows=10)) == []
    with pytest.raises(InvalidOptionError, match="fan_in is 1, wanted 2"):
        CompactionLimits(fan_in=1)
    with pytest.raises(InvalidOptionError, match="max_rows is 0"):
        CompactionLimits(max_rows=0)
