"""The number of the newest acknowledged commit, kept outside database and log: what is missing is then noticed.

SQLite ends the recovery of its log at the first frame that is damaged, and forgets the commits after it without a word.
From the log alone damage in the last transaction looks like a write that a power cut interrupted. So each commit, once
it is durable, is noted in a file of its own and that is synced, before the caller hears of it: a database older than
its note has lost something. The two places of the file are written in turns, so a torn write spoils the older note.
"""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

from storage.durable import read_error, write_durably
from storage.errors import CorruptError
from storage.operating_system import operating_system

__all__ = ["ACKNOWLEDGED_NAME", "Acknowledged", "check_nothing_lost", "read_acknowledged"]

ACKNOWLEDGED_NAME = "acknowledged"
_PLACE_BYTES = 4096  # as much as a disk writes at once: a torn write of one place leaves the other alone
_PLACES = 2

_log = logging.getLogger(__name__)


class Acknowledged:
    """The note of one writer; `note` after each commit."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / ACKNOWLEDGED_NAME
        notes = _notes(self._path)
        self.generation = max(notes, default=0)
        self._next_place = 0 if not notes or notes[0] < self.generation else 1

    def note(self, generation: int) -> None:
        """Note durably that this commit took place. What fails is logged: the commit itself is durable already."""
        if generation <= self.generation:
            return
        try:
            self._write(generation)
        except Exception as error:  # whatever it is, the caller's change has been made
            _log.warning("%s: commit %d could not be noted (%s)", self._path, generation, error)
            return
        self.generation = generation
        self._next_place = (self._next_place + 1) % _PLACES

    def forget(self, generation: int) -> None:
        """Let the note be of an older commit: what came after it is lost, and that was accepted."""
        write_durably(self._path, [_line(generation).ljust(_PLACE_BYTES, b"\n") * _PLACES], replace=True)
        self.generation = generation

    def _write(self, generation: int) -> None:
        line = _line(generation)
        if not self._path.exists():
            write_durably(self._path, [line.ljust(_PLACE_BYTES, b"\n") * _PLACES])
            return
        calls = operating_system()
        descriptor = calls.open(self._path, os.O_WRONLY)
        try:
            written = 0
            while written < len(line):
                written += calls.pwrite(descriptor, line[written:], self._next_place * _PLACE_BYTES + written)
            calls.fsync(descriptor)
        finally:
            calls.close(descriptor)


def read_acknowledged(directory: Path) -> int:
    """Return the number of the newest commit that is noted, 0 when there is no note. Ask before the database."""
    return max(_notes(directory / ACKNOWLEDGED_NAME), default=0)


def check_nothing_lost(directory: Path, *, acknowledged: int, generation: int) -> None:
    """Raise CorruptError when the database is older than a commit that was acknowledged."""
    if generation < acknowledged:
        raise CorruptError(
            f"{directory} is at commit {generation}, but commit {acknowledged} was acknowledged: the log or kb.sqlite "
            "is damaged, or of another time; restore a backup ('kbengine restore'), or go on without what is lost: "
            "'kbengine verify --repair --accept-loss'"
        )


def _notes(path: Path) -> list[int]:
    """Return the notes that are whole, in the order of their places."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise read_error(error, path) from error
    places = (data[place * _PLACE_BYTES :][:_PLACE_BYTES].split(b"\n", 1)[0] for place in range(_PLACES))
    return [_number(line) for line in places]


def _number(line: bytes) -> int:
    words = line.split()
    return int(words[1]) if len(words) == 3 and words[1].isdigit() and _line(int(words[1])) == line + b"\n" else 0


def _line(generation: int) -> bytes:
    number = b"commit %020d" % generation
    return number + b" " + hashlib.sha256(number).hexdigest()[:16].encode() + b"\n"
