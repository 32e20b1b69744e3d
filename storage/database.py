"""Connections to `kb.sqlite`: the settings that make a commit durable, migrations, errors in our words.

WAL with synchronous=FULL lost nothing in 460 simulated power cuts; SQLAlchemy's defaults did. SQLite before
3.51.3 can corrupt a WAL database when two connections write and checkpoint at the same instant, so the bundled
SQLite of pysqlite3 is used, never the one Python was linked with.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pysqlite3 import dbapi2
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from storage import schema
from storage.errors import (
    CorruptError,
    FormatTooNewError,
    KBError,
    LockedError,
    NotAKnowledgeBaseError,
    PlatformError,
    StateError,
    StorageFullError,
)
from storage.lock import LOCK_NAME, hold_off_writers
from storage.operating_system import operating_system

__all__ = [
    "DATABASE_NAME",
    "MINIMUM_SQLITE",
    "check_file_system",
    "check_sqlite_version",
    "database_path",
    "migrate",
    "pending_migration",
    "raw_connection",
    "reader_engine",
    "run_in_autocommit",
    "translated",
    "wal_path",
    "writer_engine",
]

DATABASE_NAME = "kb.sqlite"
MINIMUM_SQLITE = (3, 51, 3)
_BUSY_TIMEOUT_S = 10.0
_JOURNAL_LIMIT_BYTES = 64 << 20
_ROOM_BYTES = 1 << 20

_NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "ncpfs", "sshfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.gcsfuse", "fuse.cephfs", "fuse.davfs"}
)


def database_path(directory: Path) -> Path:
    """Return where a knowledge base keeps its SQLite file; NotAKnowledgeBaseError when there is none."""
    path = directory / DATABASE_NAME
    try:
        there = stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        there = False
    except OSError as error:
        raise StateError(
            f"{path} cannot be looked at: {error.strerror}; run as a user who may read {directory}, and check the disk"
        ) from error
    if not there:
        reason = "holds no kb.sqlite" if directory.is_dir() else "is not a directory"
        raise NotAKnowledgeBaseError(
            f"{directory} {reason}; give the path of a knowledge base or make one with 'kbengine build'"
        )
    return path


def wal_path(directory: Path) -> Path:
    """Return where SQLite keeps the write-ahead log."""
    return directory / f"{DATABASE_NAME}-wal"


def check_sqlite_version(version: str) -> None:
    """Raise PlatformError for an SQLite whose WAL can corrupt itself."""
    if tuple(int(part) for part in version.split(".")) < MINIMUM_SQLITE:
        wanted = ".".join(map(str, MINIMUM_SQLITE))
        raise PlatformError(
            f"SQLite is {version}, kbengine needs {wanted} or newer (older ones can corrupt a database that several "
            "connections use): pip install -U pysqlite3"
        )


def check_file_system(directory: Path, *, mounts: Path = Path("/proc/self/mountinfo")) -> None:
    """Raise PlatformError on a network file system, where locks and fsync cannot be trusted.

    FUSE types that are not known to be remote pass: local encrypted and overlay file systems are FUSE too.
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return  # not Linux, or no /proc: nothing to detect with
    target = directory.resolve()
    best, kind = -1, ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = Path(left.split(" ")[4].replace("\\040", " "))
        if (target == point or point in target.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), right.split(" ")[0]
    if kind in _NETWORK_FILE_SYSTEMS:
        raise PlatformError(
            f"{directory} is on a network file system ({kind}), where file locks and fsync cannot be trusted; "
            "put the knowledge base on a local disk"
        )


def writer_engine(directory: Path, *, create: bool = False) -> Engine:
    """Return an engine with exactly one connection, which writes and checkpoints; transactions are IMMEDIATE."""
    check_sqlite_version(dbapi2.sqlite_version)
    path = directory / DATABASE_NAME if create else database_path(directory)
    engine = create_engine(
        "sqlite+pysqlite://",
        module=dbapi2,
        creator=lambda: raw_connection(path, mode="rwc" if create else "rw"),
        poolclass=StaticPool,
    )

    def configure(connection: Any, _record: object) -> None:
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise PlatformError(f"{path}: the journal mode is {mode!r}, wanted 'wal'; put it on a local disk")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute(f"PRAGMA journal_size_limit={_JOURNAL_LIMIT_BYTES}")

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def reader_engine(directory: Path, *, pool_size: int = 16) -> Engine:
    """Return an engine of read-only connections, one per thread that asks; a transaction is one snapshot."""
    check_sqlite_version(dbapi2.sqlite_version)
    path = database_path(directory)
    engine = create_engine(
        "sqlite+pysqlite://",
        module=dbapi2,
        creator=lambda: raw_connection(path, mode="ro"),
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=-1,
    )
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def raw_connection(path: Path, *, mode: str) -> Any:
    """Return a pysqlite3 connection in autocommit mode, usable from any one thread at a time.

    Args:
        path: The SQLite file.
        mode: "ro", "rw" or "rwc" (create).
    """
    calls = operating_system()
    query, hold = f"mode={mode}", None
    if mode == "ro" and calls.is_read_only(path.parent):
        query, hold = _on_read_only_mount(path.parent)
    if calls.vfs is not None:
        query += f"&vfs={calls.vfs}"
    try:
        connection = dbapi2.connect(
            f"file:{quote(str(path.absolute()))}?{query}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=_BUSY_TIMEOUT_S,
            factory=_Connection,
        )
    except BaseException:
        if hold is not None:
            os.close(hold)
        raise
    connection.hold = hold
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA cell_size_check=ON")
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


