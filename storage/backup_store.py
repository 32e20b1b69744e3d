"""A folder of backups: objects named by their SHA-256, and one list of files per backup.

An object that is there already is not written again, so a backup costs what is new: the database and new segments. A
list is written last and whole: a backup that was killed is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from storage.durable import (
    READ_CHUNK_BYTES,
    TEMPORARY_SUFFIX,
    DurableFile,
    check_file,
    fsync_directory,
    is_abandoned,
    read_error,
    remove_file,
    write_durably,
    write_error,
)
from storage.errors import CorruptError, FormatTooNewError, InvalidOptionError, NotAKnowledgeBaseError
from storage.operating_system import operating_system

__all__ = ["BackupList", "BackupStore", "StoredFile"]

FORMAT_VERSION = 1
_OBJECTS = "objects"
_LIST_PREFIX, _LIST_SUFFIX = "backup-", ".json"


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


class BackupStore:
    """The backups in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Make the folder; one that holds something else is refused."""
        try:
            if self.folder.exists() and not self._is_ours():
                raise InvalidOptionError(
                    f"{self.folder} holds something that is no backup; give an empty folder or one that 'kbengine "
                    "backup' made"
                )
            if not self.folder.exists():
                self.folder.parent.mkdir(parents=True, exist_ok=True)
                operating_system().mkdir(self.folder)
                fsync_directory(self.folder.parent)
            if not (self.folder / _OBJECTS).is_dir():
                operating_system().mkdir(self.folder / _OBJECTS)
                fsync_directory(self.folder)
        except OSError as error:
            raise write_error(error, self.folder) from error

    def _is_ours(self) -> bool:
        return self.folder.is_dir() and ((self.folder / _OBJECTS).is_dir() or not any(self.folder.iterdir()))

    def object_path(self, sha256: str) -> Path:
        """Return where an object is."""
        return self.folder / _OBJECTS / sha256

    def has(self, n_bytes: int, sha256: str) -> bool:
        """Tell whether an object of this name and size is there."""
        try:
            return self.object_path(sha256).stat().st_size == n_bytes
        except OSError:
            return False

    def put(self, descriptor: int, path: Path, *, expected: str | None = None) -> tuple[int, str, bool]:
        """Store what an open file holds; return its size, its checksum and whether it was new.

        Raises:
            CorruptError: It is not what was `expected`, a checksum.
        """
        name = self.folder / _OBJECTS / f"{os.urandom(8).hex()}.new"
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
            file.path = self.object_path(file.sha256)
            if self.has(file.n_bytes, file.sha256):
                return file.n_bytes, file.sha256, False
            file.commit(replace=True)
            return file.n_bytes, file.sha256, True

    def write_list(self, backup: BackupList) -> None:
        """Make the backup be there."""
        record = {"format": FORMAT_VERSION, **asdict(backup)}
        text = json.dumps(record | {"checksum": _checksum(record)}, indent=1) + "\n"
        write_durably(self._list_path(backup.generation), [text.encode()], replace=True)

    def generations(self) -> list[int]:
        """Return the commits of which there are backups, rising."""
        names = (path.name for path in self.folder.glob(f"{_LIST_PREFIX}*{_LIST_SUFFIX}"))
        return sorted(int(name.removeprefix(_LIST_PREFIX).removesuffix(_LIST_SUFFIX)) for name in names)

    def read_list(self, generation: int | None = None) -> BackupList:
        """Return what a backup consists of, by default the newest.

        Raises:
            NotAKnowledgeBaseError: There is none.
            CorruptError: Its list is damaged.
        """
        there = self.generations()
        if not there or generation not in (None, *there):
            raise NotAKnowledgeBaseError(
                f"{self.folder} holds no backup{'' if generation is None else f' of commit {generation}'}, it has "
                f"those of {', '.join(map(str, there)) or 'none'}; 'kbengine backup' makes one"
            )
        path = self._list_path(there[-1] if generation is None else generation)
        try:
            record: dict[str, Any] = json.loads(path.read_text("utf-8"))
            checksum = record.pop("checksum")
            if record.pop("format", 0) > FORMAT_VERSION:
                raise FormatTooNewError(f"{path} was written by a newer kbengine: upgrade kbengine")
            if checksum != _checksum({"format": FORMAT_VERSION, **record}):
                raise ValueError("its checksum is of something else")
            files = tuple(StoredFile(**each) for each in record["files"])
            return BackupList(record["generation"], record["made_from"], files)
        except OSError as error:
            raise read_error(error, path) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptError(f"{path} is not what was written ({error}); take an older backup") from error

    def check(self, backup: BackupList) -> None:
        """Raise CorruptError unless every object of the backup is what was written."""
        for file in backup.files:
            check_file(self.object_path(file.sha256), n_bytes=file.n_bytes, sha256=file.sha256)

    def prune(self, keep: int | None) -> int:
        """Remove all but the newest `keep` backups (None: none of them) and what belongs to no backup.

        Return how many objects were removed.
        """
        generations = self.generations()
        for generation in generations[: 0 if keep is None else max(0, len(generations) - keep)]:
            remove_file(self._list_path(generation))
        fsync_directory(self.folder)  # before the objects: a list must not come back without them
        needed = {file.sha256 for each in self.generations() for file in self.read_list(each).files}
        stale = [path for path in (self.folder / _OBJECTS).iterdir() if path.name not in needed]
        stale = [path for path in stale if path.suffix != TEMPORARY_SUFFIX or is_abandoned(path)]
        for path in (*stale, *(path for path in self.folder.glob(f"*{TEMPORARY_SUFFIX}") if is_abandoned(path))):
            if path.is_file():
                remove_file(path)
        return len(stale)

    def _list_path(self, generation: int) -> Path:
        return self.folder / f"{_LIST_PREFIX}{generation:012d}{_LIST_SUFFIX}"


def _checksum(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def total_bytes(files: Iterable[StoredFile]) -> int:
    """Return the size of the files together."""
    return sum(file.n_bytes for file in files)
