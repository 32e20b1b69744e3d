"""What a place of backups is: objects named by their SHA-256, and one list of files per backup.

An object that is there already is not written again, so a backup costs what is new: the database and new segments. A
list is written last and whole: a backup that was killed is not there.
"""

from __future__ import annotations

import abc
import contextlib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storage.errors import CorruptError, FormatTooNewError, NotAKnowledgeBaseError

__all__ = ["LIST_PREFIX", "LIST_SUFFIX", "BackupList", "BackupStore", "StoredFile", "total_bytes"]

FORMAT_VERSION = 1
OBJECTS = "objects"
LIST_PREFIX, LIST_SUFFIX = "backup-", ".json"


@dataclass(frozen=True)
class StoredFile:
    """A file of a backup: its path in the knowledge base, its size and its checksum."""

    path: str
    n_bytes: int
    sha256: str


@dataclass(frozen=True)
class BackupList:
    """What one backup consists of.

    Attributes:
        generation: The commit that it shows.
        made_from: Tells one knowledge base from another.
        files: Its files.
    """

    generation: int
    made_from: str
    files: tuple[StoredFile, ...]


class BackupStore(abc.ABC):
    """The backups at one place; `storage.backup_places.open_store` gives the one for a folder or an address.

    Attributes:
        place: What messages call it.
    """

    place: str

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make the place; one that holds something else is refused."""

    @abc.abstractmethod
    def working(self) -> contextlib.AbstractContextManager[Path]:
        """Give a directory for temporary files while a backup is made, with others held off as far as the place can."""

    @abc.abstractmethod
    def has(self, n_bytes: int, sha256: str) -> bool:
        """Tell whether an object of this name and size is there."""

    @abc.abstractmethod
    def put(self, descriptor: int, path: Path, *, expected: str | None = None) -> tuple[int, str, bool]:
        """Store what an open file holds; return its size, its checksum and whether it was new.

        Raises:
            CorruptError: It is not what was `expected`, a checksum.
        """

    @abc.abstractmethod
    def fetch(self, sha256: str, target: Path, *, mode: int) -> tuple[int, str]:
        """Copy an object to a new file durably; return its size and checksum."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Make sure that the objects that were put stay."""

    @abc.abstractmethod
    def read(self, name: str) -> bytes:
        """Return what a list's file holds."""

    @abc.abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write a list's file, whole or not at all."""

    @abc.abstractmethod
    def list_names(self) -> list[str]:
        """Return the names of the lists' files."""

    @abc.abstractmethod
    def remove(self, lists: Iterable[str]) -> None:
        """Remove lists, for good before anything else is."""

    @abc.abstractmethod
    def remove_all_but(self, needed: frozenset[str]) -> int:
        """Remove the other objects, and what killed backups left; return how many."""

    @abc.abstractmethod
    def where(self, sha256: str) -> str:
        """Return what messages call an object."""

    def write_list(self, backup: BackupList) -> None:
        """Make the backup be there."""
        record = {"format": FORMAT_VERSION, **asdict(backup)}
        text = json.dumps(record | {"checksum": _checksum(record)}, indent=1) + "\n"
        self.write(_list_name(backup.generation), text.encode())

    def generations(self) -> list[int]:
        """Return the commits of which there are backups, rising."""
        return sorted(int(name.removeprefix(LIST_PREFIX).removesuffix(LIST_SUFFIX)) for name in self.list_names())

    def read_list(self, generation: int | None = None) -> BackupList:
        """Return what a backup consists of, by default the newest.

        Raises:
            NotAKnowledgeBaseError: There is none.
            CorruptError: Its list is damaged.
        """
        there = self.generations()
        if not there or generation not in (None, *there):
            raise NotAKnowledgeBaseError(
                f"{self.place} holds no backup{'' if generation is None else f' of commit {generation}'}, it has "
                f"those of {', '.join(map(str, there)) or 'none'}; 'kbengine backup' makes one"
            )
        name = _list_name(there[-1] if generation is None else generation)
        try:
            record: dict[str, Any] = json.loads(self.read(name).decode("utf-8"))
            checksum = record.pop("checksum")
            if record.pop("format", 0) > FORMAT_VERSION:
                raise FormatTooNewError(f"{name} in {self.place} was written by a newer kbengine: upgrade kbengine")
            if checksum != _checksum({"format": FORMAT_VERSION, **record}):
                raise ValueError("its checksum is of something else")
            files = tuple(StoredFile(**each) for each in record["files"])
            return BackupList(record["generation"], record["made_from"], files)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(
                f"{name} in {self.place} is not what was written ({error}); take an older backup"
            ) from error

    def prune(self, keep: int | None) -> int:
        """Remove all but the newest `keep` backups (None: none of them) and what belongs to no backup.

        Return how many objects were removed.
        """
        generations = self.generations()
        old = generations[: 0 if keep is None else max(0, len(generations) - keep)]
        self.remove([_list_name(generation) for generation in old])
        needed = {file.sha256 for each in self.generations() for file in self.read_list(each).files}
        return self.remove_all_but(frozenset(needed))


def _list_name(generation: int) -> str:
    return f"{LIST_PREFIX}{generation:012d}{LIST_SUFFIX}"


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def total_bytes(files: Iterable[StoredFile]) -> int:
    """Return the size of the files together."""
    return sum(file.n_bytes for file in files)
