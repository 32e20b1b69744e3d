"""Going on without commits that a damaged log lost, when somebody says so; the log is kept for a closer look."""

from __future__ import annotations

from pathlib import Path

from storage.acknowledged import read_acknowledged
from storage.catalog import newest_generation_number
from storage.database import database_path, wal_path
from storage.durable import copy_durably
from storage.errors import CorruptError
from storage.lock import WriterLock
from storage.opening import check_log
from storage.session import WriteSession

__all__ = ["accept_loss"]


def accept_loss(path: str | Path, *, lock_timeout_s: float = 10.0) -> list[str]:
    """Let the newest commit that can be read be the newest; return a sentence about it, none when nothing was lost.

    The damaged log stays beside the database, as `kb.sqlite-wal.damaged-N`, N the commit up to which there were some.
    """
    directory = Path(path)
    database_path(directory)
    with WriterLock(directory, timeout_s=lock_timeout_s):
        try:
            check_log(directory)
        except CorruptError:
            acknowledged = read_acknowledged(directory)
        else:
            return []
        log = wal_path(directory)
        kept = log.with_name(f"{log.name}.damaged-{acknowledged}")
        if log.exists() and log.stat().st_size and not kept.exists():
            copy_durably(log, kept)
        session = WriteSession(directory)
        try:
            with session.reading() as connection:
                generation = newest_generation_number(connection)
            # Noted first: killed after it, the next call finds a note that is too old at worst, and a log to fold in.
            session.acknowledged.forget(generation)
            session.run_outside_transaction("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            session.close()
    return [f"went on from commit {generation} without those up to {acknowledged}; the damaged log is {kept.name}"]
