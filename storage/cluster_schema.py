"""The tables of a cluster's catalog, as SQLAlchemy Core sees them; `cluster_migrations/` is what creates them.

The same on PostgreSQL and SQLite: integers of 64 bits, names compared exactly, partial indexes with their conditions on
both.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    MetaData,
    Table,
    Text,
    text,
)

from storage.schema import NAMING

__all__ = [
    "CATALOG_REVISIONS",
    "aliases",
    "arrangements",
    "clusters",
    "documents",
    "generations",
    "leases",
    "metadata",
    "nodes",
    "shards",
]

CATALOG_REVISIONS = ("0001", "0002")
"""Every migration, oldest first."""

metadata = MetaData(naming_convention=NAMING)

_LIVE = text("dead_generation IS NULL")
_DEAD = text("dead_generation IS NOT NULL")


def _where(condition: Any) -> dict[str, Any]:
    return {"postgresql_where": condition, "sqlite_where": condition}


# One row: which cluster this is, and what is given next. Whoever makes a generation locks it first.
clusters = Table(
    "clusters",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("cluster", Text, nullable=False),
    Column("root", Text, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("next_ordinal", BigInteger, nullable=False),
    Column("created_at", Text, nullable=False),
    CheckConstraint("id = 1", name="one"),
)

generations = Table(
    "generations",
    metadata,
    Column("generation", BigInteger, primary_key=True, autoincrement=False),
    Column("op_id", Text, nullable=False, unique=True),
    Column("operation", Text, nullable=False),
    Column("manifest", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("documents_added", BigInteger, nullable=False),
    Column("documents_replaced", BigInteger, nullable=False),
    Column("documents_deleted", BigInteger, nullable=False),
    Column("aliases_changed", BigInteger, nullable=False),
)

# For names of operations by how they begin, whatever the database's collation is.
Index("ix_generations_op_id", generations.c.op_id, postgresql_ops={"op_id": "text_pattern_ops"})

shards = Table(
    "shards",
    metadata,
    Column("name", Text, primary_key=True),
    Column("first_ordinal", BigInteger, nullable=False),
    Column("end_ordinal", BigInteger, nullable=False),
    Column("documents", BigInteger, nullable=False),
    Column("n_bytes", BigInteger, nullable=False),
    Column("born_generation", BigInteger, nullable=False),
    Column("dead_generation", BigInteger),
)
Index("ix_shards_live", shards.c.first_ordinal, **_where(_LIVE))

# Which shard has a document; one that was deleted or replaced stays until its shard is compacted, as its tombstone.
documents = Table(
    "documents",
    metadata,
    Column("ordinal", BigInteger, primary_key=True, autoincrement=False),
    Column("doc_id", Text, nullable=False),
    Column("shard", Text, ForeignKey("shards.name"), nullable=False),
    Column("born_generation", BigInteger, nullable=False),
    Column("dead_generation", BigInteger),
)
Index("ix_documents_live_doc_id", documents.c.doc_id, unique=True, **_where(_LIVE))
Index("ix_documents_tombstones", documents.c.shard, documents.c.ordinal, **_where(_DEAD))
Index("ix_documents_shard", documents.c.shard)

# Names that documents were given, or lost, since their shard was made.
aliases = Table(
    "aliases",
    metadata,
    Column("ordinal", BigInteger, ForeignKey("documents.ordinal"), primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("source", Text, primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("prior", Double),
    Column("is_removed", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
)

# Who does what only one may do at a time, until when (seconds since 1970).
leases = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until_s", Double, nullable=False),
)

# The machines that search: where they are, whether they take shards, what they hold.
nodes = Table(
    "nodes",
    metadata,
    Column("name", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("seen_s", Double, nullable=False),
    CheckConstraint("state IN ('active', 'draining')", name="state"),
)

# How shards are to be spread over the machines: each time that was asked for, the newest counts.
arrangements = Table(
    "arrangements",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("searchers", BigInteger),
    Column("at", Text, nullable=False),
)
