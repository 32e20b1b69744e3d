"""The objects of a cluster at one place: immutable, named by their SHA-256, and small records with names of their own.

Whoever reads an object compares its checksum. A record that only one may make is written on condition that it is not
there, where the place knows such writes.
"""

from __future__ import annotations

import abc
import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.backup_store import StoredFile
from storage.errors import CorruptError

__all__ = ["OBJECTS", "ObjectStore", "StoredObject", "object_name"]

OBJECTS = "objects"


@dataclass(frozen=True)
class StoredObject:
    """An object that is there: its SHA-256, its size and when it was written, in seconds since 1970."""

    sha256: str
    n_bytes: int
    at_s: float


def object_name(sha256: str) -> tuple[str, str, str]:
    """Return an object's place below the root: folders hold a 256th of them each."""
    return OBJECTS, sha256[:2], sha256


class ObjectStore(abc.ABC):
    """Objects and records at one place; `storage.object_places.open_objects` gives the one for an address.

    Attributes:
        place: What messages call it.
    """

    place: str

    @abc.abstractmethod
    def has(self, sha256: str, n_bytes: int) -> bool:
        """Tell whether an object of this name and size is there."""

    @abc.abstractmethod
    def put_file(self, path: Path, name: str) -> StoredFile:
        """Store what a file holds, unless it is there, and return it under the name that its shard gives it."""

    @abc.abstractmethod
    def fetch(self, file: StoredFile, target: Path) -> None:
        """Copy an object to a new file.

        Raises:
            CorruptError: It is missing, or is not what was written; the message names it.
        """

    @abc.abstractmethod
    def write_record(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        """Write a record, whole or not at all; return False, and change nothing, where there is one of this name.

        Args:
            name: Of one or more parts, with slashes between them.
            data: What it holds.
            replace: Write in any case.
        """

    @abc.abstractmethod
    def read_record(self, name: str) -> bytes | None:
        """Return what a record holds; None where there is none."""

    @abc.abstractmethod
    def record_names(self, folder: str) -> list[str]:
        """Return the names of the records in a folder, without the folder's, sorted."""

    @abc.abstractmethod
    def remove_record(self, name: str) -> None:
        """Remove a record, if it is there."""

    @abc.abstractmethod
    def stored(self) -> Iterator[StoredObject]:
        """Yield all objects that are there."""

    @abc.abstractmethod
    def remove(self, sha256: str) -> None:
        """Remove an object, if it is there."""

    def where(self, sha256: str) -> str:
        """Return what messages call an object."""
        return "/".join((self.place, *object_name(sha256)))

    def put_bytes(self, data: bytes, name: str) -> StoredFile:
        """Store bytes, unless they are there."""
        with tempfile.TemporaryDirectory(prefix="kbengine-object-") as folder:
            path = Path(folder) / "object"
            path.write_bytes(data)
            return self.put_file(path, name)

    def read(self, file: StoredFile) -> bytes:
        """Return what an object holds, checked; for small ones."""
        with tempfile.TemporaryDirectory(prefix="kbengine-object-") as folder:
            path = Path(folder) / "object"
            self.fetch(file, path)
            return path.read_bytes()

    def check(self, file: StoredFile) -> None:
        """Read a whole object and compare its checksum.

        Raises:
            CorruptError: It is missing, or is not what was written.
        """
        with tempfile.TemporaryDirectory(prefix="kbengine-object-") as folder:
            self.fetch(file, Path(folder) / "object")

    def missing(self, file: StoredFile) -> CorruptError:
        """Return the error for an object that is not there."""
        return CorruptError(
            f"{self.where(file.sha256)} ({file.path}) is missing; restore it from a copy of the cluster "
            "('kbengine cluster backup' makes one), or build anew"
        )

    def damaged(self, file: StoredFile, *, n_bytes: int, sha256: str) -> CorruptError:
        """Return the error for an object that is something else."""
        return CorruptError(
            f"{self.where(file.sha256)} ({file.path}) has {n_bytes} bytes with sha256 {sha256}, expected "
            f"{file.n_bytes} bytes with its name; restore it from a copy of the cluster ('kbengine cluster backup' "
            "makes one), or build anew"
        )


def sha256_of(data: bytes) -> str:
    """Return the hex checksum of bytes."""
    return hashlib.sha256(data).hexdigest()
