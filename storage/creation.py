"""The directory of a knowledge base: making a new one in one step, tidying up an old one after a crash."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.ann_setup import index_names
from storage.catalog import Generation, insert_generation, live_segments
from storage.database import (
    DATABASE_NAME,
    check_file_system,
    migrate,
    pending_migration,
    reader_engine,
    run_in_autocommit,
    translated,
    writer_engine,
)
from storage.durable import (
    TEMPORARY_SUFFIX,
    copy_directory,
    fsync_directory,
    is_abandoned,
    make_directories,
    write_error,
)
from storage.errors import InvalidOptionError, KnowledgeBaseExistsError
from storage.newest_schema import create_schema
from storage.operating_system import operating_system, remove_tree
from storage.quantiser import Quantiser
from storage.quantiser_file import QUANTISER_SUFFIX, write_quantiser
from storage.records import Commit
from storage.segment import SEGMENT_SUFFIX
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY, WriteSession
from storage.settings import KBSettings, read_settings, write_settings

__all__ = [
    "ENCODER_DIRECTORY",
    "FirstIds",
    "appearing",
    "copy_without_segments",
    "create_directory",
    "leftovers",
    "migrated_settings",
    "remove_leftovers",
    "write_quantisers",
]

ENCODER_DIRECTORY = "encoders"
_CREATING_SUFFIX = ".creating"


@dataclass(frozen=True)
class FirstIds:
    """The ids that a new knowledge base gives first; knowledge bases whose ids do not overlap can be put together.

    Attributes:
        document: Of its first document.
        passage: Of its first passage.
        token: Of its first token.
    """

    document: int = 1
    passage: int = 1
    token: int = 1

    def __post_init__(self) -> None:
        if min(self.document, self.passage, self.token) < 1:
            raise InvalidOptionError(f"the first ids are {self}; wanted numbers from 1 on")


def create_directory(
    target: Path,
    settings: KBSettings,
    code: Quantiser | None = None,
    *,
    quantiser: Quantiser | None = None,
    passages: Quantiser | None = None,
    first: FirstIds | None = None,
) -> None:
    """Create an empty knowledge base at `target`, under another name until it is complete; the rest as in `KBWriter`.

    Raises:
        KnowledgeBaseExistsError: `target` exists and is not an empty directory.
    """
    with appearing(target) as temporary:
        parts = [temporary / name for name in (SEGMENT_DIRECTORY, INDEX_DIRECTORY, ENCODER_DIRECTORY)]
        for part in parts:
            operating_system().mkdir(part)
        settings = write_quantisers(parts[0], settings, code=code, quantiser=quantiser, passages=passages)
        _fill(temporary, settings, first or FirstIds())
        for part in (*parts, temporary):
            fsync_directory(part)


@contextlib.contextmanager
def appearing(target: Path) -> Iterator[Path]:
    """Give a path to make a directory at; at the end of the block rename it to `target`, or remove it after an error.

    Raises:
        KnowledgeBaseExistsError: `target` exists and is not an empty directory.
    """
    _check_vacant(target)
    temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}{_CREATING_SUFFIX}"
    calls = operating_system()
    try:
        make_directories(target.parent)
        check_file_system(target.parent)
        _remove_abandoned(target)
        calls.mkdir(temporary)
        with _held(temporary):
            yield temporary
            calls.rename(temporary, target)
        fsync_directory(target.parent)
    except OSError as error:
        _check_vacant(target)  # somebody else may have been faster
        raise write_error(error, target) from error
    finally:
        remove_tree(temporary)


@contextlib.contextmanager
def _held(directory: Path) -> Iterator[None]:
    """Tell others that the directory is being made."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _check_vacant(target: Path) -> None:
    if (target / DATABASE_NAME).exists():
        raise KnowledgeBaseExistsError(f"{target} holds a knowledge base already; open it, or choose another path")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise KnowledgeBaseExistsError(f"{target} exists and is not an empty directory; choose another path")


def _remove_abandoned(target: Path) -> None:
    """Remove what a creation that was killed left under its temporary name."""
    for path in target.parent.glob(f".{target.name}.*{_CREATING_SUFFIX}"):
        if path.is_dir() and is_abandoned(path):
            remove_tree(path)


