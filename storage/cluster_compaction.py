"""Making few large shards of many small ones, while the cluster is searched and changed."""

from __future__ import annotations

import os
import socket
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import select

from storage import cluster_schema as schema
from storage.cluster import Cluster
from storage.cluster_catalog import GenerationRow
from storage.cluster_changes import replace_shards
from storage.cluster_shards import NewShard
from storage.common_settings import CommonSettings
from storage.errors import InvalidOptionError
from storage.generation_manifest import ShardEntry
from storage.shard_files import fetch_files, put_shard, read_common
from storage.shard_merge import ShardPart, merge_shards

__all__ = ["compact_cluster", "plan_compaction"]

LEAST_MAX_ROWS = 200_000
"""Shards together may become as large as the largest there is, and this large in any case."""

_LEASE_S = 3_600.0


def plan_compaction(shards: Sequence[ShardEntry], *, max_rows: int, purge: bool = False) -> list[list[ShardEntry]]:
    """Return runs of neighbouring shards that are to become one each.

    Args:
        shards: by rising ordinal.
        max_rows: stored tokens that a new shard has at most; larger ones stay as they are.
        purge: shards with dead documents are made anew though they stay alone.
    """
    groups: list[list[ShardEntry]] = [[]]
    rows = 0
    for shard in shards:
        if groups[-1] and rows + shard.rows > max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(shard)
        rows += shard.rows
    return [group for group in groups if len(group) > 1 or (purge and group and group[0].dead)]


def compact_cluster(
    cluster: Cluster, *, created_at: str, kbengine_version: str, max_rows: int | None = None, purge: bool = False
) -> list[GenerationRow]:
    """Put neighbouring small shards together, without dead documents; return the generations that this made.

    Args:
        cluster: Which; searched and changed meanwhile.
        created_at: When new shards say that they were made.
        kbengine_version: For the manifests.
        max_rows: Stored tokens that a new shard has at most; None: as many as the largest shard has, so that what was
            built for several machines stays for several.
        purge: Shards with dead documents are made anew though they stay alone.

    Raises:
        InvalidOptionError: `max_rows` is not positive.
        LockedError: Another machine does this now.
        CorruptError: A shard is missing or damaged.
    """
    if max_rows is not None and max_rows < 1:
        raise InvalidOptionError(f"max_rows is {max_rows}; wanted at least 1")
    manifest = cluster.manifest()
    largest = max((shard.rows for shard in manifest.shards), default=0)
    groups = plan_compaction(manifest.shards, max_rows=max_rows or max(largest, LEAST_MAX_ROWS), purge=purge)
    if not groups:
        return []
    common = read_common(cluster.store, manifest.common)
    made: list[GenerationRow] = []
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    with cluster.catalog.lease("compaction", holder=holder, duration_s=_LEASE_S):
        for group in groups:
            new = _merged(cluster, group, common, created_at)
            row = replace_shards(cluster, [shard.name for shard in group], new, kbengine_version=kbengine_version)
            if row is not None:
                made.append(row)
    return made


def _merged(cluster: Cluster, group: Sequence[ShardEntry], common: CommonSettings, created_at: str) -> list[NewShard]:
    with tempfile.TemporaryDirectory(prefix="kbengine-compaction-") as scratch:
        parts: list[ShardPart] = []
        for number, shard in enumerate(group):
            folder = Path(scratch) / str(number)
            folder.mkdir()
            fetch_files(cluster.store, shard.files, folder)
            # A document's id is its ordinal and one.
            parts.append(ShardPart(folder, [int(each) + 1 for each in cluster.tombstones(shard)]))
        target = Path(scratch) / "merged"
        name = uuid.uuid4().hex
        merged = merge_shards(target, parts, common, name=name, created_at=created_at)
        entry = put_shard(cluster.store, target, name, merged)
    return [NewShard(entry, _documents(cluster, group))]


def _documents(cluster: Cluster, group: Sequence[ShardEntry]) -> tuple[tuple[str, int], ...]:
    """Return id and ordinal of the documents of the new shard, those that died meanwhile included."""
    table = schema.documents
    dead = {int(ordinal) for shard in group for ordinal in cluster.tombstones(shard)}
    names = [shard.name for shard in group]
    with cluster.catalog.database.reading() as connection:
        statement = select(table.c.doc_id, table.c.ordinal).where(table.c.shard.in_(names)).order_by(table.c.ordinal)
        rows = [(doc_id, ordinal) for doc_id, ordinal in connection.execute(statement) if ordinal not in dead]
    return tuple(rows)
