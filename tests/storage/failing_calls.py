"""Operating systems that fail on purpose, for `storage.operating_system.using`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.operating_system import OperatingSystem

Wanted = Callable[[str, Path | None], bool]


class FailingCalls(OperatingSystem):
    """The real calls, but for those that `wanted` names by call and path: they raise the error number."""

    def __init__(self, number: int, wanted: Wanted) -> None:
        self.number = number
        self.wanted = wanted
        self.failed = 0

    def _check(self, call: str, path: Path | None) -> None:
        if self.wanted(call, path):
            self.failed += 1
            raise OSError(self.number, os.strerror(self.number), None if path is None else str(path))

    def open(self, path: Path, flags: int, mode: int = 0o666) -> int:
        self._check("open", path)
        return super().open(path, flags, mode)

    def write(self, descriptor: int, data: memoryview) -> int:
        self._check("write", None)
        return super().write(descriptor, data)

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._check("pwrite", None)
        return super().pwrite(descriptor, data, offset)

    def fsync(self, descriptor: int) -> None:
        self._check("fsync", None)
        super().fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._check("rename", target)
        super().rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        self._check("link", target)
        super().link(source, target)

    def unlink(self, path: Path) -> None:
        self._check("unlink", path)
        super().unlink(path)

    def mkdir(self, path: Path, mode: int = 0o777) -> None:
        self._check("mkdir", path)
        super().mkdir(path, mode)


class ReadOnlyMount(OperatingSystem):
    """A machine on which every directory is mounted read-only, as far as readers ask."""

    def is_read_only(self, directory: Path) -> bool:
        return True


def failing(number: int, call: str, ending: str = "") -> FailingCalls:
    """One that fails at this call of paths that end so."""
    return FailingCalls(number, lambda name, path: name == call and str(path or "").endswith(ending))


class AtCall(OperatingSystem):
    """The real calls; what `then` does is done once, before the first rename to a name that ends so."""

    def __init__(self, ending: str, then: Callable[[], Any]) -> None:
        self.ending = ending
        self.then: Callable[[], Any] | None = then

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        if self.then is not None and target.name.endswith(self.ending):
            then, self.then = self.then, None
            then()
