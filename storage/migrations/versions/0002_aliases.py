"""Other names of documents, and the links that some of them are counted from.

Documents that were stored before brought their Wikidata aliases in `meta`; they get them as rows now.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.alias_rows import adopt_stored_names

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_LIVE_ALIASES = """CREATE VIEW live_aliases AS
    SELECT a.alias, d.doc_id, d.title, a.source, a.uses, a.prior, a.folded, a.document_id
    FROM aliases AS a JOIN documents AS d USING (document_id) WHERE d.dead_generation IS NULL"""


def upgrade() -> None:
    """Create the two tables and the view, and fill in the names that stored documents already have."""
    op.create_table(
        "aliases",
        sa.Column("folded", sa.Text(), nullable=False),
        sa.Column("alias", sa.Text(), nullable=False),
        sa.Column("document_id", sa.Integer(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("prior", sa.REAL(), nullable=True),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.CheckConstraint("uses >= 0", name=op.f("ck_aliases_uses")),
        sa.CheckConstraint("prior > 0 AND prior <= 1", name=op.f("ck_aliases_prior")),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_aliases_document_id"),
        sa.PrimaryKeyConstraint("folded", "alias", "document_id", "source", name="pk_aliases"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_aliases_document_id", "aliases", ["document_id"])
    op.create_table(
        "links",
        sa.Column("document_id", sa.Integer(), nullable=False),
        sa.Column("anchor", sa.Text(), nullable=False),
        sa.Column("target_kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("n_links", sa.Integer(), nullable=False),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.CheckConstraint("n_links > 0", name=op.f("ck_links_n_links")),
        sa.CheckConstraint("target_kind IN ('doc_id', 'title')", name=op.f("ck_links_target_kind")),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_links_document_id"),
        sa.PrimaryKeyConstraint("document_id", "anchor", "target_kind", "target", name="pk_links"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_links_target", "links", ["target", "anchor"])
    op.execute(_LIVE_ALIASES)
    adopt_stored_names(op.get_bind())
