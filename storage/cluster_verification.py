"""Comparing a cluster's catalog with the newest generation's objects: what searches see, and what changes go by."""

from __future__ import annotations

from sqlalchemy import Connection, select

from storage import cluster_schema as schema
from storage.cluster import Cluster
from storage.cluster_catalog import GenerationRow
from storage.cluster_copies import Stage, documents_of
from storage.cluster_names import overlay_of
from storage.generation_manifest import GenerationManifest, ShardEntry

__all__ = ["verify_catalog"]


def verify_catalog(cluster: Cluster, *, stage: Stage | None = None) -> list[str]:
    """Return where the catalog is damaged or says something else than the objects of its newest generation.

    Args:
        cluster: Which; it may be searched and changed meanwhile.
        stage: Shown the progress.

    Raises:
        CorruptError: An object that this needs is missing or damaged, or the catalog cannot be read at all.
    """
    with cluster.catalog.database.reading() as connection:
        problems = _integrity(connection) if cluster.catalog.database.is_sqlite else []
        table = schema.generations
        row = connection.execute(select(table).order_by(table.c.generation.desc()).limit(1)).mappings().first()
        if row is None:
            return problems
        newest = GenerationRow.read(row)
        manifest = cluster.manifest_of(newest.ref)
        problems += _cluster_row(connection, manifest)
        shards = schema.shards
        live = set(connection.execute(select(shards.c.name).where(shards.c.dead_generation.is_(None))).scalars())
        if live != {shard.name for shard in manifest.shards}:
            problems.append(f"its {len(live):,} live shards are not the {len(manifest.shards):,} of the manifest")
        if tuple(overlay_of(connection)) != cluster.aliases(manifest):
            problems.append("the names that documents were given or lost are others than those of the manifest")
        for number, shard in enumerate(manifest.shards, start=1):
            problems += _documents(connection, cluster, shard)
            if stage is not None:
                stage("comparing the catalog", number, len(manifest.shards))
    told = "make it anew from the objects with 'kbengine cluster restore'"
    return [f"the catalog {cluster.catalog.place}: {problem}; {told}" for problem in problems]


def _integrity(connection: Connection) -> list[str]:
    """Return what SQLite finds in its file: pages, the order of rows, indexes that differ from their tables."""
    rows = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
    return [str(row) for row in rows if row != "ok"]


def _cluster_row(connection: Connection, manifest: GenerationManifest) -> list[str]:
    row = connection.execute(select(schema.clusters)).mappings().one_or_none()
    if row is None or row["generation"] != manifest.generation or row["cluster"] != manifest.cluster:
        return [f"it does not say that it is of cluster {manifest.cluster}, at generation {manifest.generation}"]
    end = max((shard.end_ordinal for shard in manifest.shards), default=0)
    if not isinstance(row["next_ordinal"], int) or row["next_ordinal"] < end:
        return [f"it would give ordinal {row['next_ordinal']!r} next, wanted at least {end}"]
    return []


def _documents(connection: Connection, cluster: Cluster, shard: ShardEntry) -> list[str]:
    """Return a sentence where a shard's documents, dead ones included, are others than its files and tombstones say."""
    table = schema.documents
    statement = select(table.c.ordinal, table.c.doc_id, table.c.dead_generation).where(table.c.shard == shard.name)
    seen = {ordinal: (doc_id, dead is not None) for ordinal, doc_id, dead in connection.execute(statement)}
    dead = set(cluster.tombstones(shard).tolist())
    wanted = {ordinal: (doc_id, ordinal in dead) for doc_id, ordinal in documents_of(cluster, shard)}
    others = {ordinal for ordinal in seen.keys() | wanted.keys() if seen.get(ordinal) != wanted.get(ordinal)}
    if not others:
        return []
    return [f"{len(others):,} documents of shard {shard.name} are others than those of the shard"]
