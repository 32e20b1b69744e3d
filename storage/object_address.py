"""Objects at an address that fsspec knows, such as s3://bucket/cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from storage.backup_store import StoredFile
from storage.durable import READ_CHUNK_BYTES, DurableFile, hash_file
from storage.errors import StateError
from storage.object_store import OBJECTS, ObjectStore, StoredObject, object_name
from storage.remote_files import RemoteFiles

__all__ = ["ObjectAddress"]

# S3 refuses a second creation with "PreconditionFailed", and with "ConditionalRequestConflict" while one is under way.
_EXISTS = ("precondition", "conditionalrequestconflict", "already exists", "file exists")


class ObjectAddress(ObjectStore):
    """Objects below one address; an object store shows an upload when it is whole."""

    def __init__(self, address: str) -> None:
        """Look the file system up; nothing is asked of it yet."""
        self._remote = RemoteFiles(address, safe="what was published before is untouched")
        self._files = self._remote.system
        self.place = self._remote.place

    def has(self, sha256: str, n_bytes: int) -> bool:
        """Ask for its size."""
        with self._remote.told("read"):
            self._files.invalidate_cache()
            return self._remote.size(*object_name(sha256)) == n_bytes

    def put_file(self, path: Path, name: str) -> StoredFile:
        """Read the file twice: for its checksum, and to upload it."""
        n_bytes, sha256 = hash_file(path)
        if not self.has(sha256, n_bytes):
            target = self._remote.path(*object_name(sha256))
            with self._remote.told("write to"):
                if getattr(self._files, "mkdirs", None) is not None and not self._is_object_store:
                    self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
                self._files.put_file(str(path), target)
            if not self.has(sha256, n_bytes):
                raise StateError(f"{self.where(sha256)} was not stored whole; try again")
        return StoredFile(name, n_bytes, sha256)

    @property
    def _is_object_store(self) -> bool:
        protocol: Any = self._files.protocol
        return "s3" in ((protocol,) if isinstance(protocol, str) else tuple(protocol))

    def fetch(self, file: StoredFile, target: Path) -> None:
        """Download it and compare."""
        digest, n_bytes = hashlib.sha256(), 0
        with DurableFile(target) as copy:
            try:
                with (
                    self._remote.told("read"),
                    self._files.open(self._remote.path(*object_name(file.sha256)), "rb") as download,
                ):
                    while chunk := download.read(READ_CHUNK_BYTES):
                        digest.update(chunk)
                        n_bytes += len(chunk)
                        copy.write(chunk)
            except StateError as error:
                if isinstance(error.__cause__, FileNotFoundError):
                    raise self.missing(file) from error
                raise
            if (n_bytes, digest.hexdigest()) != (file.n_bytes, file.sha256):
                raise self.damaged(file, n_bytes=n_bytes, sha256=digest.hexdigest())
            copy.commit()

    def write_record(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        """Upload it, on condition that there is none where the store knows conditions."""
        path = self._remote.path(name)
        with self._remote.told("write to"):
            if replace:
                self._make_parent(path)
                self._files.pipe_file(path, data)
                return True
            if not self._is_object_store:
                self._files.invalidate_cache()
                if self._files.exists(path):
                    return False
                self._make_parent(path)
                self._files.pipe_file(path, data)
                return True
            try:
                self._files.pipe_file(path, data, mode="create")
            except FileExistsError:
                return False
            except Exception as error:
                told = str(error).casefold()
                if any(each in told for each in _EXISTS):
                    return False
                raise
        return True

    def _make_parent(self, path: str) -> None:
        if not self._is_object_store:
            self._files.makedirs(path.rpartition("/")[0], exist_ok=True)

    def read_record(self, name: str) -> bytes | None:
        """Download it."""
        with self._remote.told("read"):
            try:
                data: bytes = self._files.cat_file(self._remote.path(name))
            except FileNotFoundError:
                return None
            return data

    def record_names(self, folder: str) -> list[str]:
        """List the folder."""
        with self._remote.told("read"):
            self._files.invalidate_cache()
            return sorted(name for name in self._remote.names(folder) if name)

    def remove_record(self, name: str) -> None:
        """Remove it."""
        with self._remote.told("write to"):
            self._removed(self._remote.path(name))

    def stored(self) -> Iterator[StoredObject]:
        """List them."""
        with self._remote.told("read"):
            self._files.invalidate_cache()
            try:
                found: dict[str, Any] = self._files.find(self._remote.path(OBJECTS), detail=True)
            except FileNotFoundError:
                return
        for path, about in sorted(found.items()):
            at = about.get("LastModified") or about.get("mtime") or about.get("created") or 0
            seconds = at.timestamp() if isinstance(at, datetime) else float(at)
            yield StoredObject(path.rpartition("/")[2], int(about.get("size") or 0), seconds)

    def remove(self, sha256: str) -> None:
        """Remove it."""
        with self._remote.told("write to"):
            self._removed(self._remote.path(*object_name(sha256)))

    def _removed(self, path: str) -> None:
        try:
            self._files.rm_file(path)
        except FileNotFoundError:
            return
