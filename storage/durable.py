"""Files that are either wholly there or not: write loop, fsync, rename, directory fsync, checksums.

Every byte is written through `os.write` (never a C library's stdio, which can lose the last buffer of a full
disk without an error), hashed on the way, synced, closed with its result checked, and only then renamed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from storage.errors import CorruptError, KBError, StateError, StorageFullError
from storage.operating_system import operating_system, remove_tree

READ_CHUNK_BYTES = 1 << 20
TEMPORARY_SUFFIX = ".tmp"
_WRITE_CHUNK_BYTES = 1 << 24
_FULL = frozenset({errno.ENOSPC, errno.EFBIG, errno.EDQUOT})
# Failures that say nothing about the file's bytes: the process or its rights are the problem.
_NOT_THE_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def write_error(error: OSError, path: Path) -> KBError:
    """Return the error to raise (`from error`) when writing `path` failed: full disk or anything else."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StorageFullError(
            f"cannot write {path}: {reason}; nothing was changed: free space (or raise the quota) and try again"
        )
    if error.errno == errno.EROFS:
        return StateError(f"cannot write {path}: {reason}; nothing was changed: mount the file system writable")
    if error.errno in (errno.EACCES, errno.EPERM):
        return StateError(
            f"cannot write {path}: {reason}; nothing was changed: run as the user who owns it, or give it to yours"
        )
    return StateError(f"cannot write {path}: {reason}; nothing was changed: check the disk and the permissions")


def read_error(error: OSError, path: Path) -> KBError:
    """Return the error to raise (`from error`) when reading `path` failed: the file is damaged, or we may not read."""
    reason = error.strerror or str(error)
    if error.errno in _NOT_THE_FILE:
        return StateError(f"cannot read {path}: {reason}; check the permissions and the limits of this process")
    return CorruptError(f"cannot read {path}: {reason}; expected a readable file: restore it from a backup")


def fsync_directory(directory: Path) -> None:
    """Make the directory's entries (creations, renames, unlinks) survive a power cut."""
    calls = operating_system()
    try:
        descriptor = calls.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            calls.fsync(descriptor)
        finally:
            calls.close(descriptor)
    except OSError as error:
        raise write_error(error, directory) from error


def fsync_file(path: Path) -> None:
    """Make the bytes of a file that was written by other means survive a power cut."""
    calls = operating_system()
    try:
        descriptor = calls.open(path, os.O_RDONLY)
        try:
            calls.fsync(descriptor)
        finally:
            calls.close(descriptor)
    except OSError as error:
        raise write_error(error, path) from error


def make_directories(directory: Path) -> None:
    """Make the directory and those above it that are missing; their names survive a power cut."""
    missing, above = [], directory
    try:
        while not above.is_dir():
            missing.append(above)
            above = above.parent
        for each in reversed(missing):
            with contextlib.suppress(FileExistsError):  # made by another meanwhile, or a file, which is told later
                operating_system().mkdir(each)
            fsync_directory(each.parent)
    except OSError as error:
        raise write_error(error, directory) from error


def is_abandoned(path: Path) -> bool:
    """Tell whether nobody writes any more what has a temporary name: its writer would hold a lock on it.

    A time would say less: clocks jump, and a large file takes long.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # gone meanwhile, or of somebody else
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def remove_file(path: Path) -> OSError | None:
    """Remove the file if it is there; return what kept it from that. For what nothing refers to (any more)."""
    try:
        operating_system().unlink(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


class DurableFile:
    """A new file being written under a temporary name; `commit` makes it durable and visible in one step.

    Leaving the `with` block without `commit` removes the temporary file. After any error the object is spent:
    an fsync that failed once is never tried again on the same descriptor.
    """

    def __init__(self, path: Path, *, mode: int = 0o644) -> None:
        self.path = path
        # A name of its own per writer: two processes making the same derived file must not meet in one file.
        self._temporary = path.parent / f"{uuid.uuid4().hex}{TEMPORARY_SUFFIX}"
        self._hash = hashlib.sha256()
        self._descriptor: int | None = None
        self._lock: int | None = None
        self.n_bytes = 0
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            self._descriptor = operating_system().open(self._temporary, flags, mode)
            # Held until the file has its name, which is after its closing: see `is_abandoned`.
            self._lock = os.dup(self._descriptor)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.abandon()
            raise write_error(error, path) from error

    @property
    def sha256(self) -> str:
        """Hex checksum of what was written so far."""
        return self._hash.hexdigest()

    @property
    def sha256_bytes(self) -> bytes:
        """Checksum of what was written so far, 32 bytes."""
        return self._hash.digest()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Hand all of `data` to the kernel, however many calls that takes."""
        if self._descriptor is None:
            raise StateError(f"{self.path} was already committed or abandoned; open a new DurableFile")
        view = memoryview(data)
        view = view if view.nbytes == 0 else view.cast("B")
        for start in range(0, view.nbytes, _WRITE_CHUNK_BYTES):
            rest = view[start : start + _WRITE_CHUNK_BYTES]
            self._hash.update(rest)
            while rest:
                try:
                    written = operating_system().write(self._descriptor, rest)
                except OSError as error:
                    self.abandon()
                    raise write_error(error, self.path) from error
                self.n_bytes += written
                rest = rest[written:]

    def commit(self, *, replace: bool = False) -> None:
        """Give the complete file its final name, so that it survives a power cut.

        An existing file of that name is refused, unless `replace` says that it may be overwritten.
        """
        if self._descriptor is None:
            raise StateError(f"{self.path} was already committed or abandoned; open a new DurableFile")
        if not replace and self.path.exists():
            self.abandon()
            raise StateError(f"{self.path} exists; a segment file is never overwritten: choose a new name")
        calls = operating_system()
        try:
            calls.fsync(self._descriptor)
            descriptor, self._descriptor = self._descriptor, None
            calls.close(descriptor)
            calls.rename(self._temporary, self.path)
        except OSError as error:
            self.abandon()
            raise write_error(error, self.path) from error
        self._unlock()
        fsync_directory(self.path.parent)

    def abandon(self) -> None:
        """Remove the temporary file, as far as the disk still lets us."""
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            with contextlib.suppress(OSError):
                operating_system().close(descriptor)
        remove_file(self._temporary)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            lock, self._lock = self._lock, None
            with contextlib.suppress(OSError):
                os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._descriptor is not None:
            self.abandon()


