"""Backing up a knowledge base while others read and write it, and restoring it.

A read transaction shows one commit. In it the files of that commit are opened, which keeps their bytes there whatever a
merge or a compaction unlinks, and the database is copied by SQLite's backup. So nobody waits, and nothing is torn.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, select

from storage import schema
from storage.acknowledged import Acknowledged
from storage.backup_places import open_store
from storage.backup_store import BackupList, StoredFile, total_bytes
from storage.catalog import live_segments, newest_generation_number
from storage.creation import ENCODER_DIRECTORY, appearing
from storage.database import DATABASE_NAME, database_path, raw_connection, reader_engine, translated
from storage.durable import fsync_directory, read_error, remove_file
from storage.errors import BuildIncompleteError, CorruptError, InvalidOptionError
from storage.findings import Findings
from storage.lock import LOCK_NAME
from storage.opening import check_log
from storage.operating_system import operating_system
from storage.quantiser_file import quantiser_path
from storage.recorded_answers import RECORDED_NAME
from storage.segment import segment_path
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY
from storage.settings import read_settings
from storage.tuned_files import changing_encoders
from storage.verify import verify
from storage.verify_database import DatabaseFacts, check_rows, check_structure

__all__ = ["BackupReport", "back_up", "restore"]

Stage = Callable[[str, int, int], None]
KEY_FILE = "api-keys.json"
_MAX_RETRIES = 20


@dataclass(frozen=True)
class BackupReport:
    """What a backup or a restore did.

    Attributes:
        generation: The commit that it shows.
        files: How many files it has.
        n_bytes: Their size.
        new_bytes: Size of those that were written: what earlier backups have is not written again.
    """

    generation: int
    files: int
    n_bytes: int
    new_bytes: int


@dataclass(frozen=True)
class _Pinned:
    path: str
    descriptor: int
    sha256: str | None = None


def back_up(
    path: str | Path, folder: str | Path, *, keep: int | None = None, stage: Stage | None = None
) -> BackupReport:
    """Add a backup of the newest commit to a folder or address of backups, while readers and writers go on.

    Args:
        path: The knowledge base.
        folder: Of its backups, made if it is not there; or an address, see `storage.backup_places`.
        keep: How many backups stay in it, the newest; None keeps all.
        stage: Shown the progress.

    Raises:
        CorruptError: The knowledge base is damaged: a backup of damage would be no backup.
        InvalidOptionError: The folder holds something else, or backups of another knowledge base.
        StorageFullError: No space; earlier backups are untouched.
    """
    source, store = Path(path), open_store(folder)
    if keep is not None and keep < 1:
        raise InvalidOptionError(f"keep is {keep}; wanted at least 1")
    database_path(source)
    check_log(source)
    store.prepare()
    with store.working() as scratch, _copied_database(source, scratch) as (copy, pinned):
        made_from, generation = _checked(copy)
        for earlier in store.generations()[-1:]:
            if store.read_list(earlier).made_from != made_from or earlier > generation:
                raise InvalidOptionError(
                    f"{store.place} holds backups of another knowledge base, or of later commits than {generation}; "
                    "give another place"
                )
        files: list[StoredFile] = []
        new_bytes = 0
        with _open(copy, DATABASE_NAME) as database:
            wanted = [*pinned, database]
            for number, each in enumerate(wanted):
                size = os.fstat(each.descriptor).st_size
                is_new = False
                sha256 = each.sha256
                if sha256 is None or not store.has(size, sha256):
                    size, sha256, is_new = store.put(each.descriptor, source / each.path, expected=sha256)
                files.append(StoredFile(each.path, size, sha256))
                new_bytes += size * is_new
                if stage is not None:
                    stage("copying files", number + 1, len(wanted))
        store.settle()
        store.write_list(BackupList(generation, made_from, tuple(files)))
        store.prune(keep)
    return BackupReport(generation, len(files), total_bytes(files), new_bytes)


@contextlib.contextmanager
def _copied_database(source: Path, temporary: Path) -> Iterator[tuple[Path, list[_Pinned]]]:
    """Copy the database into a directory and give that, and the other files of the same commit, opened."""
    with contextlib.ExitStack() as opened:
        engine = reader_engine(source)
        opened.callback(engine.dispose)
        for attempt in range(_MAX_RETRIES):
            try:
                with translated(source), engine.connect() as connection, contextlib.ExitStack() as commit:
                    # The first statement fixes the commit that this connection sees until the end.
                    pinned = [commit.enter_context(_open(source, *named)) for named in _named(source, connection)]
                    target = raw_connection(temporary / DATABASE_NAME, mode="rwc")
                    try:
                        connection.connection.driver_connection.backup(target)  # type: ignore[union-attr]  # it is there
                    finally:
                        target.close()
                    opened.push(commit.pop_all())
                    break
            except CorruptError as error:
                # Merged away between the commit that was read and the opening: there is a newer commit.
                if not isinstance(error.__cause__, FileNotFoundError) or attempt + 1 == _MAX_RETRIES:
                    raise
        encoders = source / ENCODER_DIRECTORY
        if encoders.is_dir():
            with changing_encoders(encoders):
                names = sorted(file for file in encoders.rglob("*") if file.suffix in (".json", ".safetensors"))
                pinned += [opened.enter_context(_open(source, str(name.relative_to(source)))) for name in names]
        beside = [name for name in (KEY_FILE, RECORDED_NAME) if (source / name).exists()]
        pinned += [opened.enter_context(_open(source, name)) for name in beside]
        yield temporary, pinned


def _named(source: Path, connection: Connection) -> list[tuple[str, str]]:
    """Return the files that the commit names, with their checksums."""
    settings = read_settings(connection, name=str(source))
    if settings.build_state != "complete":
        raise BuildIncompleteError(f"the build of {source} was interrupted; run it again to its end, then back up")
    named = [(row.file.name, row.file.sha256) for row in live_segments(connection)]
    files = [(str(segment_path(Path(SEGMENT_DIRECTORY), name)), sha256) for name, sha256 in named]
    for quantiser in settings.quantiser_files:
        files.append((str(quantiser_path(Path(SEGMENT_DIRECTORY), quantiser.name)), quantiser.sha256))
    return files


@contextlib.contextmanager
def _open(directory: Path, name: str, sha256: str | None = None) -> Iterator[_Pinned]:
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise read_error(error, directory / name) from error
    try:
        yield _Pinned(name, descriptor, sha256)
    finally:
        os.close(descriptor)


def _checked(copy: Path) -> tuple[str, int]:
    """Return what tells the knowledge base from others and the copy's commit; CorruptError for damaged rows."""
    findings = Findings(copy)
    engine = reader_engine(copy)
    try:
        with translated(copy), engine.connect() as connection:
            check_structure(connection, findings)
            check_rows(connection, DatabaseFacts(), findings)
            errors = [finding.what for finding in findings.found if finding.severity == "error"]
            if errors:
                raise CorruptError(
                    f"the knowledge base is damaged ({errors[0]}), and a backup of it would be, too; run 'kbengine "
                    "verify', restore an earlier backup"
                )
            table = schema.generations
            first = connection.execute(select(table.c.at).order_by(table.c.generation).limit(1)).scalar_one()
            return str(first), newest_generation_number(connection)
    finally:
        engine.dispose()


