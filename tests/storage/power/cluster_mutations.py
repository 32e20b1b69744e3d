"""Changes of the cluster's code that would lose what was acknowledged, and the checks that notice them."""

from __future__ import annotations

from pathlib import Path

from tests.storage.power.mutation import Mutation


def changes_of_a_cluster_survive_power_cuts(scratch: Path) -> None:
    """Objects, their folders, manifests and the catalog's transaction are on disk when a change is acknowledged."""
    from tests.storage.power import cluster_steps as steps
    from tests.storage.power import scenarios as s

    recording = s.record(scratch / "run", [steps.BUILD, steps.ADD])
    recording.read, recording.check = steps.cluster_beside, steps.check_cluster
    s.check_all(recording, scratch, s.Cuts(modes=("drop",), since=2))


def a_manifest_is_there_before_its_transaction(scratch: Path) -> None:
    """Whatever was written last, the newest generation can be read."""
    from tests.storage.power import cluster_steps as steps
    from tests.storage.power import scenarios as s

    recording = s.record(scratch / "run", [steps.BUILD, steps.DELETE])
    recording.read, recording.check = steps.cluster_beside, steps.check_cluster
    s.check_all(recording, scratch, s.Cuts(modes=("keep",), since=1, stride=8))


def deleted_documents_stay_deleted(scratch: Path) -> None:
    """Those of earlier generations, too, and through a compaction."""
    from storage.cluster_changes import change_documents
    from storage.cluster_compaction import compact_cluster
    from tests.storage.cluster_world import AT, make_cluster
    from tests.storage.power.cluster_steps import cluster_state

    cluster = make_cluster(f"file://{scratch}/kb", scratch, per_shard=3)
    for doc_id in ("doc 0", "doc 1"):
        change_documents(cluster, delete_ids=[doc_id], kbengine_version="1")
    assert sorted(cluster_state(scratch / "kb")) == [f"text doc {n}" for n in range(2, 6)]
    compact_cluster(cluster, created_at=AT, kbengine_version="1", purge=True)
    assert sorted(cluster_state(scratch / "kb")) == [f"text doc {n}" for n in range(2, 6)]
    cluster.close()


def what_dies_while_shards_are_merged_stays_dead(scratch: Path) -> None:
    """A document that was deleted after the new shard was made is dead in it."""
    from tests.storage import test_cluster_changes as tests
    from tests.storage.cluster_world import make_cluster

    tests.test_small_shards_become_one_while_documents_go(make_cluster(f"file://{scratch}/kb", scratch), scratch)


def a_change_whose_objects_are_gone_is_refused(scratch: Path) -> None:
    """Pruning may have removed them since they were uploaded."""
    from tests.storage import test_cluster_changes as tests
    from tests.storage.cluster_world import make_cluster

    tests.test_what_cannot_be_done_changes_nothing(make_cluster(f"file://{scratch}/kb", scratch), scratch)


def the_generation_before_is_whole_after_pruning(scratch: Path) -> None:
    """Searches may be reading it."""
    from storage.cluster_changes import change_documents
    from storage.cluster_compaction import compact_cluster
    from storage.cluster_copies import verify_generation
    from storage.cluster_pruning import prune_cluster
    from tests.storage.cluster_world import AT, make_cluster

    cluster = make_cluster(f"file://{scratch}/kb", scratch, per_shard=2)
    change_documents(cluster, delete_ids=["doc 0"], kbengine_version="1")
    compact_cluster(cluster, created_at=AT, kbengine_version="1", purge=True)
    prune_cluster(cluster, older_than_s=0)
    for generation in (2, 3):
        problems = verify_generation(cluster.manifest(generation), cluster.store)
        assert not problems, problems
    cluster.close()


def a_catalog_of_an_earlier_time_is_refused(scratch: Path) -> None:
    """It would answer with what was deleted."""
    from tests.storage import test_cluster_acknowledged as tests
    from tests.storage.cluster_world import make_cluster

    made = make_cluster(f"file://{scratch}/cluster", scratch, per_shard=3)
    tests.test_a_catalog_of_an_earlier_time_is_refused(made, scratch)


def the_acknowledged_manifest_is_restored(scratch: Path) -> None:
    """Not one of the same number whose change was killed."""
    from tests.storage import test_cluster_acknowledged as tests
    from tests.storage.cluster_world import make_cluster

    made = make_cluster(f"file://{scratch}/cluster", scratch, per_shard=3)
    tests.test_of_two_manifests_of_a_number_the_acknowledged_one_is_restored(made, scratch)


