"""The first schema: settings, generations, documents, passages, segments, full text, views.

Written out in full, not taken from `storage.schema`, so that it stays what it was when released.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_STATEMENTS = (
    # contentless: the text is in `passages` once; contentless_delete lets a row go by its rowid alone.
    """CREATE VIRTUAL TABLE passages_fts USING fts5(
        title, text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')""",
    """CREATE VIEW live_documents AS
        SELECT document_id, doc_id, title, url, meta, passage_count, born_generation
        FROM documents WHERE dead_generation IS NULL""",
    """CREATE VIEW live_passages AS
        SELECT p.passage_id, d.doc_id, d.title, p.ordinal, p.text, p.token_count, p.encoded_token_count,
               p.document_id, p.first_token_id
        FROM passages AS p JOIN documents AS d USING (document_id) WHERE d.dead_generation IS NULL""",
    """CREATE VIEW tombstones AS
        SELECT d.document_id, d.doc_id, d.title, d.passage_count, d.born_generation, d.dead_generation,
               g.at AS dead_at, g.operation
        FROM documents AS d JOIN generations AS g ON g.generation = d.dead_generation""",
    """CREATE VIEW history AS
        SELECT generation, at, operation, documents_added, documents_replaced, documents_deleted, op_id, note
        FROM generations ORDER BY generation DESC""",
)


def upgrade() -> None:
    """Create the tables, indexes, full-text table and views."""
    op.create_table(
        "settings",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_settings"),
        sqlite_strict=True,
    )
    op.create_table(
        "generations",
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("op_id", sa.Text(), nullable=True),
        sa.Column("operation", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("documents_added", sa.Integer(), nullable=False),
        sa.Column("documents_replaced", sa.Integer(), nullable=False),
        sa.Column("documents_deleted", sa.Integer(), nullable=False),
        sa.Column("next_document_id", sa.Integer(), nullable=False),
        sa.Column("next_passage_id", sa.Integer(), nullable=False),
        sa.Column("next_token_id", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("generation", name="pk_generations"),
        sa.UniqueConstraint("op_id", name="uq_generations_op_id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "documents",
        sa.Column("document_id", sa.Integer(), nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("meta", sa.Text(), nullable=False),
        sa.Column("passage_count", sa.Integer(), nullable=False),
        sa.Column("born_generation", sa.Integer(), nullable=False),
        sa.Column("dead_generation", sa.Integer(), nullable=True),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.CheckConstraint("passage_count >= 0", name=op.f("ck_documents_passage_count")),
        sa.ForeignKeyConstraint(["born_generation"], ["generations.generation"], name="fk_documents_born_generation"),
        sa.ForeignKeyConstraint(["dead_generation"], ["generations.generation"], name="fk_documents_dead_generation"),
        sa.PrimaryKeyConstraint("document_id", name="pk_documents"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index(
        "ix_documents_live_doc_id",
        "documents",
        ["doc_id"],
        unique=True,
        sqlite_where=sa.text("dead_generation IS NULL"),
    )
    op.create_index(
        "ix_documents_dead_generation",
        "documents",
        ["dead_generation"],
        sqlite_where=sa.text("dead_generation IS NOT NULL"),
    )
    op.create_index(
        "ix_documents_live_title",
        "documents",
        [sa.text("title COLLATE NOCASE")],
        sqlite_where=sa.text("dead_generation IS NULL"),
    )
    op.create_table(
        "passages",
        sa.Column("passage_id", sa.Integer(), nullable=False),
        sa.Column("document_id", sa.Integer(), nullable=False),
        sa.Column("ordinal", sa.Integer(), nullable=False),
        sa.Column("section", sa.Text()),
        sa.Column("char_offset", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("first_token_id", sa.Integer(), nullable=False),
        sa.Column("token_count", sa.Integer(), nullable=False),
        sa.Column("encoded_token_count", sa.Integer(), nullable=False),
        sa.Column("offsets", sa.LargeBinary(), nullable=False),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.CheckConstraint("token_count >= 0", name=op.f("ck_passages_token_count")),
        sa.ForeignKeyConstraint(["document_id"], ["documents.document_id"], name="fk_passages_document_id"),
        sa.PrimaryKeyConstraint("passage_id", name="pk_passages"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index("ix_passages_document_id", "passages", ["document_id"])
    op.create_index("ix_passages_first_token_id", "passages", ["first_token_id"])
    op.create_table(
        "segments",
        sa.Column("segment_id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("n_bytes", sa.Integer(), nullable=False),
        sa.Column("n_rows", sa.Integer(), nullable=False),
        sa.Column("n_passages", sa.Integer(), nullable=False),
        sa.Column("first_passage_id", sa.Integer(), nullable=False),
        sa.Column("end_passage_id", sa.Integer(), nullable=False),
        sa.Column("first_token_id", sa.Integer(), nullable=False),
        sa.Column("end_token_id", sa.Integer(), nullable=False),
        sa.Column("born_generation", sa.Integer(), nullable=False),
        sa.Column("dead_generation", sa.Integer(), nullable=True),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["born_generation"], ["generations.generation"], name="fk_segments_born_generation"),
        sa.ForeignKeyConstraint(["dead_generation"], ["generations.generation"], name="fk_segments_dead_generation"),
        sa.PrimaryKeyConstraint("segment_id", name="pk_segments"),
        sa.UniqueConstraint("name", name="uq_segments_name"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index(
        "ix_segments_live",
        "segments",
        ["first_passage_id"],
        sqlite_where=sa.text("dead_generation IS NULL"),
    )
    op.create_index("ix_segments_dead_generation", "segments", ["dead_generation"])
    for statement in _STATEMENTS:
        op.execute(statement)
