"""The values in documents' `meta`, one row each, so that searches can be filtered by them."""

from __future__ import annotations

from alembic import op

from storage.field_rows import insert_stored_fields

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_FIELDS = """CREATE TABLE fields (
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    value ANY NOT NULL,
    document_id INTEGER NOT NULL,
    CONSTRAINT pk_fields PRIMARY KEY (name, type, value, document_id),
    CONSTRAINT ck_fields_type CHECK (type IN ('text', 'date', 'number', 'boolean'))
) WITHOUT ROWID, STRICT"""


def upgrade() -> None:
    """Create the table and fill it from the documents that are stored."""
    op.execute(_FIELDS)
    insert_stored_fields(op.get_bind())
