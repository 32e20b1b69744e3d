"""Objects in a folder of this machine, or of a file system that machines share."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path

from storage.backup_store import StoredFile
from storage.durable import (
    READ_CHUNK_BYTES,
    TEMPORARY_SUFFIX,
    DurableFile,
    fsync_directory,
    hash_file,
    is_abandoned,
    make_directories,
    read_error,
    remove_file,
    write_error,
)
from storage.object_store import OBJECTS, ObjectStore, StoredObject, object_name
from storage.operating_system import operating_system

__all__ = ["ObjectFolder"]


class ObjectFolder(ObjectStore):
    """Objects below one folder; every write is durable when it returns."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.place = f"file://{self.folder}"
        self._synced: set[Path] = set()

    def _path(self, name: str) -> Path:
        return self.folder.joinpath(*name.split("/"))

    def has(self, sha256: str, n_bytes: int) -> bool:
        """Look at its size."""
        try:
            return self.folder.joinpath(*object_name(sha256)).stat().st_size == n_bytes
        except OSError:
            return False

    def put_file(self, path: Path, name: str) -> StoredFile:
        """Read the file twice: for its checksum, and to copy it."""
        n_bytes, sha256 = hash_file(path)
        file = StoredFile(name, n_bytes, sha256)
        if self.has(sha256, n_bytes):
            return file
        target = self.folder.joinpath(*object_name(sha256))
        self._make(target.parent)
        try:
            # One of another size is damaged, and replaced; of two at once the second replaces the same bytes.
            with path.open("rb", buffering=0) as source, DurableFile(target) as copy:
                while chunk := source.read(READ_CHUNK_BYTES):
                    copy.write(chunk)
                if (copy.n_bytes, copy.sha256) != (n_bytes, sha256):
                    raise self.damaged(file, n_bytes=copy.n_bytes, sha256=copy.sha256)
                copy.commit(replace=True)
        except OSError as error:
            raise read_error(error, path) from error
        return file

    def fetch(self, file: StoredFile, target: Path) -> None:
        """Copy it and compare."""
        source = self.folder.joinpath(*object_name(file.sha256))
        try:
            with source.open("rb", buffering=0) as opened, DurableFile(target) as copy:
                while chunk := opened.read(READ_CHUNK_BYTES):
                    copy.write(chunk)
                if (copy.n_bytes, copy.sha256) != (file.n_bytes, file.sha256):
                    raise self.damaged(file, n_bytes=copy.n_bytes, sha256=copy.sha256)
                copy.commit()
        except FileNotFoundError as error:
            raise self.missing(file) from error
        except OSError as error:
            raise read_error(error, source) from error

    def write_record(self, name: str, data: bytes, *, replace: bool = False) -> bool:
        """Write it beside, then give it its name, which a link does only where there is none."""
        target = self._path(name)
        self._make(target.parent)
        if replace:
            with DurableFile(target) as file:
                file.write(data)
                file.commit(replace=True)
            return True
        temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
        try:
            with DurableFile(temporary) as file:
                file.write(data)
                file.commit()
            operating_system().link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise write_error(error, target) from error
        finally:
            remove_file(temporary)
        fsync_directory(target.parent)
        return True

    def read_record(self, name: str) -> bytes | None:
        """Read the file."""
        path = self._path(name)
        try:
            return path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise read_error(error, path) from error

    def record_names(self, folder: str) -> list[str]:
        """List the folder."""
        try:
            found = [path.name for path in self._path(folder).iterdir() if path.is_file()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(name for name in found if not name.endswith((TEMPORARY_SUFFIX, ".part")))

    def remove_record(self, name: str) -> None:
        """Remove the file."""
        error = remove_file(self._path(name))
        if error is not None:
            raise write_error(error, self._path(name)) from error

    def stored(self) -> Iterator[StoredObject]:
        """List all folders; what killed uploads left is removed on the way."""
        for folder in sorted((self.folder / OBJECTS).glob("??")):
            for path in sorted(folder.iterdir()):
                if path.suffix in (TEMPORARY_SUFFIX, ".part"):
                    if is_abandoned(path):
                        remove_file(path)
                    continue
                with contextlib.suppress(FileNotFoundError):
                    about = path.stat()
                    yield StoredObject(path.name, about.st_size, about.st_mtime)

    def remove(self, sha256: str) -> None:
        """Remove the file."""
        path = self.folder.joinpath(*object_name(sha256))
        error = remove_file(path)
        if error is not None:
            raise write_error(error, path) from error

    def _make(self, folder: Path) -> None:
        """Make a folder, and sync its name once: another process may have made it and not come to that."""
        if folder in self._synced and folder.is_dir():
            return
        make_directories(folder)
        below = folder
        while below != self.folder.parent and below not in self._synced:
            fsync_directory(below.parent)
            self._synced.add(below)
            below = below.parent
