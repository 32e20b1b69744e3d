"""The schema that all migrations together give: they are run once a process, in memory, and what they made is kept."""

from __future__ import annotations

import functools

from pysqlite3 import dbapi2
from sqlalchemy import Connection, StaticPool, create_engine

from storage import schema
from storage.database import migrate

__all__ = ["create_schema", "defined_in", "newest_schema"]


@functools.cache
def _made_by_migrations() -> tuple[dict[str, str], tuple[str, ...]]:
    engine = create_engine(
        "sqlite+pysqlite://",
        module=dbapi2,
        creator=lambda: dbapi2.connect(":memory:", check_same_thread=False, isolation_level=None),
        poolclass=StaticPool,
    )
    try:
        with engine.begin() as connection:
            migrate(connection)
            statements = connection.exec_driver_sql(
                "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite@_%' ESCAPE '@' "
                f"AND name NOT LIKE '{schema.FTS_TABLE}@_%' ESCAPE '@' ORDER BY rowid"
            )
            return defined_in(connection), tuple(statements.scalars())
    finally:
        engine.dispose()


def newest_schema() -> dict[str, str]:
    """Return what the newest schema defines, as `defined_in` does of a database."""
    return dict(_made_by_migrations()[0])


def create_schema(connection: Connection) -> None:
    """Give an empty database the newest schema, in the caller's transaction: what `migrate` would, at a tenth of it."""
    for statement in _made_by_migrations()[1]:
        connection.exec_driver_sql(statement)
    connection.exec_driver_sql("INSERT INTO alembic_version VALUES (?)", (schema.REVISIONS[-1],))
    connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")


def defined_in(connection: Connection) -> dict[str, str]:
    """Return the definition of each table, index, view and trigger of a database, by its kind and name."""
    rows = connection.exec_driver_sql("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_master")
    return {f"{kind} {name}": f"{table}: {sql}" for kind, name, table, sql in rows}
