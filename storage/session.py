"""A writer's one connection: transactions that are durable or nothing, and what happens when a disk fails."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import Connection

from storage.acknowledged import Acknowledged
from storage.catalog import live_segments, newest_generation_number
from storage.database import run_in_autocommit, translated, writer_engine
from storage.durable import fsync_directory, remove_file, write_error
from storage.errors import CorruptError, KBError, LockedError, StateError, StorageFullError, UsageError
from storage.segment import SegmentFile, segment_path

__all__ = ["INDEX_DIRECTORY", "SEGMENT_DIRECTORY", "WriteSession"]

SEGMENT_DIRECTORY = "segments"
INDEX_DIRECTORY = "index"

_log = logging.getLogger(__name__)


class WriteSession:
    """The writing connection of an open knowledge base, shared by a writer and its background merges.

    After an I/O error other than a full disk the session is poisoned: an fsync that failed once may have dropped
    the pages it should have written, so nothing more is written until the knowledge base is opened again.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.acknowledged = Acknowledged(directory)
        self.mutex = threading.RLock()
        self._engine = writer_engine(directory)
        self._poison: str | None = None
        self._in_doubt = False
        self._doubtful: list[str] = []

    @property
    def segment_directory(self) -> Path:
        """Where the segment files are."""
        return self.directory / SEGMENT_DIRECTORY

    @property
    def index_directory(self) -> Path:
        """Where the files derived from segments are."""
        return self.directory / INDEX_DIRECTORY

    @property
    def is_usable(self) -> bool:
        """Whether neither an I/O error nor `close` ended this session."""
        return self._poison is None

    def check_usable(self) -> None:
        """Raise StateError when an earlier I/O error or `close` ended this session."""
        if self._poison is not None:
            raise StateError(f"{self.directory} takes no more writes: {self._poison}; close it and open it again")

    def poison(self, reason: object) -> None:
        """Let every later call raise a StateError that tells the reason."""
        if self._poison is None:
            self._poison = str(reason)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Run a transaction: committed and durable at the end of the block, or rolled back when the block raises."""
        with self.mutex:
            self.check_usable()
            self._in_doubt = False
            committing = False
            try:
                with translated(self.directory), self._engine.connect() as connection, connection.begin():
                    yield connection
                    generation = newest_generation_number(connection)
                    committing = True
            except StorageFullError as error:
                # SQLITE_FULL: a write was refused, so no commit mark is in the log. Quota and file-size limits come
                # as an I/O error that might be a failed fsync. Either way a new connection starts from the log.
                cause = getattr(error.__cause__, "orig", error.__cause__)
                self._in_doubt = committing and getattr(cause, "sqlite_errorname", "") != "SQLITE_FULL"
                self.reconnect()
                raise
            except (UsageError, LockedError):
                raise
            except BaseException as error:
                self._in_doubt = committing
                if not isinstance(error, KBError) or isinstance(error, (StateError, CorruptError)):
                    self.poison(error)
                raise
            self.acknowledged.note(generation)
            self._settle_doubts()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run a read transaction on the writing connection; keep it short, it blocks other users of the session."""
        with self.mutex:
            self.check_usable()
            with translated(self.directory), self._engine.connect() as connection:
                yield connection

    @contextlib.contextmanager
    def file_work(self) -> Iterator[None]:
        """Write segment files in the block: a disk that fails for another reason than being full poisons."""
        try:
            yield
        except StateError as error:
            self.poison(error)
            raise
        except OSError as error:
            self.poison(error)
            raise write_error(error, self.directory) from error

    def discard(self, files: list[SegmentFile]) -> None:
        """Unlink files whose transaction failed: at once, or when it is sure that it did not take place.

        After a failed fsync the next recovery may still find the commit in the log, and it would name these files.
        """
        names = [file.name for file in files]
        if self._in_doubt:
            self._doubtful += names
        else:
            self.unlink(names)

    def _settle_doubts(self) -> None:
        # The commit just made took the failed one's place in the log, or follows it if it did take place.
        if self._doubtful:
            names, self._doubtful = self._doubtful, []
            with self.reading() as connection:
                live = {row.file.name for row in live_segments(connection)}
            self.unlink([name for name in names if name not in live])

    def unlink(self, names: list[str]) -> None:
        """Unlink files of segments that are not live (any more); what resists is left to the next open."""
        for name in names:
            self.remove([segment_path(self.segment_directory, name), *self.index_directory.glob(f"{name}.*")])

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files that nothing refers to (any more); what resists is left to the next open."""
        for path in paths:
            error = remove_file(path)
            if error is not None:
                _log.warning("%s cannot be removed (%s); the next open tries again", path, error.strerror)
        # Not synced: a name that comes back after a power cut is a leftover for the next open, no harm.

    def note_newest(self) -> None:
        """Note that the newest commit took place: an earlier process may have ended before it could."""
        with self.reading() as connection:
            generation = newest_generation_number(connection)
        self.acknowledged.note(generation)

    def sync_names(self) -> None:
        """Make sure that unlinked names stay gone after a power cut."""
        for directory in (self.segment_directory, self.index_directory):
            if directory.is_dir():  # tools that copy files only leave empty directories out
                fsync_directory(directory)

    def run_outside_transaction(self, *statements: str) -> None:
        """Run the statements in autocommit mode, as VACUUM and checkpoints must."""
        with self.mutex, translated(self.directory):
            run_in_autocommit(self._engine, *statements)

    def reconnect(self) -> None:
        """Use a new connection for the next transaction."""
        self._engine.dispose()

    def close(self) -> None:
        """Copy the log into kb.sqlite as far as readers allow, and close the connection."""
        with self.mutex:
            if self._poison is None:
                try:
                    self.run_outside_transaction("PRAGMA wal_checkpoint(TRUNCATE)")
                except KBError as error:
                    # Everything acknowledged is in the log already; a later open copies it.
                    _log.warning("%s: the log was not copied on closing: %s", self.directory, error.message)
            self.poison("it was closed")
            self._engine.dispose()
