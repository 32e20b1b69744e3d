"""How alembic runs here: on the caller's connection, inside the caller's transaction."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from storage.cluster_schema import metadata


def run() -> None:
    """Bring the schema of the connection in `config.attributes` to the revision asked for."""
    connection: Connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        transactional_ddl=True,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
