"""What people say about answers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "feedback",
        sa.Column("feedback_id", sa.Integer(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("doc_id", sa.Text(), nullable=True),
        sa.Column("paragraph", sa.Integer(), nullable=True),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("checksum", sa.Integer(), nullable=False),
        sa.CheckConstraint("verdict IN ('right', 'wrong')", name=op.f("ck_feedback_verdict")),
        sa.PrimaryKeyConstraint("feedback_id", name="pk_feedback"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index("ix_feedback_input", "feedback", ["input", "task"])
