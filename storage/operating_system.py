"""The calls by which files are changed, in one place, so that a test may record them or let them fail.

What SQLite does to its own files goes through a VFS instead; `vfs` names the one to use.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

__all__ = ["OperatingSystem", "operating_system", "remove_tree", "using"]


class OperatingSystem:
    """The operating system's calls; a subclass may watch them, or fail.

    Attributes:
        vfs: Name of the SQLite VFS that connections use; None is SQLite's own.
    """

    vfs: str | None = None

    def open(self, path: Path, flags: int, mode: int = 0o666) -> int:
        """Open the file and return its descriptor."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the data and return how much."""
        return os.write(descriptor, data)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        """Write some of the data at a place in the file and return how much."""
        return os.pwrite(descriptor, data, offset)

    def fsync(self, descriptor: int) -> None:
        """Wait until the file's bytes, or the directory's names, are on disk."""
        os.fsync(descriptor)

    def truncate(self, descriptor: int, n_bytes: int) -> None:
        """Cut the file to this length."""
        os.ftruncate(descriptor, n_bytes)

    def close(self, descriptor: int) -> None:
        """Close the descriptor."""
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Give the file or directory another name; a file that has it already is replaced."""
        source.rename(target)

    def link(self, source: Path, target: Path) -> None:
        """Give the file a second name; FileExistsError where something has it already."""
        os.link(source, target)

    def unlink(self, path: Path) -> None:
        """Remove the name of a file."""
        path.unlink()

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        """Make the directory."""
        path.mkdir(mode)

    def rmdir(self, path: Path) -> None:
        """Remove the empty directory."""
        path.rmdir()

    def is_read_only(self, directory: Path) -> bool:
        """Tell whether the directory is on a file system that is mounted read-only."""
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)


_CURRENT: ContextVar[OperatingSystem] = ContextVar("operating_system", default=OperatingSystem())  # noqa: B039


def operating_system() -> OperatingSystem:
    """Return the calls to use in this context."""
    return _CURRENT.get()


@contextlib.contextmanager
def using(calls: OperatingSystem) -> Iterator[None]:
    """Let the block, and the threads of writers opened in it, make other calls."""
    token = _CURRENT.set(calls)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def remove_tree(directory: Path) -> None:
    """Remove the directory with all that is in it, as far as the disk lets us; it need not be there."""
    calls = operating_system()
    with contextlib.suppress(OSError):
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                remove_tree(path)
            else:
                with contextlib.suppress(OSError):
                    calls.unlink(path)
        calls.rmdir(directory)