def write_durably(path: Path, chunks: Iterable[bytes], *, replace: bool = False) -> tuple[int, str]:
    """Write the file durably from `chunks` and return its size and hex sha256."""
    with DurableFile(path) as file:
        for chunk in chunks:
            file.write(chunk)
        file.commit(replace=replace)
        return file.n_bytes, file.sha256


def write_directory(directory: Path, files: Mapping[str, bytes], *, checksums: str | None = None) -> None:
    """Write a directory with these files durably, or (after an error) not at all.

    Args:
        directory: What to make; its parent exists, itself does not.
        files: Content by name.
        checksums: Name of one more file, JSON, with size and sha256 of each of the others.
    """
    temporary = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
    try:
        operating_system().mkdir(temporary)
        written = {name: write_durably(temporary / name, [data]) for name, data in files.items()}
        if checksums is not None:
            record = {name: {"bytes": n_bytes, "sha256": sha256} for name, (n_bytes, sha256) in written.items()}
            write_durably(temporary / checksums, [(json.dumps(record, indent=2) + "\n").encode()])
        fsync_directory(temporary)
        operating_system().rename(temporary, directory)
        fsync_directory(directory.parent)
    except OSError as error:
        raise write_error(error, directory) from error
    finally:
        remove_tree(temporary)  # gone already when all went well


def copy_durably(source: Path, target: Path, *, mode: int = 0o644) -> tuple[int, str]:
    """Copy the file durably, with these permissions, and return its size and hex sha256."""
    try:
        with source.open("rb", buffering=0) as file, DurableFile(target, mode=mode) as copy:
            while chunk := file.read(READ_CHUNK_BYTES):
                copy.write(chunk)
            copy.commit()
            return copy.n_bytes, copy.sha256
    except OSError as error:
        raise read_error(error, source) from error


def copy_directory(source: Path, target: Path) -> None:
    """Copy the directory durably, but for files with temporary names, to a path that holds nothing yet."""
    try:
        operating_system().mkdir(target)
        for path in sorted(source.iterdir()):
            if path.is_dir():
                copy_directory(path, target / path.name)
            elif path.suffix != TEMPORARY_SUFFIX:
                copy_durably(path, target / path.name)
    except OSError as error:
        raise write_error(error, target) from error
    fsync_directory(target)


def hash_file(path: Path, *, end: int | None = None) -> tuple[int, str]:
    """Read a file with `read()` in chunks and return its number of bytes and hex sha256.

    Args:
        path: The file.
        end: Stop after this many bytes; None reads all.
    """
    digest = hashlib.sha256()
    n_bytes = 0
    buffer = bytearray(READ_CHUNK_BYTES)
    try:
        with path.open("rb", buffering=0) as file:
            while end is None or n_bytes < end:
                wanted = READ_CHUNK_BYTES if end is None else min(READ_CHUNK_BYTES, end - n_bytes)
                n_read = file.readinto(memoryview(buffer)[:wanted])
                if not n_read:
                    break
                digest.update(memoryview(buffer)[:n_read])
                n_bytes += n_read
    except OSError as error:
        raise read_error(error, path) from error
    return n_bytes, digest.hexdigest()


def check_file(path: Path, *, n_bytes: int, sha256: str) -> None:
    """Raise CorruptError, naming both values, unless the file has this size and checksum."""
    check_size(path, n_bytes=n_bytes)
    _, seen = hash_file(path)
    if seen != sha256:
        raise CorruptError(
            f"{path} has sha256 {seen}, expected {sha256}; restore it from a backup or re-encode its documents"
        )


def check_size(path: Path, *, n_bytes: int) -> None:
    """Raise CorruptError, naming both values, unless the file has this size."""
    try:
        seen_bytes = path.stat().st_size
    except OSError as error:
        raise read_error(error, path) from error
    if seen_bytes != n_bytes:
        raise CorruptError(
            f"{path} has {seen_bytes} bytes, expected {n_bytes}; restore it from a backup or re-encode its documents"
        )
