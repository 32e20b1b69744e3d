"""Backups in a folder: every file durable before a list names it, one backup at a time."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

from storage.backup_store import LIST_PREFIX, LIST_SUFFIX, OBJECTS, BackupStore
from storage.durable import (
    READ_CHUNK_BYTES,
    TEMPORARY_SUFFIX,
    DurableFile,
    copy_durably,
    fsync_directory,
    is_abandoned,
    make_directories,
    read_error,
    remove_file,
    write_durably,
    write_error,
)
from storage.errors import CorruptError, InvalidOptionError
from storage.lock import WriterLock
from storage.operating_system import operating_system, remove_tree

__all__ = ["BackupFolder"]


class BackupFolder(BackupStore):
    """The backups in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        """Look at nothing yet."""
        self.folder = folder
        self.place = str(folder)

    def prepare(self) -> None:
        """Make the folder; one that holds something else is refused."""
        try:
            if self.folder.exists() and not self._is_ours():
                raise InvalidOptionError(
                    f"{self.folder} holds something that is no backup; give an empty folder or one that 'kbengine "
                    "backup' made"
                )
            make_directories(self.folder / OBJECTS)
            for folder in (self.folder.parent, self.folder):  # also for what a killed process made
                fsync_directory(folder)
        except OSError as error:
            raise write_error(error, self.folder) from error

    def _is_ours(self) -> bool:
        return self.folder.is_dir() and ((self.folder / OBJECTS).is_dir() or not any(self.folder.iterdir()))

    @contextlib.contextmanager
    def working(self) -> Iterator[Path]:
        """Hold the folder's lock; the temporary directory is in it, where the space is."""
        with WriterLock(self.folder):
            temporary = self.folder / f".{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
            try:
                operating_system().mkdir(temporary)
            except OSError as error:
                raise write_error(error, temporary) from error
            try:
                yield temporary
            finally:
                remove_tree(temporary)

    def _object(self, sha256: str) -> Path:
        return self.folder / OBJECTS / sha256

    def where(self, sha256: str) -> str:
        """Return the object's path."""
        return str(self._object(sha256))

    def has(self, n_bytes: int, sha256: str) -> bool:
        """Tell whether the file is there with this size."""
        try:
            return self._object(sha256).stat().st_size == n_bytes
        except OSError:
            return False

    def put(self, descriptor: int, path: Path, *, expected: str | None = None) -> tuple[int, str, bool]:
        """Copy the file, synced and under its final name when it is whole."""
        name = self.folder / OBJECTS / f"{os.urandom(8).hex()}.new"
        with DurableFile(name) as file:
            try:
                offset = 0
                while chunk := os.pread(descriptor, READ_CHUNK_BYTES, offset):
                    file.write(chunk)
                    offset += len(chunk)
            except OSError as error:
                raise read_error(error, path) from error
            if expected not in (None, file.sha256):
                raise CorruptError(
                    f"{path} has sha256 {file.sha256}, expected {expected}; run 'kbengine verify --repair' and back up "
                    "again"
                )
            file.path = self._object(file.sha256)
            if self.has(file.n_bytes, file.sha256):
                return file.n_bytes, file.sha256, False
            file.commit(replace=True)
            return file.n_bytes, file.sha256, True

    def fetch(self, sha256: str, target: Path, *, mode: int) -> tuple[int, str]:
        """Copy the file."""
        return copy_durably(self._object(sha256), target, mode=mode)

    def settle(self) -> None:
        """Sync the names."""
        fsync_directory(self.folder / OBJECTS)

    def read(self, name: str) -> bytes:
        """Return what the file holds."""
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise read_error(error, self.folder / name) from error

    def write(self, name: str, data: bytes) -> None:
        """Write the file durably."""
        write_durably(self.folder / name, [data], replace=True)

    def list_names(self) -> list[str]:
        """Return the names."""
        return [path.name for path in self.folder.glob(f"{LIST_PREFIX}*{LIST_SUFFIX}")]

    def remove(self, lists: Iterable[str]) -> None:
        """Remove the files and sync: a list must not come back without its objects."""
        for name in lists:
            remove_file(self.folder / name)
        fsync_directory(self.folder)

    def remove_all_but(self, needed: frozenset[str]) -> int:
        """Remove the other files, but for those that somebody is writing."""
        stale = [path for path in (self.folder / OBJECTS).iterdir() if path.name not in needed]
        stale = [path for path in stale if path.suffix != TEMPORARY_SUFFIX or is_abandoned(path)]
        for path in (*stale, *(path for path in self.folder.glob(f"*{TEMPORARY_SUFFIX}") if is_abandoned(path))):
            if path.is_file():
                remove_file(path)
        return len(stale)
