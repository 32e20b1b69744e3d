"""What is looked at before SQLite opens `kb.sqlite`: it would drop what follows a damaged byte of its log silently."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

from storage.acknowledged import check_nothing_lost, read_acknowledged
from storage.catalog import newest_generation_number
from storage.database import pending_migration, reader_engine, translated, wal_path
from storage.wal import check_wal

__all__ = ["check_complete", "check_log"]


def check_log(directory: Path) -> None:
    """Raise CorruptError when a commit that was acknowledged is not to be found; nothing is changed."""
    check_wal(wal_path(directory))
    acknowledged = read_acknowledged(directory)
    engine = reader_engine(directory)
    try:
        with translated(directory), engine.connect() as connection:
            pending_migration(connection, name=str(directory))  # refuses what is none of ours, or too new
            check_complete(directory, connection, acknowledged)
    finally:
        engine.dispose()


def check_complete(directory: Path, connection: Connection, acknowledged: int) -> int:
    """Return the number of the newest commit; CorruptError when it is older than what was `acknowledged` before."""
    generation = newest_generation_number(connection)
    check_nothing_lost(directory, acknowledged=acknowledged, generation=generation)
    return generation
