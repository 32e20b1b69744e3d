"""Generations of a cluster: dense, each whole, nothing acknowledged lost. PostgreSQL: integrations."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, select, text, update

from storage import cluster_schema as schema
from storage.alias_records import NewAlias
from storage.cluster import AliasOverlay, Cluster
from storage.cluster_changes import change_aliases, change_documents, replace_shards
from storage.cluster_lease import held_lease
from storage.cluster_names import RemovedAlias
from storage.errors import (
    CatalogUnavailableError,
    CorruptError,
    DuplicateDocumentError,
    FormatTooNewError,
    InvalidOptionError,
    LockedError,
    NotAKnowledgeBaseError,
    StateError,
    UnknownDocumentError,
)
from storage.generation_manifest import GenerationManifest, manifest_name
from tests.storage.cluster_world import make_cluster, make_shard
from tests.storage.small_world import make_document


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Ten documents in two shards."""
    made = make_cluster(f"file://{tmp_path}/cluster", tmp_path)
    yield made
    made.close()


def live(cluster: Cluster) -> dict[str, int]:
    """Ordinals of the live documents as the manifest tells them, by id: what a search would see."""
    manifest = cluster.manifest()
    database = cluster.catalog.database
    with database.reading() as connection:
        rows = connection.execute(text("SELECT doc_id, ordinal, shard FROM documents")).all()
    dead = {int(ordinal) for shard in manifest.shards for ordinal in cluster.tombstones(shard)}
    names = {shard.name for shard in manifest.shards}
    return {doc_id: ordinal for doc_id, ordinal, shard in rows if shard in names and ordinal not in dead}


def test_a_build_is_generation_one(cluster: Cluster) -> None:
    """Its manifest names everything, under the checksum of its own bytes."""
    manifest = cluster.manifest()
    assert (manifest.generation, manifest.documents, len(manifest.shards), manifest.parent) == (1, 10, 2, None)
    assert live(cluster) == {f"doc {n}": n for n in range(10)}
    for file in manifest.objects().values():
        cluster.store.check(file)
    again = GenerationManifest.from_bytes(manifest.to_bytes(), name="x", sha256=manifest.ref().sha256)
    assert again == manifest
    assert cluster.catalog.cluster().generation == cluster.catalog.newest_number() == 1


def test_documents_are_added_replaced_and_deleted(cluster: Cluster, tmp_path: Path) -> None:
    """Each is a generation; a document that moves from one shard to another is in exactly one of them."""
    first = cluster.catalog.reserve(2)
    documents = [make_document("doc 3", "kelp"), make_document("new", "ember")]
    made = change_documents(cluster, add=make_shard(cluster, tmp_path, documents, first), kbengine_version="1")
    assert (made.generation, made.documents_added, made.documents_replaced, made.documents_deleted) == (2, 1, 1, 0)
    manifest = cluster.manifest()
    assert [shard.dead for shard in manifest.shards] == [1, 0, 0] and manifest.documents == 11
    assert live(cluster) == {f"doc {n}": n for n in range(10)} | {"doc 3": first, "new": first + 1}
    made = change_documents(cluster, delete_ids=["doc 3", "doc 9"], kbengine_version="1")
    assert (made.generation, made.documents_deleted) == (3, 2)
    assert "doc 3" not in live(cluster) and cluster.manifest().documents == 9
    assert [row.generation for row in cluster.catalog.generations()] == [3, 2, 1]
    assert cluster.manifest(1).documents == 10  # earlier ones stay as they were


def test_a_shard_without_a_live_document_is_left_out(cluster: Cluster) -> None:
    """Searching it would be for nothing."""
    change_documents(cluster, delete_ids=[f"doc {n}" for n in range(5)], kbengine_version="1")
    assert [shard.first_ordinal for shard in cluster.manifest().shards] == [5]
    assert sorted(live(cluster)) == [f"doc {n}" for n in range(5, 10)]


def test_an_operation_takes_place_once(cluster: Cluster) -> None:
    """Repeated with its name, it tells what the first did."""
    one = change_documents(cluster, delete_ids=["doc 1"], op_id="mine", kbengine_version="1")
    again = change_documents(cluster, delete_ids=["doc 1"], op_id="mine", kbengine_version="1")
    assert again == one and cluster.catalog.newest_number() == 2


