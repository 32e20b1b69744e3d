"""Names that documents of a cluster were given, or lost, since their shards were made, in the catalog."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from storage import cluster_schema as schema
from storage.alias_records import OWN_SOURCES, AliasSource
from storage.cluster import AliasOverlay
from storage.cluster_catalog import Placed

__all__ = ["RemovedAlias", "enter_aliases", "inherit_names", "overlay_of"]


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
