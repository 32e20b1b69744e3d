"""Backups at an address that fsspec knows: object storage, another machine by SSH, an archive of WebDAV, memory.

An object store shows an upload when it is whole, and keeps it. Elsewhere an upload that was cut short has another size
than its list will say, and is made again. What is read back is compared with its checksum in any case.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from storage.backup_store import LIST_PREFIX, LIST_SUFFIX, OBJECTS, BackupStore
from storage.durable import READ_CHUNK_BYTES, DurableFile, read_error
from storage.errors import CorruptError, InvalidOptionError, StateError
from storage.remote_files import RemoteFiles

__all__ = ["BackupAddress"]


class BackupAddress(BackupStore):
    """The backups below one address, such as s3://bucket/kb; credentials come from the environment, as fsspec says.

    One backup at a time: there is no lock that object stores share.
    """

    def __init__(self, address: str) -> None:
        """Look the file system up; nothing is asked of it yet."""
        self._remote = RemoteFiles(address, safe="earlier backups are untouched")
        self._files = self._remote.system
        self._path, self._told = self._remote.path, self._remote.told
        self.place = self._remote.place

    def prepare(self) -> None:
        """Refuse an address below which there is something else."""
        with self._told("read"):
            self._files.invalidate_cache()
            there = self._remote.names()
        ours = [name for name in there if name == OBJECTS or name.startswith(LIST_PREFIX)]
        if there and not ours:
            raise InvalidOptionError(
                f"{self.place} holds something that is no backup; give an empty address or one that 'kbengine backup' "
                "was given"
            )
        with self._told("write to"):
            self._files.makedirs(self._path(OBJECTS), exist_ok=True)

    @contextlib.contextmanager
    def working(self) -> Iterator[Path]:
        """Give a temporary directory of this machine."""
        with tempfile.TemporaryDirectory(prefix="kbengine-backup-") as temporary:
            yield Path(temporary)

    def where(self, sha256: str) -> str:
        """Return the object's address."""
        return f"{self.place}/{OBJECTS}/{sha256}"

    def has(self, n_bytes: int, sha256: str) -> bool:
        """Tell whether the object is there with this size."""
        with self._told("read"):
            return self._remote.size(OBJECTS, sha256) == n_bytes

    def put(self, descriptor: int, path: Path, *, expected: str | None = None) -> tuple[int, str, bool]:
        """Read the file twice: for its checksum, which is the object's name, and to upload it."""
        digest, n_bytes = hashlib.sha256(), 0
        for chunk in _chunks(descriptor, path):
            digest.update(chunk)
            n_bytes += len(chunk)
        sha256 = digest.hexdigest()
        if expected not in (None, sha256):
            raise CorruptError(
                f"{path} has sha256 {sha256}, expected {expected}; run 'kbengine verify --repair' and back up again"
            )
        if self.has(n_bytes, sha256):
            return n_bytes, sha256, False
        with self._told("write to"), self._files.open(self._path(OBJECTS, sha256), "wb") as upload:
            for chunk in _chunks(descriptor, path):
                upload.write(chunk)
        if not self.has(n_bytes, sha256):
            raise StateError(f"{self.where(sha256)} was not stored whole; try again")
        return n_bytes, sha256, True

    def fetch(self, sha256: str, target: Path, *, mode: int) -> tuple[int, str]:
        """Download the object."""
        with DurableFile(target, mode=mode) as file:
            with self._told("read"), self._files.open(self._path(OBJECTS, sha256), "rb") as download:
                while chunk := download.read(READ_CHUNK_BYTES):
                    file.write(chunk)
            file.commit()
            return file.n_bytes, file.sha256

    def settle(self) -> None:
        """Do nothing: what was answered is stored."""

    def read(self, name: str) -> bytes:
        """Download the list."""
        with self._told("read"):
            data: bytes = self._files.cat_file(self._path(name))
            return data

    def write(self, name: str, data: bytes) -> None:
        """Upload the list."""
        with self._told("write to"):
            self._files.pipe_file(self._path(name), data)

    def list_names(self) -> list[str]:
        """Return the names."""
        with self._told("read"):
            self._files.invalidate_cache()
            names = self._remote.names()
        return [name for name in names if name.startswith(LIST_PREFIX) and name.endswith(LIST_SUFFIX)]

    def remove(self, lists: Iterable[str]) -> None:
        """Remove the lists."""
        for name in lists:
            with self._told("write to"):
                self._files.rm_file(self._path(name))

    def remove_all_but(self, needed: frozenset[str]) -> int:
        """Remove the other objects."""
        with self._told("write to"):
            self._files.invalidate_cache()
            stale = [name for name in self._remote.names(OBJECTS) if name not in needed]
            for name in stale:
                self._files.rm_file(self._path(OBJECTS, name))
        return len(stale)


def _chunks(descriptor: int, path: Path) -> Iterator[bytes]:
    offset = 0
    while True:
        try:
            chunk = os.pread(descriptor, READ_CHUNK_BYTES, offset)
        except OSError as error:
            raise read_error(error, path) from error
        if not chunk:
            return
        offset += len(chunk)
        yield chunk
