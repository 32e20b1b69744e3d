"""The tables of `kb.sqlite`, as SQLAlchemy Core sees them; `migrations/` is what creates them.

Every row of every table carries `checksum` (see `storage/checksum.py`): SQLite notices damaged structure, not
a changed letter. Text columns that hold JSON are plain TEXT so that the checksum covers the stored bytes.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    REAL,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.types import UserDefinedType

__all__ = [
    "APPLICATION_ID",
    "FTS_TABLE",
    "OPERATIONS",
    "REVISIONS",
    "VIEWS",
    "aliases",
    "documents",
    "feedback",
    "fields",
    "generations",
    "links",
    "metadata",
    "passages",
    "segments",
    "settings",
]

APPLICATION_ID = 0x4B42454E
"""`PRAGMA application_id` of a kb.sqlite, the letters KBEN: `file kb.sqlite` shows it."""

FTS_TABLE = "passages_fts"
"""The FTS5 table: title and text of each live passage, rowid = passage_id, no copy of the text."""

VIEWS = ("live_documents", "live_passages", "live_aliases", "tombstones", "history")
"""Views for people: `sqlite-utils rows kb.sqlite live_documents`, Datasette, `storage.inspect`."""

REVISIONS = ("0001", "0002", "0003", "0004", "0005")
"""Every migration, oldest first; the last one is what this kbengine writes. Readers need no alembic to compare, and
answer from all of them: what a later one brought is then simply not there."""

OPERATIONS = (
    "create",
    "add",
    "delete",
    "merge",
    "compact",
    "repair",
    "build",
    "setting",
    "alias",
    "reindex",
    "feedback",
)
"""What a generation can be."""

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}

metadata = MetaData(naming_convention=NAMING)


class AnyValue(UserDefinedType[Any]):
    """SQLite's ANY: a column of a strict table that holds texts and numbers, each as it was given."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Return the name of the type in SQL."""
        return "ANY"


settings = Table(
    "settings",
    metadata,
    Column("key", Text, primary_key=True, nullable=False),
    Column("value", Text, nullable=False),
    Column("checksum", Integer, nullable=False),
    sqlite_strict=True,
)

