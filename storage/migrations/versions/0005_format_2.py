"""Segments with block checksums, in which all tokens may be stored: what an earlier kbengine cannot read.

No table changes. From now on new segments are of version 3; those that are there stay until they are merged.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.checksum import sealed

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Say so in the settings, where there are any yet."""
    row = sealed({"key": "format_version", "value": "2", "checksum": 0})
    op.execute(sa.text("UPDATE settings SET value = :value, checksum = :checksum WHERE key = :key").bindparams(**row))
