"""Copying a generation of a cluster to another place, checking one, and making a catalog from objects alone."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import insert, update

from storage import cluster_schema as schema
from storage.cluster import Cluster
from storage.cluster_acknowledged import (
    forget_acknowledged,
    is_acknowledged,
    newest_acknowledged,
    note_acknowledged,
)
from storage.cluster_catalog import GenerationRow, insert_documents, locked_cluster
from storage.cluster_names import enter_aliases
from storage.cluster_shards import enter_shard
from storage.errors import CorruptError, InvalidOptionError, StateError
from storage.generation_manifest import (
    MANIFEST_FOLDER,
    GenerationManifest,
    ManifestRef,
    ShardEntry,
    manifest_name,
    ref_of,
)
from storage.object_places import open_objects
from storage.object_store import ObjectStore
from storage.shard_database import reading_shard

__all__ = ["CopyReport", "Stage", "copy_generation", "documents_of", "restore_catalog", "verify_generation"]

Stage = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CopyReport:
    """What a copy has: its generation, objects and bytes, and how many bytes were new at the place."""

    generation: int
    objects: int
    n_bytes: int
    new_bytes: int


def copy_generation(
    cluster: Cluster, target: str, *, generation: int | None = None, stage: Stage | None = None
) -> CopyReport:
    """Copy a generation's objects, each checked, to another address; return what that was.

    Args:
        cluster: Which.
        target: Address of the copy; what earlier copies have there is not copied again.
        generation: Which generation; None: the newest.
        stage: Shown the progress.

    Raises:
        CorruptError: An object is missing or damaged; the copy then has no manifest of this generation.
    """
    manifest = cluster.manifest(generation)
    place = open_objects(target)
    record = json.dumps({"cluster": cluster.name, "format": 1}).encode()
    place.write_record("cluster.json", record)
    theirs = place.read_record("cluster.json") or b""
    if json.loads(theirs or b"{}").get("cluster") != cluster.name:
        raise InvalidOptionError(f"{place.place} holds another cluster; give another address")
    objects = manifest.objects()
    new_bytes = 0
    for number, file in enumerate(objects.values(), start=1):
        if not place.has(file.sha256, file.n_bytes):
            with tempfile.TemporaryDirectory(prefix="kbengine-copy-") as folder:
                path = Path(folder) / "object"
                cluster.store.fetch(file, path)
                place.put_file(path, file.path)
            new_bytes += file.n_bytes
        if stage is not None:
            stage("copying objects", number, len(objects))
    place.write_record(manifest_name(manifest.ref()), manifest.to_bytes())
    note_acknowledged(place, manifest.ref())
    return CopyReport(manifest.generation, len(objects), sum(f.n_bytes for f in objects.values()), new_bytes)


def verify_generation(manifest: GenerationManifest, store: ObjectStore, *, stage: Stage | None = None) -> list[str]:
    """Read all objects of a generation and return what is wrong, a sentence for each that is missing or damaged."""
    problems: list[str] = []
    objects = manifest.objects()
    for number, file in enumerate(objects.values(), start=1):
        try:
            store.check(file)
        except CorruptError as error:
            problems.append(error.message)
        if stage is not None:
            stage("checking objects", number, len(objects))
    return problems


def restore_catalog(cluster: Cluster, *, generation: int | None = None, stage: Stage | None = None) -> GenerationRow:
    """Enter a generation whose objects are there into an empty catalog; return it. Later changes go on from it.

    For a copy, and for a catalog that was lost.

    Args:
        cluster: Its objects, and the catalog that is to be made.
        generation: Which generation; None: the newest that was acknowledged. Later ones are then forgotten.
        stage: Shown the progress.

    Raises:
        InvalidOptionError: There is no manifest of this generation.
        StateError: The catalog has a generation already.
        CorruptError: The manifest, or a shard, is missing or damaged.
    """
    refs = [ref_of(name) for name in cluster.store.record_names(MANIFEST_FOLDER)]
    there = [ref for ref in refs if ref is not None and generation in (None, ref.generation)]
    if not there:
        wanted = "no generation" if generation is None else f"no generation {generation}"
        raise InvalidOptionError(f"{cluster.store.place} has {wanted}; give the address of a copy that has one")
    manifest = cluster.manifest_of(_chosen(cluster.store, there, generation))
    ends = [shard.end_ordinal for shard in manifest.shards]
    cluster.catalog.create(cluster=cluster.name, root=cluster.store.place, next_ordinal=_past(max(ends, default=0)))
    ref = manifest.ref()
    row = GenerationRow(
        ref.generation, f"restored-{ref.sha256}", "restore", ref.sha256, manifest.created_at, 0, 0, 0, 0
    )
    documents: dict[str, list[tuple[str, int]]] = {}
    for number, shard in enumerate(manifest.shards, start=1):
        documents[shard.name] = documents_of(cluster, shard)
        if stage is not None:
            stage("reading shards", number, len(manifest.shards))
    with cluster.catalog.database.writing() as connection:
        if locked_cluster(connection, cluster.catalog.place).generation:
            raise StateError(f"the catalog {cluster.catalog.place} has generations already; give an empty database")
        for shard in manifest.shards:
            enter_shard(connection, shard, manifest.generation)
            dead = set(cluster.tombstones(shard).tolist())
            rows = documents[shard.name]
            insert_documents(connection, rows, shard=shard.name, generation=manifest.generation, dead=dead)
        enter_aliases(connection, cluster.aliases(manifest), manifest.generation)
        connection.execute(insert(schema.generations).values(**vars(row)))
        connection.execute(update(schema.clusters).values(generation=manifest.generation))
        forget_acknowledged(cluster.store, after=manifest.generation)
    note_acknowledged(cluster.store, ref)
    return row


def _chosen(store: ObjectStore, there: list[ManifestRef], generation: int | None) -> ManifestRef:
    """Return which manifest is to be restored: of several of one number the acknowledged one."""
    noted = newest_acknowledged(store) if generation is None else None
    if noted is not None:
        return noted
    return max(there, key=lambda ref: (ref.generation, is_acknowledged(store, ref)))


def _past(ordinal: int) -> int:
    """Return an ordinal well past those that were given: some may have been lost with the catalog."""
    return ordinal + (1 << 32)


def documents_of(cluster: Cluster, shard: ShardEntry) -> list[tuple[str, int]]:
    """Return id and ordinal of a shard's documents, dead ones included.

    Raises:
        CorruptError: Its database is missing or damaged.
    """
    with reading_shard(cluster.store, shard) as connection:
        statement = "SELECT doc_id, document_id - 1 FROM documents ORDER BY document_id"
        return [(doc_id, ordinal) for doc_id, ordinal in connection.exec_driver_sql(statement)]