generations = Table(
    "generations",
    metadata,
    Column("generation", Integer, primary_key=True),
    Column("op_id", Text, unique=True),
    Column("operation", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("documents_added", Integer, nullable=False),
    Column("documents_replaced", Integer, nullable=False),
    Column("documents_deleted", Integer, nullable=False),
    # The ids the next commit will allot. Kept here, not in sqlite_sequence, because this row has a checksum:
    # an id is never given twice, even after the newest documents were deleted and purged.
    Column("next_document_id", Integer, nullable=False),
    Column("next_passage_id", Integer, nullable=False),
    Column("next_token_id", Integer, nullable=False),
    Column("note", Text),
    Column("checksum", Integer, nullable=False),
    sqlite_autoincrement=True,
    sqlite_strict=True,
)

documents = Table(
    "documents",
    metadata,
    Column("document_id", Integer, primary_key=True),
    Column("doc_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("url", Text),
    Column("meta", Text, nullable=False),
    Column("passage_count", Integer, nullable=False),
    Column("born_generation", Integer, ForeignKey("generations.generation"), nullable=False),
    Column("dead_generation", Integer, ForeignKey("generations.generation")),
    Column("checksum", Integer, nullable=False),
    CheckConstraint("passage_count >= 0", name="passage_count"),
    sqlite_autoincrement=True,
    sqlite_strict=True,
)
Index(
    "ix_documents_live_doc_id",
    documents.c.doc_id,
    unique=True,
    sqlite_where=text("dead_generation IS NULL"),
)
Index(
    "ix_documents_dead_generation",
    documents.c.dead_generation,
    sqlite_where=text("dead_generation IS NOT NULL"),
)
Index(
    "ix_documents_live_title",
    text("title COLLATE NOCASE"),
    _table=documents,
    sqlite_where=text("dead_generation IS NULL"),
)

passages = Table(
    "passages",
    metadata,
    Column("passage_id", Integer, primary_key=True),
    Column("document_id", Integer, ForeignKey("documents.document_id"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("section", Text),
    # Where the text begins in its paragraph: 0 unless a very long paragraph is stored in parts.
    Column("char_offset", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("first_token_id", Integer, nullable=False),
    Column("token_count", Integer, nullable=False),
    Column("encoded_token_count", Integer, nullable=False),
    Column("offsets", LargeBinary, nullable=False),
    Column("checksum", Integer, nullable=False),
    CheckConstraint("token_count >= 0", name="token_count"),
    sqlite_autoincrement=True,
    sqlite_strict=True,
)
Index("ix_passages_document_id", passages.c.document_id)
Index("ix_passages_first_token_id", passages.c.first_token_id)

segments = Table(
    "segments",
    metadata,
    Column("segment_id", Integer, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("sha256", Text, nullable=False),
    Column("n_bytes", Integer, nullable=False),
    Column("n_rows", Integer, nullable=False),
    Column("n_passages", Integer, nullable=False),
    # Half-open id ranges. Passage ids, unlike token ids, are never an empty range, so they order the segments.
    Column("first_passage_id", Integer, nullable=False),
    Column("end_passage_id", Integer, nullable=False),
    Column("first_token_id", Integer, nullable=False),
    Column("end_token_id", Integer, nullable=False),
    Column("born_generation", Integer, ForeignKey("generations.generation"), nullable=False),
    Column("dead_generation", Integer, ForeignKey("generations.generation")),
    Column("checksum", Integer, nullable=False),
    sqlite_autoincrement=True,
    sqlite_strict=True,
)
Index(
    "ix_segments_live",
    segments.c.first_passage_id,
    sqlite_where=text("dead_generation IS NULL"),
)
Index("ix_segments_dead_generation", segments.c.dead_generation)

# Sorted by name: a look-up reads neighbouring rows. Only live documents have aliases and links, so neither table needs
# a generation: a delete takes the rows away in its own transaction.
aliases = Table(
    "aliases",
    metadata,
    Column("folded", Text, primary_key=True),
    Column("alias", Text, primary_key=True),
    Column("document_id", Integer, ForeignKey("documents.document_id"), primary_key=True),
    Column("source", Text, primary_key=True),
    # How often the source has the name for this document: links for "anchor", 0 where it does not say.
    Column("uses", Integer, nullable=False),
    Column("prior", REAL),
    Column("checksum", Integer, nullable=False),
    CheckConstraint("uses >= 0", name="uses"),
    CheckConstraint("prior > 0 AND prior <= 1", name="prior"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("ix_aliases_document_id", aliases.c.document_id)

# The links of each live document, as its corpus had them, whether their targets are there or not: what the counts of
# aliases from anchors are made of, again whenever a document at either end comes or goes.
links = Table(
    "links",
    metadata,
    Column("document_id", Integer, ForeignKey("documents.document_id"), primary_key=True),
    Column("anchor", Text, primary_key=True),
    Column("target_kind", Text, primary_key=True),
    Column("target", Text, primary_key=True),
    Column("n_links", Integer, nullable=False),
    Column("checksum", Integer, nullable=False),
    CheckConstraint("n_links > 0", name="n_links"),
    CheckConstraint("target_kind IN ('doc_id', 'title')", name="target_kind"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("ix_links_target", links.c.target, links.c.anchor)

# What documents are filtered by: one row for each value that `documents.meta` of a live document holds, derived from it
# (see `storage.field_rows`) and so without a checksum, like the full text. The key is the index: a condition reads the
# neighbouring rows of one name and type.
fields = Table(
    "fields",
    metadata,
    Column("name", Text, primary_key=True),
    Column("type", Text, primary_key=True),
    Column("value", AnyValue, primary_key=True),
    # No foreign key: without an index by document, forgetting one would read the whole table.
    Column("document_id", Integer, primary_key=True),
    CheckConstraint("type IN ('text', 'date', 'number', 'boolean')", name="type"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# What people say about answers. Documents are named by the user's ids, without a foreign key: feedback outlives them.
feedback = Table(
    "feedback",
    metadata,
    Column("feedback_id", Integer, primary_key=True),
    Column("task", Text, nullable=False),
    Column("input", Text, nullable=False),
    Column("answer", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("doc_id", Text),
    Column("paragraph", Integer),
    Column("at", Text, nullable=False),
    Column("checksum", Integer, nullable=False),
    CheckConstraint("verdict IN ('right', 'wrong')", name="verdict"),
    sqlite_autoincrement=True,
    sqlite_strict=True,
)
Index("ix_feedback_input", feedback.c.input, feedback.c.task)
