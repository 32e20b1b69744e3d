"""What a cluster's catalog has lost is noticed: generations, and that documents were deleted."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from storage.cluster import Cluster
from storage.cluster_acknowledged import acknowledged_generations
from storage.cluster_changes import change_documents
from storage.cluster_copies import copy_generation, restore_catalog
from storage.cluster_pruning import prune_cluster
from storage.errors import CorruptError, StateError
from storage.generation_draft import made_before
from storage.operating_system import using
from tests.storage.cluster_world import make_cluster
from tests.storage.failing_calls import FailingCalls
from tests.storage.power.cluster_steps import cluster_state


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Six documents in two shards."""
    made = make_cluster(f"file://{tmp_path}/cluster", tmp_path, per_shard=3)
    yield made
    made.close()


def delete(cluster: Cluster, doc_id: str, op_id: str | None = None) -> None:
    """Delete one document."""
    change_documents(cluster, delete_ids=[doc_id], op_id=op_id, kbengine_version="1")


def test_a_catalog_of_an_earlier_time_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Deleted documents would be found again: nothing is answered, changed or removed; the objects make it anew."""
    folder = tmp_path / "cluster"
    cluster.close()
    shutil.copy(folder / "catalog.sqlite", tmp_path / "earlier.sqlite")
    delete(cluster, "doc 1")
    cluster.close()
    shutil.copy(tmp_path / "earlier.sqlite", folder / "catalog.sqlite")
    again = Cluster.open(f"file://{folder}")
    for call in (again.manifest, lambda: delete(again, "doc 2"), lambda: prune_cluster(again, older_than_s=0)):
        with pytest.raises(CorruptError, match=r"is at generation 1, but generation 2 of .* was acknowledged"):
            call()
    again.close()
    for path in folder.glob("catalog.sqlite*"):
        path.unlink()
    assert restore_catalog(again).generation == 2
    assert "text doc 1" not in cluster_state(folder)
    again.close()


def test_of_two_manifests_of_a_number_the_acknowledged_one_is_restored(cluster: Cluster, tmp_path: Path) -> None:
    """The other is of a change that was killed before its transaction."""
    first = cluster.manifest()
    delete(cluster, "doc 1")
    (acknowledged,) = (row.manifest for row in cluster.catalog.generations(limit=1))
    orphans = {acknowledged}
    for number in itertools.count():
        if min(orphans) < acknowledged < max(orphans):
            break
        killed = dataclasses.replace(first, generation=2, operation=f"killed {number}")
        orphans.add(cluster.put_manifest(killed).sha256)
    assert len(cluster.store.record_names("generations")) == 1 + len(orphans)
    cluster.close()
    for path in (tmp_path / "cluster").glob("catalog.sqlite*"):
        path.unlink()
    assert restore_catalog(cluster).generation == 2
    assert "text doc 1" not in cluster_state(tmp_path / "cluster")


def test_who_goes_back_on_purpose_goes_on_from_there(cluster: Cluster, tmp_path: Path) -> None:
    """What was acknowledged later is forgotten."""
    delete(cluster, "doc 1")
    delete(cluster, "doc 2")
    cluster.close()
    for path in (tmp_path / "cluster").glob("catalog.sqlite*"):
        path.unlink()
    assert restore_catalog(cluster, generation=2).generation == 2
    assert acknowledged_generations(cluster.store) == [1, 2]
    delete(cluster, "doc 0")
    state = cluster_state(tmp_path / "cluster")
    assert "text doc 2" in state and "text doc 0" not in state


def test_a_change_that_cannot_be_noted_is_not_acknowledged(cluster: Cluster) -> None:
    """It is made; repeated with its name, it is noted."""
    full = FailingCalls(errno.ENOSPC, lambda call, path: call == "link" and "acknowledged" in str(path))
    with using(full), pytest.raises(StateError, match=r"generation 2 of .* was made, but not noted.*No space left"):
        delete(cluster, "doc 1", op_id="mine")
    assert acknowledged_generations(cluster.store) == [1]
    made = made_before(cluster, "mine")
    assert made is not None and made.generation == 2
    assert acknowledged_generations(cluster.store) == [1, 2]


def test_notes_go_with_the_generations_that_are_pruned_and_are_copied(cluster: Cluster, tmp_path: Path) -> None:
    """Those that are kept stay; a copy has the note of what it holds."""
    for number in range(3):
        delete(cluster, f"doc {number}")
    prune_cluster(cluster, older_than_s=0)
    assert acknowledged_generations(cluster.store) == [3, 4]
    copy_generation(cluster, f"file://{tmp_path}/copy")
    copy = Cluster.open(f"file://{tmp_path}/copy")
    assert restore_catalog(copy).generation == 4
    copy.close()


def test_a_catalog_that_forgot_a_deletion_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """The document would be found again after the next change of its shard."""
    delete(cluster, "doc 1")
    with cluster.catalog.database.writing() as connection:
        connection.execute(text("UPDATE documents SET dead_generation = NULL"))
    with pytest.raises(CorruptError, match="no longer knows that 1 documents of shard"):
        delete(cluster, "doc 2")
    assert "text doc 1" not in cluster_state(tmp_path / "cluster")
