"""Shards in the catalog: entered, given tombstones, and forgotten when nothing in them is alive."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from storage import cluster_schema as schema
from storage.catalog import chunked
from storage.cluster import Cluster
from storage.cluster_catalog import Placed, dead_ordinals
from storage.errors import CorruptError
from storage.generation_manifest import ShardEntry

__all__ = ["NewShard", "buried", "check_uploaded", "enter_shard", "forget_shards", "retire", "with_tombstones"]


@dataclass(frozen=True)
class NewShard:
    """A shard whose files are uploaded, with its documents by id and ordinal."""

    entry: ShardEntry
    documents: tuple[tuple[str, int], ...]


def buried(
    connection: Connection, cluster: Cluster, shards: Sequence[ShardEntry], touched: set[str], generation: int
) -> list[ShardEntry]:
    """Return the shards, those of these names with new tombstones; without a live document one is left out."""
    kept: list[ShardEntry] = []
    for entry in shards:
        seen = with_tombstones(connection, cluster, entry) if entry.name in touched else entry
        if seen.dead < seen.documents:
            kept.append(seen)
        else:
            forget_shards(connection, [entry.name], generation)
    return kept


def with_tombstones(connection: Connection, cluster: Cluster, entry: ShardEntry) -> ShardEntry:
    """Return the shard's entry with its dead documents as the catalog knows them now.

    Raises:
        CorruptError: It has forgotten some that were dead before.
    """
    ordinals = dead_ordinals(connection, entry.name)
    forgotten = set(cluster.tombstones(entry).tolist()) - set(ordinals)
    if forgotten:
        raise CorruptError(
            f"the catalog {cluster.catalog.place} no longer knows that {len(forgotten):,} documents of shard "
            f"{entry.name} were deleted; nothing was changed: move it away and make it anew from the objects with "
            "'kbengine cluster restore'"
        )
    return dataclasses.replace(entry, dead=len(ordinals), tombstones=cluster.put_tombstones(entry.name, ordinals))


def enter_shard(connection: Connection, entry: ShardEntry, generation: int) -> None:
    """Enter a shard as live, in the caller's transaction."""
    connection.execute(
        insert(schema.shards).values(
            name=entry.name,
            first_ordinal=entry.first_ordinal,
            end_ordinal=entry.end_ordinal,
            documents=entry.documents,
            n_bytes=entry.n_bytes,
            born_generation=generation,
            dead_generation=None,
        )
    )


def forget_shards(connection: Connection, names: Sequence[str], generation: int) -> None:
    """Note that shards are no longer part of the cluster; what is left of their documents is dead and forgotten."""
    documents, aliases, shards = schema.documents, schema.aliases, schema.shards
    for chunk in chunked(names, 500):
        of_these = select(documents.c.ordinal).where(documents.c.shard.in_(chunk))
        connection.execute(delete(aliases).where(aliases.c.ordinal.in_(of_these)))
        connection.execute(delete(documents).where(documents.c.shard.in_(chunk)))
        connection.execute(update(shards).where(shards.c.name.in_(chunk)).values(dead_generation=generation))


def check_uploaded(cluster: Cluster, entry: ShardEntry) -> None:
    """Raise when a file of a new shard is not there: pruning, which takes the same lock, may have removed it."""
    for file in entry.files:
        if not cluster.store.has(file.sha256, file.n_bytes):
            raise cluster.store.missing(file)


def retire(connection: Connection, gone: Sequence[Placed], generation: int) -> None:
    """Mark documents as dead, in the caller's transaction."""
    table = schema.documents
    for chunk in chunked([each.ordinal for each in gone], 500):
        connection.execute(update(table).where(table.c.ordinal.in_(chunk)).values(dead_generation=generation))
