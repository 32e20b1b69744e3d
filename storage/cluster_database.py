"""Connecting to a cluster's catalog: PostgreSQL, or an SQLite file for a cluster of one machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pysqlite3 import dbapi2
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from storage.cluster_schema import CATALOG_REVISIONS
from storage.database import alembic_config, check_file_system, raw_connection
from storage.durable import make_directories
from storage.errors import (
    CatalogUnavailableError,
    CorruptError,
    FormatTooNewError,
    InvalidOptionError,
    KBError,
    StateError,
    StorageFullError,
)
from storage.object_places import folder_of

__all__ = ["CatalogDatabase", "catalog_url", "is_newest", "migrate_catalog"]

CATALOG_NAME = "catalog.sqlite"
_CONNECT_TIMEOUT_S = 5
_POOL_SIZE = 4


def catalog_url(root: str, catalog: str | None) -> str:
    """Return the address of a cluster's catalog: the one given, or an SQLite file beside objects in a folder.

    Raises:
        InvalidOptionError: None is given and the objects are in no folder, or the address is of an unknown kind.
    """
    if catalog is not None:
        return catalog
    folder = folder_of(root)
    if folder is None:
        raise InvalidOptionError(
            f"no catalog was named for the cluster at {root}; give --catalog postgresql+psycopg://user@host/name: only "
            "a cluster in a folder has one beside its objects"
        )
    return f"sqlite:///{folder / CATALOG_NAME}"


class CatalogDatabase:
    """Connections to a catalog; what goes wrong is told in our errors.

    Attributes:
        place: What messages call it: its address, without a password.
        is_sqlite: Whether it is a file.
    """

    def __init__(self, url: str) -> None:
        """Look the driver up; nothing is connected yet."""
        parsed = _parsed(url)
        self.place = parsed.render_as_string(hide_password=True)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self._path = Path(parsed.database or "") if self.is_sqlite else None
        try:
            self._engine = self._sqlite(Path(parsed.database or "")) if self.is_sqlite else _postgresql(parsed)
        except (ImportError, NoSuchModuleError) as error:
            raise InvalidOptionError(
                f"the catalog {self.place} cannot be opened: {error}; install its driver: "
                "pip install 'kbengine[cluster]'"
            ) from error

    @property
    def is_there(self) -> bool:
        """Whether there can be a catalog: an SQLite file is not made by looking."""
        return self._path is None or self._path.exists()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run a read transaction.

        Raises:
            CatalogUnavailableError: The catalog does not answer.
        """
        with self._told(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run a transaction, durable at the end of the block; on SQLite it is the only one that writes.

        Raises:
            CatalogUnavailableError: The catalog does not answer; at the end of the block it is unknown whether the
                transaction took place.
        """
        with self._told(), self._engine.connect() as connection:
            # Said before the transaction begins: an SQLite connection takes the write lock at once.
            connection.info["writes"] = True
            try:
                with connection.begin():
                    yield connection
            finally:
                connection.info["writes"] = False

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except KBError:
            raise
        except (SQLAlchemyError, dbapi2.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            named = _named(self.place, cause) if self.is_sqlite else None
            if named is not None:
                raise named from error
            lost = isinstance(error, DBAPIError) and (
                error.connection_invalidated or type(cause).__name__ in ("OperationalError", "InterfaceError")
            )
            if lost or (isinstance(error, SQLAlchemyError) and type(error).__name__ == "TimeoutError"):
                raise CatalogUnavailableError(
                    f"the catalog {self.place} does not answer ({_first_line(cause)}); searching goes on with what is "
                    "known, changes have to wait: start it, or check address and network, then repeat the call"
                ) from error
            raise StateError(
                f"the catalog {self.place} refused a statement ({type(cause).__name__}: {_first_line(cause)}); is it "
                "the catalog of a cluster, and may this user write to it?"
            ) from error
        except UnicodeDecodeError as error:  # SQLite's module decodes names in a damaged schema
            if not self.is_sqlite:
                raise
            raise _damaged(self.place, error) from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _sqlite(self, path: Path) -> Engine:
        def connect() -> Any:
            make_directories(path.parent)
            check_file_system(path.parent)
            connection = raw_connection(path, mode="rwc")
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
            except BaseException:
                connection.close()
                raise
            return connection

        engine = create_engine(
            "sqlite+pysqlite://", module=dbapi2, creator=connect, poolclass=QueuePool, pool_size=_POOL_SIZE
        )
        # Whoever will write takes the lock at once: a reader cannot become a writer after somebody else has written.
        event.listen(engine, "begin", _begin_on_sqlite)
        return engine


def _begin_on_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("writes") else "BEGIN")


def _postgresql(url: URL) -> Engine:
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_size=_POOL_SIZE,
        pool_timeout=_CONNECT_TIMEOUT_S,
        connect_args={"connect_timeout": _CONNECT_TIMEOUT_S, "options": "-c idle_in_transaction_session_timeout=60000"},
    )


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise InvalidOptionError(
            f"the catalog's address is {url!r}; wanted postgresql+psycopg://user@host/name or sqlite:////path"
        ) from error
    if parsed.drivername == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.get_backend_name() not in ("postgresql", "sqlite"):
        raise InvalidOptionError(
            f"the catalog's address is {parsed.render_as_string()!r}; wanted postgresql+psycopg://user@host/name or "
            "sqlite:////path"
        )
    return parsed


def _named(place: str, cause: object) -> KBError | None:
    """Return the error that an SQLite catalog's failure is; None where it may be anything."""
    name = str(getattr(cause, "sqlite_errorname", "") or "")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")) or "decode to UTF-8" in str(cause):
        return _damaged(place, cause)
    if name == "SQLITE_FULL":
        return StorageFullError(
            f"the catalog {place} cannot be written: no space, quota or file-size limit; nothing was changed: free "
            "space and try again"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return StateError(
            f"the catalog {place} cannot be opened or written ({_first_line(cause)}); nothing was changed: check owner "
            "and permissions of its folder, and that the file system is mounted writable"
        )
    return None


def _damaged(place: str, cause: object) -> CorruptError:
    return CorruptError(
        f"the catalog {place} is damaged ({_first_line(cause)}); move it away and make it anew from the objects with "
        "'kbengine cluster restore'"
    )


def _first_line(error: object) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def migrate_catalog(connection: Connection) -> None:
    """Bring the catalog's schema to the newest revision and record it, in the caller's transaction."""
    from alembic import command

    config = alembic_config("cluster_migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def is_newest(connection: Connection) -> bool:
    """Return whether the catalog has the newest schema that this kbengine knows, or a newer one."""
    current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return current not in CATALOG_REVISIONS[:-1]


def check_revision(connection: Connection, place: str) -> None:
    """Raise FormatTooNewError for a catalog that a newer kbengine made."""
    current = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if current not in CATALOG_REVISIONS:
        raise FormatTooNewError(
            f"the catalog {place} has schema revision {current!r}, this kbengine knows "
            f"{', '.join(CATALOG_REVISIONS)}: install a newer kbengine"
        )
