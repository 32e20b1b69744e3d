"""How shards are to be spread over the machines that search."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "arrangements",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("searchers", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_arrangements"),
    )