def damaged_objects_are_no_answer(scratch: Path) -> None:
    """A changed bit is told, with what was expected."""
    from tests.storage import test_object_store as tests

    tests.test_a_damaged_object_is_refused_and_made_again(scratch)


CLUSTER_CHECKS = (
    changes_of_a_cluster_survive_power_cuts,
    a_manifest_is_there_before_its_transaction,
    deleted_documents_stay_deleted,
    the_generation_before_is_whole_after_pruning,
)
"""Those that pass for the code as it is; the others are default tests of their own."""

CLUSTER_MUTATIONS = (
    Mutation(
        "no sync of a cluster's objects",
        changes_of_a_cluster_survive_power_cuts,
        [("durable", "            calls.fsync(self._descriptor)\n", "            pass\n")],
    ),
    Mutation(
        "no sync of the names of new folders",
        changes_of_a_cluster_survive_power_cuts,
        [
            ("durable", "            fsync_directory(each.parent)\n", ""),
            ("object_folder", "            fsync_directory(below.parent)\n", ""),
        ],
    ),
    Mutation(
        "no sync of a record's name",
        changes_of_a_cluster_survive_power_cuts,
        [
            (
                "object_folder",
                "            remove_file(temporary)\n        fsync_directory(target.parent)\n",
                "            pass\n",
            )
        ],
    ),
    Mutation(
        "the catalog's log is not synced",
        changes_of_a_cluster_survive_power_cuts,
        [("cluster_database", "PRAGMA synchronous=FULL", "PRAGMA synchronous=OFF")],
    ),
    Mutation(
        "the catalog's transaction before the manifest",
        a_manifest_is_there_before_its_transaction,
        [
            ("generation_draft", "        ref = cluster.put_manifest(manifest)\n", "        ref = manifest.ref()\n"),
            (
                "generation_draft",
                "    return made\n\n\ndef _parent_ref",
                "    cluster.put_manifest(manifest)\n    return made\n\n\ndef _parent_ref",
            ),
        ],
    ),
    Mutation(
        "shards keep the tombstones that they had",
        deleted_documents_stay_deleted,
        [
            (
                "cluster_shards",
                "with_tombstones(connection, cluster, entry) if entry.name in touched else entry",
                "entry",
            )
        ],
    ),
    Mutation(
        "tombstones of earlier generations are forgotten",
        deleted_documents_stay_deleted,
        [
            (
                "cluster_shards",
                "    ordinals = dead_ordinals(connection, entry.name)\n",
                "    ordinals = dead_ordinals(connection, entry.name)[-1:]\n",
            ),
            ("cluster_shards", "    if forgotten:\n", "    if False:\n"),
        ],
    ),
    Mutation(
        "a compaction brings back what died meanwhile",
        what_dies_while_shards_are_merged_stays_dead,
        [
            (
                "cluster_changes",
                "with_tombstones(connection, cluster, shard.entry) for shard in new",
                "shard.entry for shard in new",
            )
        ],
    ),
    Mutation(
        "additions whose objects are gone are published",
        a_change_whose_objects_are_gone_is_refused,
        [("cluster_shards", "        if not cluster.store.has(file.sha256, file.n_bytes):\n", "        if False:\n")],
    ),
    Mutation(
        "pruning keeps the newest generation alone",
        the_generation_before_is_whole_after_pruning,
        [("cluster_pruning", "cluster.catalog.generations(limit=keep)", "cluster.catalog.generations(limit=1)")],
    ),
    Mutation(
        "generations are acknowledged and not noted",
        a_catalog_of_an_earlier_time_is_refused,
        [
            (
                "generation_draft",
                "kbengine_version)\n    note_acknowledged(cluster.store, made.ref)\n",
                "kbengine_version)\n",
            )
        ],
    ),
    Mutation(
        "nobody looks for lost generations",
        a_catalog_of_an_earlier_time_is_refused,
        [("cluster_acknowledged", "    if lost > generation:\n", "    if False:\n")],
    ),
    Mutation(
        "any manifest of a number is restored",
        the_acknowledged_manifest_is_restored,
        [
            ("cluster_copies", "    if noted is not None:\n", "    if False:\n"),
            ("cluster_copies", ", is_acknowledged(store, ref))", ", ref.sha256)"),
        ],
    ),
    Mutation(
        "objects are not compared when they are read",
        damaged_objects_are_no_answer,
        [
            (
                "object_folder",
                "                if (copy.n_bytes, copy.sha256) != (file.n_bytes, file.sha256):\n",
                "                if False:\n",
            )
        ],
    ),
)