class _Connection(dbapi2.Connection):  # type: ignore[misc]  # pysqlite3 has no types
    """A connection that may keep writers out until it is closed: see `_on_read_only_mount`."""

    hold: int | None = None

    def close(self) -> None:
        """Close it."""
        super().close()
        if self.hold is not None:
            hold, self.hold = self.hold, None
            os.close(hold)


def _on_read_only_mount(directory: Path) -> tuple[str, int | None]:
    """Return how a database there is opened, and a descriptor to close with the connection.

    SQLite reads beside a writer through shared memory that it may not make there; without any it must be promised that
    nothing changes. A mount that is read-only promises that only for itself: others may write to the same directory.
    So writers are kept out by their lock, or the shared memory that is there is used.

    Raises:
        StateError: A log is there and no shared memory to read it by, or there is no lock to keep writers out.
    """
    log = wal_path(directory)
    if not (log.exists() and log.with_name(f"{DATABASE_NAME}-shm").exists()):
        if log.exists() and log.stat().st_size:
            raise StateError(
                f"{directory} has a log that was not copied into {DATABASE_NAME}, and is on a read-only mount; run "
                "'kbengine verify --repair' once where it can be written"
            )
        hold = hold_off_writers(directory)
        if hold is not None:
            return "mode=ro&immutable=1", hold
        if not (directory / LOCK_NAME).exists():
            raise StateError(
                f"{directory} is on a read-only mount and has no {LOCK_NAME} that would keep writers out; make it "
                f"where it can be written: touch {LOCK_NAME}"
            )
    return "mode=ro", None


def run_in_autocommit(engine: Engine, *statements: str) -> list[Any]:
    """Run statements outside a transaction, as VACUUM and checkpoints must; return the rows of the last."""
    rows: list[Any] = []
    pooled = engine.raw_connection()
    try:
        raw: Any = pooled.driver_connection
        for statement in statements:
            rows = raw.execute(statement).fetchall()
    finally:
        pooled.close()
    return rows


@contextlib.contextmanager
def translated(directory: Path, name: str = DATABASE_NAME) -> Iterator[None]:
    """Turn SQLite's errors in the block into ours: damage, full disk, busy, anything else; of the file of this name."""
    try:
        yield
    except (SQLAlchemyError, dbapi2.Error) as error:
        raise _translate(directory, name, error) from error
    except UnicodeDecodeError as error:
        if not _is_of_sqlite(error):
            raise
        raise CorruptError(
            f"{directory / name} is damaged ({error}); run 'kbengine verify', then restore a backup"
        ) from error


def _is_of_sqlite(error: BaseException) -> bool:
    """Tell whether SQLite's module raised it: it decodes what SQLite says of a damaged schema, names in it included."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return raised_in.startswith(("sqlalchemy.", __name__))


def _translate(directory: Path, file_name: str, error: Exception) -> KBError:
    cause: Any = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, KBError):
        return cause
    name = str(getattr(cause, "sqlite_errorname", "") or "")
    path = directory / file_name
    damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")) or "decode to UTF-8" in str(cause)
    if damaged or isinstance(cause, dbapi2.IntegrityError):
        # Our writes keep every constraint, so a broken one means that an index or a row changed on disk.
        return CorruptError(
            f"{path} is damaged ({cause}); run 'kbengine verify', then 'kbengine verify --repair' or restore a backup"
        )
    if name == "SQLITE_FULL" or (name.startswith("SQLITE_IOERR") and _is_full(directory)):
        return StorageFullError(f"{path}: no space, quota or file-size limit ({cause}); free space and try again")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return LockedError(f"{path} is in use by another process ({cause}); try again when it has finished")
    if name.startswith("SQLITE_CANTOPEN"):
        return StateError(
            f"{path} cannot be opened ({cause}); readers, too, need write permission on {directory} for SQLite's "
            "shared memory, and free file descriptors"
        )
    if name.startswith("SQLITE_READONLY"):
        return StateError(f"{path} is not writable ({cause}); check owner and permissions")
    return StateError(f"{path}: SQLite failed ({name or type(cause).__name__}: {cause}); close and open it again")


def _is_full(directory: Path) -> bool:
    """Return whether a write fails for lack of room: SQLite reports quota and file-size limit only as an I/O error."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    sizes = [path.stat().st_size for path in (directory / DATABASE_NAME, wal_path(directory)) if path.exists()]
    if limit != resource.RLIM_INFINITY and max(sizes, default=0) + _ROOM_BYTES > limit:
        return True
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return False


def pending_migration(connection: Connection, *, name: str) -> str | None:
    """Return the revision that `migrate` would bring, None when the schema is current.

    FormatTooNewError for a revision that a newer kbengine made; NotAKnowledgeBaseError for another program's file.
    """
    tables = set(connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars())
    if "alembic_version" not in tables or "settings" not in tables:
        raise NotAKnowledgeBaseError(f"{name}/{DATABASE_NAME} is an SQLite file, but not of a knowledge base")
    current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if current not in schema.REVISIONS:
        raise FormatTooNewError(
            f"{name} has schema revision {current!r}, this kbengine knows {', '.join(schema.REVISIONS)}: install "
            "a newer kbengine, or run 'kbengine verify' when no newer one ever wrote it"
        )
    return schema.REVISIONS[-1] if current != schema.REVISIONS[-1] else None


def migrate(connection: Connection) -> None:
    """Bring the schema to the newest revision and record it, in the caller's transaction."""
    from alembic import command

    config = alembic_config("migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.exec_driver_sql(f"PRAGMA application_id={schema.APPLICATION_ID}")


def alembic_config(folder: str) -> Any:
    """Return what alembic needs to run the migrations in a folder of this package."""
    # Imported late: alembic costs a tenth of a second that a reader need not pay.
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / folder).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