def test_operations_are_found_by_how_their_names_begin(cluster: Cluster) -> None:
    """Letter for letter: signs that databases take for patterns are signs like others."""
    for number, name in enumerate(("http:a_:1", "http:a_:2", "http:ab:3", "http:A_:4", "http:a")):
        change_documents(cluster, delete_ids=[f"doc {number}"], op_id=name, kbengine_version="1")
    assert cluster.catalog.op_ids("http:a_:") == ["http:a_:1", "http:a_:2"]
    assert cluster.catalog.op_ids("http:%") == []


def test_a_manifest_read_back_has_the_same_bytes(cluster: Cluster) -> None:
    """With shards that have tombstones and shards that have none, and without any."""
    change_documents(cluster, delete_ids=["doc 1"], kbengine_version="1")
    for manifest in (cluster.manifest(), replace(cluster.manifest(), shards=())):
        data, ref = manifest.to_bytes(), manifest.ref()
        assert GenerationManifest.from_bytes(data, name="it", sha256=ref.sha256).to_bytes() == data
        wanted = {"format": 1, **asdict(manifest)}
        assert data.decode() == json.dumps(wanted, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def test_what_cannot_be_done_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    """An unknown id, an id that is there, a shard that was not uploaded."""
    with pytest.raises(UnknownDocumentError, match=r"no live document 'gone' in .*; nothing was deleted"):
        change_documents(cluster, delete_ids=["doc 1", "gone"], kbengine_version="1")
    shard = make_shard(cluster, tmp_path, [make_document("doc 1", "kelp")], cluster.catalog.reserve(1))
    with pytest.raises(DuplicateDocumentError, match="'doc 1' already in"):
        change_documents(cluster, add=shard, replace=False, kbengine_version="1")
    with pytest.raises(InvalidOptionError, match="nothing is to be added or deleted"):
        change_documents(cluster, kbengine_version="1")
    file = shard.entry.files[0]
    cluster.store.remove(file.sha256)
    with pytest.raises(CorruptError, match=f"{file.sha256} .* is missing"):
        change_documents(cluster, add=shard, kbengine_version="1")
    assert cluster.catalog.newest_number() == 1 and len(live(cluster)) == 10


def test_names_are_given_taken_and_inherited(cluster: Cluster, tmp_path: Path) -> None:
    """They stand in the manifest, and a document that replaces another keeps those that people gave it."""
    given = change_aliases(cluster, add=[("doc 2", NewAlias("the second", prior=0.5))], kbengine_version="1")
    assert (given.generation, given.aliases_changed) == (2, 1)
    assert cluster.aliases(cluster.manifest()) == (AliasOverlay(2, "the second", "manual", 0, 0.5),)
    first = cluster.catalog.reserve(1)
    shard = make_shard(cluster, tmp_path, [make_document("doc 2", "kelp")], first)
    change_documents(cluster, add=shard, kbengine_version="1")
    assert cluster.aliases(cluster.manifest()) == (AliasOverlay(first, "the second", "manual", 0, 0.5),)
    change_aliases(cluster, remove=[("doc 2", RemovedAlias("the second", "manual"))], kbengine_version="1")
    assert cluster.aliases(cluster.manifest()) == (AliasOverlay(first, "the second", "manual", is_removed=True),)
    change_documents(cluster, delete_ids=["doc 2"], kbengine_version="1")
    assert cluster.aliases(cluster.manifest()) == ()
    with pytest.raises(UnknownDocumentError, match="so no alias was changed"):
        change_aliases(cluster, add=[("doc 2", NewAlias("x"))], kbengine_version="1")


def test_small_shards_become_one_while_documents_go(cluster: Cluster, tmp_path: Path) -> None:
    """What was deleted while the new shard was made stays deleted; a shard that is gone stops it."""
    documents = [make_document(f"doc {n}", f"amber delta {n // 5} {n % 5}") for n in range(10)]
    merged = make_shard(cluster, tmp_path / "again", documents, 0)
    old = [shard.name for shard in cluster.manifest().shards]
    merged = type(merged)(type(merged.entry)(**{**vars(merged.entry), "name": "f" * 32}), merged.documents)
    change_documents(cluster, delete_ids=["doc 7"], kbengine_version="1")
    made = replace_shards(cluster, old, [merged], kbengine_version="1")
    assert made is not None and made.generation == 3
    (shard,) = cluster.manifest().shards
    assert (shard.documents, shard.dead) == (10, 1) and len(live(cluster)) == 9 and "doc 7" not in live(cluster)
    assert replace_shards(cluster, old, [merged], kbengine_version="1") is None


def test_a_manifest_that_is_gone_or_damaged_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Nobody answers from what might be another generation."""
    ref = cluster.manifest().ref()
    path = tmp_path / "cluster" / manifest_name(ref)
    path.write_bytes(path.read_bytes().replace(b"doc", b"dog").replace(b"build", b"guild"))
    other = Cluster.open(f"file://{tmp_path}/cluster")
    with pytest.raises(CorruptError, match=f"has sha256 .*, expected {ref.sha256}"):
        other.manifest()
    path.unlink()
    with pytest.raises(CorruptError, match=r"generations/000000000001-.* is missing"):
        other.manifest()
    with pytest.raises(InvalidOptionError, match="has no generation 9"):
        other.manifest(9)
    other.close()


def test_a_place_without_a_cluster_is_told(tmp_path: Path) -> None:
    """No objects, no catalog, a catalog of a newer kbengine."""
    with pytest.raises(NotAKnowledgeBaseError, match="kbengine cluster build"):
        Cluster.open(f"file://{tmp_path}/nothing")
    made = Cluster.create(f"file://{tmp_path}/empty")
    with pytest.raises(NotAKnowledgeBaseError, match="holds no cluster"):
        made.catalog.cluster()
    with pytest.raises(InvalidOptionError, match="no catalog was named"):
        Cluster.open("memory://somewhere")
    with pytest.raises(InvalidOptionError, match=r"wanted postgresql\+psycopg"):
        Cluster.open(f"file://{tmp_path}/empty", "mysql://somewhere/db")
    cluster = make_cluster(f"file://{tmp_path}/cluster", tmp_path)
    engine = create_engine(f"sqlite:///{tmp_path}/cluster/catalog.sqlite")
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(FormatTooNewError, match="install a newer kbengine"):
        cluster.catalog.cluster()
    cluster.close()


def test_a_catalog_that_is_not_there_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Writes fail by name, and generations that are known are read on."""
    ref = cluster.manifest().ref()
    pytest.importorskip("psycopg")
    away = Cluster(cluster.store, type(cluster.catalog)("postgresql://nobody@127.0.0.1:9/none"), cluster.name)
    with pytest.raises(CatalogUnavailableError, match="does not answer"):
        change_documents(away, delete_ids=["doc 1"], kbengine_version="1")
    assert away.manifest_of(ref).documents == 10
    away.close()


def test_what_only_one_may_do_is_done_by_one(cluster: Cluster) -> None:
    """Until it is done, or its time is over."""
    catalog = cluster.catalog
    with held_lease(catalog, "compaction", holder="here"), pytest.raises(LockedError, match="is done by here"):
        catalog.renew("compaction", "there", duration_s=1)
    catalog.renew("compaction", "there", duration_s=-1)
    with held_lease(catalog, "compaction", holder="here") as lease:
        assert lease.is_held


def test_whoever_is_at_work_keeps_a_lease_and_whoever_was_killed_loses_it(cluster: Cluster) -> None:
    """It is renewed in the background; another's is noticed."""
    with held_lease(cluster.catalog, "compaction", holder="here", duration_s=0.3) as lease:
        first = _until(cluster)
        while _until(cluster) == first:
            time.sleep(0.01)
        _note_other(cluster, for_s=3_600)  # as one that believed us dead
        while lease.is_held:
            time.sleep(0.01)
    with pytest.raises(LockedError, match="is done by there"), held_lease(cluster.catalog, "compaction", holder="here"):
        pass
    _note_other(cluster, for_s=-1)  # as one that was killed
    with held_lease(cluster.catalog, "compaction", holder="here"):
        pass


def _until(cluster: Cluster) -> float:
    with cluster.catalog.database.reading() as connection:
        return float(connection.execute(select(schema.leases.c.until_s)).scalar_one())


def _note_other(cluster: Cluster, *, for_s: float) -> None:
    with cluster.catalog.database.writing() as connection:
        connection.execute(update(schema.leases).values(holder="there", until_s=time.time() + for_s))


def test_machines_are_noted(cluster: Cluster) -> None:
    """With what they tell of themselves; draining is said by a person and stays."""
    cluster.catalog.note_node("b", {"shards": 2})
    cluster.catalog.note_node("a", {"shards": 1})
    cluster.catalog.set_node_state("b", "draining")
    cluster.catalog.note_node("b", {"shards": 0})
    assert [(node.name, node.state, node.facts) for node in cluster.catalog.nodes()] == [
        ("a", "active", {"shards": 1}),
        ("b", "draining", {"shards": 0}),
    ]
    cluster.catalog.forget_node("a")
    with pytest.raises(InvalidOptionError, match="no machine 'a'"):
        cluster.catalog.set_node_state("a", "active")


def test_waiting_ends_with_a_new_generation(cluster: Cluster) -> None:
    """Or when the time is over."""
    assert cluster.catalog.wait_for_newer(1, timeout_s=0) == 1
    change_documents(cluster, delete_ids=["doc 1"], kbengine_version="1")
    assert cluster.catalog.wait_for_newer(1, timeout_s=10) == 2


def test_a_second_build_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """It would take the place of what is there."""
    with pytest.raises(StateError, match="holds generation 1 already"):
        make_cluster(f"file://{tmp_path}/cluster", tmp_path / "again", op_id="another")


def test_four_writers_killed_at_random_lose_nothing(tmp_path: Path) -> None:
    """Generations are dense, and each document that a writer said it had added is there."""
    kill_writers(f"file://{tmp_path}/cluster", None, tmp_path, kills=2)


def kill_writers(root: str, catalog: str | None, scratch: Path, *, kills: int) -> None:
    """Let four processes add and delete, kill them one after the other, and compare with what they said."""
    cluster = make_cluster(root, scratch, catalog)
    arguments = [root, catalog or "", str(scratch)]
    child = [sys.executable, "-m", "tests.storage.cluster_writer", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd()), "OMP_NUM_THREADS": "1"}

    def start(number: int) -> subprocess.Popen[bytes]:
        said = scratch / f"said-{number}"
        with said.open("ab") as output:
            return subprocess.Popen([*child, str(number)], stdout=output, env=environment)

    generator = random.Random(7)
    writers = {number: start(number) for number in range(4)}
    started = 4
    try:
        for _ in range(kills):
            before = cluster.catalog.newest_number()
            assert cluster.catalog.wait_for_newer(before, timeout_s=120) > before
            time.sleep(generator.random() * 0.2)
            victim = generator.choice(sorted(writers))
            writers[victim].send_signal(signal.SIGKILL)
            writers.pop(victim).wait()
            writers[started] = start(started)
            started += 1
        before = cluster.catalog.newest_number()
        assert cluster.catalog.wait_for_newer(before + 3, timeout_s=120) > before
    finally:
        for writer in writers.values():
            writer.kill()
            writer.wait()
    rows = cluster.catalog.generations()
    assert [row.generation for row in rows] == list(range(len(rows), 0, -1))
    present = live(cluster)
    said = [line.split() for number in range(started) for line in (scratch / f"said-{number}").read_text().splitlines()]
    assert len(said) > kills
    added = {doc_id for what, doc_id in said if what == "added"}
    deleted = {doc_id for what, doc_id in said if what == "deleted"}
    intended = {doc_id for what, doc_id in said if what == "deleting"}
    assert added - intended <= set(present) and not deleted & set(present)
    manifest = cluster.manifest()
    for file in manifest.objects().values():
        cluster.store.check(file)
    assert manifest.documents == len(present)
    cluster.close()
