"""Names that documents of a cluster were given, or lost, since their shards were made, in the catalog."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from storage import cluster_schema as schema
from storage.alias_records import OWN_SOURCES, AliasSource
from storage.alias_rows import rows_of_documents
from storage.cluster import AliasOverlay, Cluster
from storage.cluster_catalog import Placed
from storage.shard_database import reading_shard

__all__ = ["RemovedAlias", "enter_aliases", "inherit_names", "names_of", "overlay_of"]


@dataclass(frozen=True)
class RemovedAlias:
    """A name that a document is to lose, of one source or of all."""

    alias: str
    source: AliasSource | None = None


def inherit_names(connection: Connection, gone: Sequence[Placed], heirs: Mapping[str, int], generation: int) -> bool:
    """Let documents that replace others keep the names that people gave these; return whether any name changed."""
    table = schema.aliases
    changed = False
    for each in gone:
        rows = connection.execute(select(table).where(table.c.ordinal == each.ordinal)).mappings().all()
        if not rows:
            continue
        changed = True
        connection.execute(delete(table).where(table.c.ordinal == each.ordinal))
        heir = heirs.get(each.doc_id)
        kept = [row for row in rows if row["source"] not in OWN_SOURCES and not row["is_removed"]]
        if heir is not None and kept:
            connection.execute(insert(table), [{**row, "ordinal": heir, "generation": generation} for row in kept])
    return changed


def enter_aliases(connection: Connection, rows: Sequence[AliasOverlay], generation: int) -> None:
    """Enter names that documents were given or lost, in the caller's transaction."""
    table = schema.aliases
    for row in rows:
        key = (table.c.ordinal == row.ordinal, table.c.alias == row.alias, table.c.source == row.source)
        connection.execute(delete(table).where(*key))
        values = {**dataclasses.asdict(row), "is_removed": int(row.is_removed)}
        connection.execute(insert(table).values(**values, generation=generation))


def overlay_of(connection: Connection) -> list[AliasOverlay]:
    """Return the names that documents were given or lost since their shards were made, as the catalog has them."""
    table = schema.aliases
    rows = connection.execute(select(table).order_by(table.c.ordinal, table.c.alias, table.c.source)).mappings()
    return [
        AliasOverlay(row["ordinal"], row["alias"], row["source"], row["uses"], row["prior"], bool(row["is_removed"]))
        for row in rows
    ]


def names_of(cluster: Cluster, doc_ids: Sequence[str]) -> dict[str, set[tuple[str, str]]]:
    """Return the names of live documents, each with its source, by id; the databases of their shards are read.

    Raises:
        CorruptError: A shard is missing or damaged.
    """
    manifest = cluster.manifest()
    entries = {entry.name: entry for entry in manifest.shards}
    by_shard: dict[str, dict[int, str]] = {}
    for each in cluster.catalog.placed(doc_ids):
        by_shard.setdefault(each.shard, {})[each.ordinal] = each.doc_id
    found: dict[str, set[tuple[str, str]]] = {}
    for shard, documents in by_shard.items():
        found.update((doc_id, set()) for doc_id in documents.values())
        with reading_shard(cluster.store, entries[shard]) as connection:
            # A document's id is its ordinal and one.
            for row in rows_of_documents(connection, [ordinal + 1 for ordinal in documents]):
                found[documents[row["document_id"] - 1]].add((row["alias"], row["source"]))
    ordinals = {ordinal: doc_id for documents in by_shard.values() for ordinal, doc_id in documents.items()}
    for change in cluster.aliases(manifest):
        if change.ordinal in ordinals:
            names = found[ordinals[change.ordinal]]
            (names.discard if change.is_removed else names.add)((change.alias, change.source))
    return found
