"""A disk that remembers in which order it was written to and synced, and what a power cut may leave of that.

Synced bytes and synced names stay. Of what was not synced any part may be there: each write wholly, in sectors or not
at all, in any order; a file that grew may hold zeros; names may be new while bytes are old, and the other way round.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

Mode = Literal["keep", "drop", "names", "bytes", "random"]
MODES: tuple[Mode, ...] = ("keep", "drop", "names", "bytes", "random")
"""What is there of what was not synced: all, nothing, the names, the bytes, anything."""

SECTOR_BYTES = 512
ROOT = 0
Event = tuple[Any, ...]
"""("link", directory, name, number), ("unlink", directory, name), ("rename", from, name, to, name), ("write", number,
offset, bytes), ("truncate", number, size), ("sync", number), ("ack", done)."""


@dataclass
class Tree:
    """Files and directories by number."""

    files: dict[int, bytearray] = field(default_factory=dict)
    directories: dict[int, dict[str, int]] = field(default_factory=lambda: {ROOT: {}})

    @classmethod
    def of(cls, root: Path) -> Tree:
        """What is there now."""
        tree = cls()
        tree._take(root, ROOT)
        return tree

    def _take(self, directory: Path, number: int) -> None:
        for path in sorted(directory.iterdir()):
            if path.name.endswith("-shm"):
                continue
            new = self.number()
            self.directories[number][path.name] = new
            if path.is_dir():
                self.directories[new] = {}
                self._take(path, new)
            else:
                self.files[new] = bytearray(path.read_bytes())

    def number(self) -> int:
        """A number that nothing has yet."""
        return max([*self.files, *self.directories]) + 1

    def find(self, root: Path, path: Path) -> tuple[int, str, int | None]:
        """The directory's number, the name in it, and the number of what has it."""
        parts = path.absolute().relative_to(root).parts
        number = ROOT
        for part in parts[:-1]:
            number = self.directories[number][part]
        return number, parts[-1], self.directories[number].get(parts[-1])

    def apply(self, event: Event) -> None:
        """Change the tree as the event says; one whose file or directory is not there changes nothing."""
        kind, *facts = event
        if kind in ("link", "mkdir"):
            directory, name, number = facts
            self.directories.setdefault(directory, {})[name] = number
            if kind == "link":
                self.files.setdefault(number, bytearray())
            else:
                self.directories.setdefault(number, {})
        elif kind == "unlink":
            self.directories.setdefault(facts[0], {}).pop(facts[1], None)
        elif kind == "rename":
            source, old, target, new, number = facts
            entries = self.directories.setdefault(source, {})
            if entries.get(old) == number:
                del entries[old]
            self.directories.setdefault(target, {})[new] = number
        elif kind == "write":
            number, offset, data = facts
            file = self.files.setdefault(number, bytearray())
            file.extend(bytes(max(0, offset + len(data) - len(file))))
            file[offset : offset + len(data)] = data
        elif kind == "truncate":
            file = self.files.setdefault(facts[0], bytearray())
            file.extend(bytes(max(0, facts[1] - len(file))))
            del file[facts[1] :]

    def write(self, root: Path, number: int = ROOT) -> None:
        """Write the tree to a directory that does not exist yet."""
        root.mkdir()
        for name, child in self.directories[number].items():
            if child in self.directories:
                self.write(root / name, child)
            else:
                (root / name).write_bytes(self.files.get(child, b""))

    def content(self, number: int = ROOT) -> tuple[Any, ...]:
        """All of it as one value, to be compared."""
        entries = sorted(self.directories[number].items())
        return tuple(
            (name, self.content(child) if child in self.directories else bytes(self.files.get(child, b"")))
            for name, child in entries
        )


def owner(event: Event) -> tuple[int, ...]:
    """The numbers whose syncing makes the event durable: a file's for its bytes, a directory's for its names."""
    kind = event[0]
    return (event[1], event[3]) if kind == "rename" else (event[1],)


def after_power_cut(before: Tree, events: list[Event], mode: Mode, rng: np.random.Generator) -> Tree:
    """What is on the disk when the power fails after these events."""
    tree = copy.deepcopy(before)
    waiting: list[Event] = []
    for event in events:
        if event[0] == "sync":
            synced = [each for each in waiting if event[1] in owner(each)]
            waiting = [each for each in waiting if event[1] not in owner(each)]
            for each in synced:
                tree.apply(each)
        elif event[0] != "ack":
            waiting.append(event)
    for event in waiting:
        for part in _left_of(event, mode, rng):
            tree.apply(part)
    return tree


def _left_of(event: Event, mode: Mode, rng: np.random.Generator) -> list[Event]:
    of_bytes = event[0] in ("write", "truncate")
    if mode != "random":
        return [event] if mode == "keep" or mode == ("bytes" if of_bytes else "names") else []
    fate = rng.integers(6)
    if event[0] != "write":
        return [event] if fate < 3 else []
    _, number, offset, data = event
    if fate < 2:
        return [event]
    if fate == 2:  # the length was written, the bytes were not
        return [("write", number, offset, bytes(len(data)))]
    if fate == 3:  # some sectors
        starts = [start for start in range(0, len(data), SECTOR_BYTES) if rng.integers(2)]
        return [("write", number, offset + start, data[start : start + SECTOR_BYTES]) for start in starts]
    return []