def restore(
    folder: str | Path, path: str | Path, *, generation: int | None = None, stage: Stage | None = None
) -> BackupReport:
    """Make a knowledge base of a backup; it appears at `path` whole and verified, or not at all.

    Args:
        folder: Of backups, or an address.
        path: Where the knowledge base goes: nothing, or an empty directory.
        generation: Of which commit, as `BackupStore.generations` lists them; None takes the newest.
        stage: Shown the progress.

    Raises:
        NotAKnowledgeBaseError: There is no such backup.
        KnowledgeBaseExistsError: The path holds something.
        CorruptError: The backup is damaged.
    """
    store, target = open_store(folder), Path(path)
    backup = store.read_list(generation)
    calls = operating_system()
    with appearing(target) as temporary:
        directories = {SEGMENT_DIRECTORY, INDEX_DIRECTORY, ENCODER_DIRECTORY}
        directories |= {str(parent) for file in backup.files for parent in Path(file.path).parents}
        for directory in sorted(directories - {"."}):
            calls.mkdir(temporary / directory)
        for number, file in enumerate(backup.files, start=1):
            is_secret = file.path == KEY_FILE
            n_bytes, sha256 = store.fetch(file.sha256, temporary / file.path, mode=0o600 if is_secret else 0o644)
            if (n_bytes, sha256) != (file.n_bytes, file.sha256):
                raise CorruptError(
                    f"{store.where(file.sha256)} has sha256 {sha256}, so the backup of commit "
                    f"{backup.generation} is damaged; take another: {', '.join(map(str, store.generations()))}"
                )
            if stage is not None:
                stage("copying files", number, len(backup.files))
        calls.close(calls.open(temporary / LOCK_NAME, os.O_WRONLY | os.O_CREAT))
        Acknowledged(temporary).note(backup.generation)
        report = verify(temporary)
        if not report.ok:
            raise CorruptError(
                f"the backup of commit {backup.generation} is damaged ({report.findings[0].what}); take another: "
                f"{', '.join(map(str, store.generations()))}"
            )
        for log in temporary.glob(f"{DATABASE_NAME}-*"):
            remove_file(log)  # empty: made by the verification
        for directory in (*sorted(directories - {"."}), "."):
            fsync_directory(temporary / directory)
    n_bytes = total_bytes(backup.files)
    return BackupReport(backup.generation, len(backup.files), n_bytes, n_bytes)
