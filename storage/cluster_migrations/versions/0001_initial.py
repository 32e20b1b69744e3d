"""Generations, shards, documents, names, leases and nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "clusters",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("root", sa.Text(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("next_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.Text(), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("ck_clusters_one")),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
    )
    op.create_table(
        "generations",
        sa.Column("generation", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("op_id", sa.Text(), nullable=False),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("manifest", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("documents_added", sa.BigInteger(), nullable=False),
        sa.Column("documents_replaced", sa.BigInteger(), nullable=False),
        sa.Column("documents_deleted", sa.BigInteger(), nullable=False),
        sa.Column("aliases_changed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("generation", name="pk_generations"),
        sa.UniqueConstraint("op_id", name="uq_generations_op_id"),
    )
    op.create_index("ix_generations_op_id", "generations", ["op_id"], postgresql_ops={"op_id": "text_pattern_ops"})
    op.create_table(
        "shards",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("end_ordinal", sa.BigInteger(), nullable=False),
        sa.Column("documents", sa.BigInteger(), nullable=False),
        sa.Column("n_bytes", sa.BigInteger(), nullable=False),
        sa.Column("born_generation", sa.BigInteger(), nullable=False),
        sa.Column("dead_generation", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_shards"),
    )
    live, dead = sa.text("dead_generation IS NULL"), sa.text("dead_generation IS NOT NULL")
    op.create_index("ix_shards_live", "shards", ["first_ordinal"], postgresql_where=live, sqlite_where=live)
    op.create_table(
        "documents",
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=False),
        sa.Column("shard", sa.Text(), nullable=False),
        sa.Column("born_generation", sa.BigInteger(), nullable=False),
        sa.Column("dead_generation", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["shard"], ["shards.name"], name="fk_documents_shard"),
        sa.PrimaryKeyConstraint("ordinal", name="pk_documents"),
    )
    op.create_index(
        "ix_documents_live_doc_id", "documents", ["doc_id"], unique=True, postgresql_where=live, sqlite_where=live
    )
    op.create_index(
        "ix_documents_tombstones", "documents", ["shard", "ordinal"], postgresql_where=dead, sqlite_where=dead
    )
    op.create_index("ix_documents_shard", "documents", ["shard"])
    op.create_table(
        "aliases",
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("uses", sa.BigInteger(), nullable=False),
        sa.Column("prior", sa.Double(), nullable=True),
        sa.Column("is_removed", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["ordinal"], ["documents.ordinal"], name="fk_aliases_ordinal"),
        sa.PrimaryKeyConstraint("ordinal", "alias", "source", name="pk_aliases"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until_s", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "nodes",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("seen_s", sa.Double(), nullable=False),
        sa.CheckConstraint("state IN ('active', 'draining')", name=op.f("ck_nodes_state")),
        sa.PrimaryKeyConstraint("name", name="pk_nodes"),
    )