def write_quantisers(
    directory: Path,
    settings: KBSettings,
    *,
    code: Quantiser | None,
    quantiser: Quantiser | None,
    passages: Quantiser | None,
) -> KBSettings:
    """Write the files of code and quantisers, as far as there are any, and return the settings that name them."""
    if code is not None:
        file = write_quantiser(directory, code)
        settings = dataclasses.replace(settings, store={**settings.store, "code": file.to_json()})
    if quantiser is not None:
        file = write_quantiser(directory, quantiser)
        settings = dataclasses.replace(settings, quantiser={**settings.quantiser, **file.to_json()})
    if passages is not None:
        file = write_quantiser(directory, passages)
        settings = dataclasses.replace(settings, passage_quantiser={**settings.passage_quantiser, **file.to_json()})
    return settings


def _fill(directory: Path, settings: KBSettings, first: FirstIds) -> None:
    engine = writer_engine(directory, create=True)
    try:
        with translated(directory):
            with engine.begin() as connection:
                create_schema(connection)
                write_settings(connection, settings)
                after = Generation(1, first.document, first.passage, first.token)
                insert_generation(connection, Commit(1, None, 0, 0, 0), operation="create", after=after)
            run_in_autocommit(engine, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        engine.dispose()


def copy_without_segments(source: Path, target: Path) -> None:
    """Copy the newest commit of `source` to the new directory `target`, without segments.

    The database names them all the same: whoever calls writes segments in their place.
    """
    calls = operating_system()
    for part in (SEGMENT_DIRECTORY, INDEX_DIRECTORY):
        calls.mkdir(target / part)
    encoders = source / ENCODER_DIRECTORY
    if encoders.is_dir():
        copy_directory(encoders, target / ENCODER_DIRECTORY)
    else:
        calls.mkdir(target / ENCODER_DIRECTORY)
    engine = reader_engine(source)
    try:
        with translated(source):
            run_in_autocommit(engine, vacuum_into(target / DATABASE_NAME))
    finally:
        engine.dispose()
    fsync_directory(target)


def migrated_settings(session: WriteSession) -> KBSettings:
    """Bring the schema up to date, after copying the database, and return the settings."""
    with session.reading() as connection:
        revision = pending_migration(connection, name=str(session.directory))
    if revision is not None:
        backup = session.directory / f"{DATABASE_NAME}.before-{revision}"
        session.remove([backup])
        session.run_outside_transaction("PRAGMA wal_checkpoint(FULL)", vacuum_into(backup))
        fsync_directory(session.directory)
        with session.writing() as connection:
            migrate(connection)
    with session.reading() as connection:
        return read_settings(connection, name=str(session.directory))


def vacuum_into(path: Path) -> str:
    """Return the statement that writes a copy of the database, packed and synced, to `path`."""
    quoted = str(path).replace("'", "''")
    return f"VACUUM INTO '{quoted}'"


def leftovers(directory: Path, live: set[str], settings: KBSettings | None = None) -> list[Path]:
    """Return the files that belong to no live segment or to an index of the past, and those that a crash cut short.

    Args:
        directory: The knowledge base.
        live: Names of the live segments.
        settings: Which index; None when they could not be read.
    """
    quantisers = set() if settings is None else {file.name for file in settings.quantiser_files}
    index = index_names(settings, live) if settings is not None else set()
    # Somebody may be writing one just now: a reader in index/, the command that makes keys beside kb.sqlite.
    parts = (directory, directory / SEGMENT_DIRECTORY, directory / INDEX_DIRECTORY)
    found = [path for part in parts for path in part.glob(f"*{TEMPORARY_SUFFIX}") if is_abandoned(path)]
    for path in (directory / SEGMENT_DIRECTORY).glob("*"):
        stale = path.suffix == SEGMENT_SUFFIX and path.stem not in live
        if settings is not None and path.suffix == QUANTISER_SUFFIX:
            stale = path.stem not in quantisers
        if stale:
            found.append(path)
    for path in (directory / INDEX_DIRECTORY).glob("*.ann"):
        if path.name.split(".")[0] not in live or (settings is not None and path.name not in index):
            found.append(path)
    return sorted(found)


def remove_leftovers(session: WriteSession, settings: KBSettings) -> None:
    """Remove the files that belong to no live segment or to another index."""
    with session.reading() as connection:
        live = {row.file.name for row in live_segments(connection)}
    found = leftovers(session.directory, live, settings)
    session.remove(found)
    if found:
        session.sync_names()
