"""A machine whose disk remembers: our calls and, through a VFS, SQLite's, recorded as they are made; some may fail."""

from __future__ import annotations

import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from storage.operating_system import OperatingSystem
from tests.storage.power.disk import Event, Tree
from tests.storage.power.recording_vfs import register, unregister


class ShortWriteError(OSError):
    """A hook's word for a write that does only a part: our own call tells how much, SQLite's that the disk is full."""

    def __init__(self, n_bytes: int) -> None:
        super().__init__(errno.ENOSPC, "No space left on device")
        self.n_bytes = n_bytes


class Machine(OperatingSystem):
    """Real calls below `root`, recorded in `events`.

    Attributes:
        before: What was there at first.
        events: What was done since.
        hook: Called with each event before it is done; what it raises is the call's error.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.before = Tree.of(self.root)
        self.now = Tree.of(self.root)
        self.events: list[Event] = []
        self.hook: Callable[[Event], None] = lambda _event: None
        self._numbers: dict[int, int] = {}
        self._positions: dict[int, int] = {}
        self._next = self.now.number()
        self.vfs = f"recording-{id(self)}"

    def __enter__(self) -> Self:
        register(self.vfs or "", self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gc.collect()  # connections that errors hold: SQLite would call a VFS that is gone
        unregister(self.vfs or "")

    def ack(self, done: int) -> None:
        """Note that so many operations were acknowledged."""
        self.events.append(("ack", done))

    def note(self, *event: Any) -> None:
        """Record the event, unless it fails."""
        self.hook(event)
        self.now.apply(event)
        self.events.append(event)

    def new_number(self) -> int:
        """A number for a file or directory."""
        self._next += 1
        return self._next

    def place(self, path: str | Path) -> tuple[int, str, int | None]:
        """Where a path is: see `Tree.find`."""
        return self.now.find(self.root, Path(path))

    def is_watched(self, path: str | Path) -> bool:
        """Whether the path is below the root."""
        return Path(path).absolute().is_relative_to(self.root) and Path(path).absolute() != self.root

    # -- our own calls

    def open(self, path: Path, flags: int, mode: int = 0o666) -> int:
        is_new = self.is_watched(path) and not path.exists()
        if is_new and flags & os.O_CREAT:
            directory, name, _ = self.place(path)
            self.note("link", directory, name, self.new_number())
        descriptor = super().open(path, flags, mode)
        if self.is_watched(path):
            number = self.place(path)[2]
            assert number is not None
            self._numbers[descriptor], self._positions[descriptor] = number, 0
        elif path.absolute() == self.root:
            self._numbers[descriptor] = 0
        return descriptor

    def write(self, descriptor: int, data: memoryview) -> int:
        if descriptor not in self._numbers:
            return super().write(descriptor, data)
        try:
            self.note("write", self._numbers[descriptor], self._positions[descriptor], bytes(data))
        except ShortWriteError as error:
            data = data[: error.n_bytes]
        written = super().write(descriptor, data)
        assert written == len(data)
        self._positions[descriptor] += written
        return written

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        try:
            if descriptor in self._numbers:
                self.note("write", self._numbers[descriptor], offset, data)
        except ShortWriteError as error:
            data = data[: error.n_bytes]
        return super().pwrite(descriptor, data, offset)

    def fsync(self, descriptor: int) -> None:
        if descriptor in self._numbers:
            self.note("sync", self._numbers[descriptor])

    def close(self, descriptor: int) -> None:
        super().close(descriptor)
        self._numbers.pop(descriptor, None)
        self._positions.pop(descriptor, None)

    def rename(self, source: Path, target: Path) -> None:
        if self.is_watched(target):
            (from_, old, number), (to, new, _) = self.place(source), self.place(target)
            self.note("rename", from_, old, to, new, number)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        if self.is_watched(target):
            (directory, name, existing), number = self.place(target), self.place(source)[2]
            if existing is None:
                self.note("link", directory, name, number)
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        if self.is_watched(path):
            directory, name, number = self.place(path)
            if number is not None:
                self.note("unlink", directory, name)
        super().unlink(path)

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        if self.is_watched(path):
            directory, name, number = self.place(path)
            if number is None:
                self.note("mkdir", directory, name, self.new_number())
        super().mkdir(path, mode)

    def rmdir(self, path: Path) -> None:
        if self.is_watched(path):
            directory, name, number = self.place(path)
            if number is not None and not self.now.directories[number]:
                self.note("unlink", directory, name)
        super().rmdir(path)

    # -- SQLite's

    def sqlite_opened(self, path: str) -> int:
        """The number of a file of SQLite's, made if it is new."""
        directory, name, number = self.place(path)
        if number is None:
            number = self.new_number()
            self.note("link", directory, name, number)
        return number
