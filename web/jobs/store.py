"""Jobs on disk: a small SQLite database of their states, and a folder for each one's files.

All processes that serve the knowledge base read and write the same database. Which of them does a job is settled by a
lock on a file in the job's folder: the kernel gives it back when a process ends, however it ends, so a job that was
running then is taken up by the next process that looks.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbengine.errors import StateError
from storage.database import raw_connection, translated
from storage.durable import fsync_directory, fsync_file
from storage.operating_system import operating_system, remove_tree
from web.errors import IdempotencyConflictError, QueueFullError, UnknownJobError
from web.jobs.job import UNFINISHED, Job, Outcome, Progress, ResultFile, State

FOLDER_NAME = "jobs"
DATABASE_NAME = "jobs.sqlite"
MAX_UNFINISHED = 100
"""Jobs that may wait or run."""
MAX_FINISHED = 1000
"""Finished jobs that are kept; the oldest are forgotten first."""
ABANDONED_S = 86_400.0
"""After how long a folder that no job has is removed: one whose input is still being received is younger."""
RESULT_NAME = "result"
"""A file that a finished job gives, in its folder."""
_VERSION = 1
_ID_BYTES = 8
_SCHEMA = """
CREATE TABLE IF NOT EXISTS job (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    arguments TEXT NOT NULL,
    owner TEXT,
    operation TEXT UNIQUE,
    digest TEXT NOT NULL,
    state TEXT NOT NULL DEFAULT 'queued',
    is_cancelling INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    started_at REAL,
    finished_at REAL,
    stage TEXT,
    done INTEGER NOT NULL DEFAULT 0,
    total INTEGER,
    seconds_left REAL,
    cursor TEXT,
    outcome TEXT,
    problem TEXT
)
"""
_COLUMNS = (
    "number, id, kind, title, arguments, owner, state, is_cancelling, attempts, created_at, started_at, finished_at, "
    "stage, done, total, seconds_left, cursor, outcome, problem"
)
_IS_UNFINISHED = f"state IN ({', '.join(repr(state) for state in UNFINISHED)})"


class JobStore:
    """The jobs of one knowledge base; usable from several threads, beside other processes.

    Nothing is written before the first job, so that a knowledge base on a read-only mount is served as well.
    """

    def __init__(self, knowledge_base: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = knowledge_base / FOLDER_NAME
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: Any = None

    @property
    def exists(self) -> bool:
        """Tell whether there was ever a job."""
        return self._connection is not None or (self.folder / DATABASE_NAME).exists()

    def new_folder(self) -> Path:
        """Return the new folder of a job to be; its name is the job's id.

        Raises:
            StateError: the knowledge base's directory cannot be written.
        """
        path = self.folder / secrets.token_hex(_ID_BYTES)
        calls = operating_system()
        try:
            with contextlib.suppress(FileExistsError):
                calls.mkdir(self.folder, 0o700)
            calls.mkdir(path, 0o700)
        except OSError as error:
            raise StateError(
                f"jobs cannot be kept in {self.folder}: {error.strerror}; let the service write there"
            ) from error
        return path

    def add(
        self,
        folder: Path,
        kind: str,
        title: str,
        arguments: Mapping[str, Any],
        *,
        owner: str | None = None,
        operation: str | None = None,
    ) -> Job:
        """Store the job of a folder, to be done when its turn comes; durable with its input when this returns.

        Args:
            folder: From `new_folder`, with the job's input in it.
            kind: What is to be done.
            title: What people know it by.
            arguments: What the work needs to know, as JSON values.
            owner: Id of the API key that asks for it.
            operation: The caller's name for it: with the same name it is made once, and returned the second time.

        Raises:
            QueueFullError: too many jobs are waiting.
            IdempotencyConflictError: the name was used for something else before.
        """
        digest = _digest(kind, arguments, folder)
        for path in (*(path for path in folder.rglob("*") if path.is_dir()), folder, self.folder, self.folder.parent):
            fsync_directory(path)
        with self._transaction(create=True) as connection:
            if operation is not None:
                row = connection.execute("SELECT id, digest FROM job WHERE operation = ?", (operation,)).fetchone()
                if row is not None:
                    if row[1] != digest:
                        raise IdempotencyConflictError(
                            "this idempotency key was used for another job before; use a new key for each job"
                        )
                    remove_tree(folder)
                    return self._get(connection, row[0])
            (n,) = connection.execute(f"SELECT count(*) FROM job WHERE {_IS_UNFINISHED}").fetchone()
            if n >= MAX_UNFINISHED:
                raise QueueFullError(
                    f"{n} jobs are waiting or running, {MAX_UNFINISHED} may; try again later", retry_after_s=30
                )
            connection.execute(
                "INSERT INTO job (id, kind, title, arguments, owner, operation, digest, created_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (folder.name, kind, title, json.dumps(dict(arguments)), owner, operation, digest, self._clock()),
            )
            return self._get(connection, folder.name)

    def get(self, job_id: str) -> Job:
        """Return the job.

        Raises:
            UnknownJobError: there is none.
        """
        with self._reading() as connection:
            if connection is None:
                raise _unknown(job_id)
            return self._get(connection, job_id)

    def has(self, job_id: str) -> bool:
        """Tell whether there is a job of this id."""
        with self._reading() as connection:
            if connection is None:
                return False
            return connection.execute("SELECT 1 FROM job WHERE id = ?", (job_id,)).fetchone() is not None

    def newest(
        self, limit: int, *, before: int | None = None, owner: str | None = None, state: State | None = None
    ) -> list[Job]:
        """Return jobs, the newest first.

        Args:
            limit: How many at most.
            before: Only those with a smaller number.
            owner: Only those of this key.
            state: Only those in this state.
        """
        wanted = {"number < ?": before, "owner = ?": owner, "state = ?": state}
        given = {condition: value for condition, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM job{where} ORDER BY number DESC LIMIT ?", (*given.values(), limit)
            )
            return [_job(row) for row in rows.fetchall()]

    def unfinished(self) -> list[Job]:
        """Return the jobs that wait or run, the oldest first."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(f"SELECT {_COLUMNS} FROM job WHERE {_IS_UNFINISHED} ORDER BY number")
            return [_job(row) for row in rows.fetchall()]

    @contextlib.contextmanager
    def claimed(self, job_id: str) -> Iterator[bool]:
        """Hold the job in the block, if nobody else does; yield whether it is held."""
        try:
            descriptor = os.open(self.folder / job_id / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:  # the job was removed meanwhile
            yield False
            return
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(descriptor)

    def begin(self, job_id: str) -> Job | None:
        """Return the job, running from now on; None when it is finished meanwhile. Its claim must be held."""
        with self._transaction() as connection:
            changed = connection.execute(
                f"UPDATE job SET state = 'running', attempts = attempts + 1, started_at = coalesce(started_at, ?) "
                f"WHERE id = ? AND {_IS_UNFINISHED}",
                (self._clock(), job_id),
            )
            return self._get(connection, job_id) if changed.rowcount else None

    def report(self, job_id: str, progress: Progress, cursor: Any = None) -> bool:
        """Store how far a job is, and where it would go on; return whether it was told to stop."""
        values = (progress.stage, progress.done, progress.total, progress.seconds_left)
        with self._transaction() as connection:
            connection.execute(
                "UPDATE job SET stage = ?, done = ?, total = ?, seconds_left = ?, cursor = coalesce(?, cursor) "
                "WHERE id = ?",
                (*values, None if cursor is None else json.dumps(cursor), job_id),
            )
            row = connection.execute("SELECT is_cancelling FROM job WHERE id = ?", (job_id,)).fetchone()
            return row is None or bool(row[0])

    def requeue(self, job_id: str) -> None:
        """Leave an interrupted job to the next process."""
        with self._transaction() as connection:
            connection.execute(
                "UPDATE job SET state = 'queued', seconds_left = NULL, attempts = attempts - 1 "
                "WHERE id = ? AND state = 'running'",
                (job_id,),
            )

    def finish(
        self,
        job_id: str,
        state: State,
        *,
        outcome: Outcome | None = None,
        problem: Mapping[str, Any] | None = None,
    ) -> None:
        """Store what came of a job; its file is on disk before."""
        told = None
        result = self.folder / job_id / RESULT_NAME
        if result.exists():
            fsync_file(result)
            fsync_directory(result.parent)
        if outcome is not None:
            file = outcome.file
            told = json.dumps(
                {
                    "facts": dict(outcome.facts),
                    "file": None if file is None else {"name": file.name, "media_type": file.media_type},
                }
            )
        with self._transaction() as connection:
            connection.execute(
                "UPDATE job SET state = ?, finished_at = ?, seconds_left = NULL, outcome = ?, problem = ? WHERE id = ?",
                (state, self._clock(), told, None if problem is None else json.dumps(dict(problem)), job_id),
            )

    def cancel(self, job_id: str) -> Job:
        """Return the job, told to stop: one that waits is cancelled at once, one that runs soon.

        Raises:
            UnknownJobError: there is none.
        """
        self.get(job_id)
        with self._transaction() as connection:
            connection.execute(
                "UPDATE job SET state = 'cancelled', finished_at = ? WHERE id = ? AND state = 'queued'",
                (self._clock(), job_id),
            )
            connection.execute(f"UPDATE job SET is_cancelling = 1 WHERE id = ? AND {_IS_UNFINISHED}", (job_id,))
            return self._get(connection, job_id)

    def remove(self, job_ids: Sequence[str]) -> None:
        """Forget finished jobs and delete their files."""
        with self._transaction() as connection:
            gone = [
                job_id
                for job_id in job_ids
                if connection.execute(f"DELETE FROM job WHERE id = ? AND NOT {_IS_UNFINISHED}", (job_id,)).rowcount
            ]
        for job_id in gone:
            remove_tree(self.folder / job_id)

    def expire(self, keep_s: float) -> list[str]:
        """Forget what finished so long ago, and folders that no job has; return the ids of the jobs."""
        with self._reading() as connection:
            if connection is None:
                return []
            rows = connection.execute(
                f"SELECT id, finished_at FROM job WHERE NOT {_IS_UNFINISHED} ORDER BY finished_at DESC"
            ).fetchall()
            known = {row[0] for row in connection.execute("SELECT id FROM job").fetchall()}
        now = self._clock()
        gone = [job_id for n, (job_id, at) in enumerate(rows) if n >= MAX_FINISHED or now - at > keep_s]
        if gone:
            self.remove(gone)
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if path.is_dir() and path.name not in known and now - path.stat().st_mtime > ABANDONED_S:
                    remove_tree(path)
        return gone

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Any]:
        """Give the connection, None where there is no database, to one thread at a time."""
        with self._lock, translated(self.folder, DATABASE_NAME):
            yield self._connected() if self.exists else None

    @contextlib.contextmanager
    def _transaction(self, *, create: bool = False) -> Iterator[Any]:
        with self._lock, translated(self.folder, DATABASE_NAME):
            if not create and not self.exists:
                raise StateError(f"{self.folder} is gone; start the service again")
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _connected(self) -> Any:
        if self._connection is None:
            connection = raw_connection(self.folder / DATABASE_NAME, mode="rwc")
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                if version > _VERSION:
                    raise StateError(f"{self.folder} is of a newer kbengine; install that, or remove the folder")
                connection.execute(_SCHEMA)
                connection.execute(f"PRAGMA user_version={_VERSION}")
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    @staticmethod
    def _get(connection: Any, job_id: str) -> Job:
        row = connection.execute(f"SELECT {_COLUMNS} FROM job WHERE id = ?", (job_id,)).fetchone()
        if row is None:
            raise _unknown(job_id)
        return _job(row)


def _job(row: Sequence[Any]) -> Job:
    (number, job_id, kind, title, arguments, owner, state, is_cancelling, attempts) = row[:9]
    (created_at, started_at, finished_at, stage, done, total, seconds_left, cursor, outcome, problem) = row[9:]
    return Job(
        number,
        job_id,
        kind,
        title,
        json.loads(arguments),
        owner,
        state,
        bool(is_cancelling),
        attempts,
        created_at,
        started_at,
        finished_at,
        None if stage is None else Progress(stage, done, total, seconds_left),
        None if cursor is None else json.loads(cursor),
        None if outcome is None else _outcome(json.loads(outcome)),
        None if problem is None else json.loads(problem),
    )


def _outcome(stored: Mapping[str, Any]) -> Outcome:
    file = stored["file"]
    return Outcome(stored["facts"], None if file is None else ResultFile(**file))


def _digest(kind: str, arguments: Mapping[str, Any], folder: Path) -> str:
    """Return what two equal jobs share: the SHA-256 of kind, arguments and input files."""
    digest = hashlib.sha256(json.dumps([kind, dict(arguments)], sort_keys=True).encode())
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock"):
        digest.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _unknown(job_id: str) -> UnknownJobError:
    return UnknownJobError(f"no job {job_id[:80]!r}; finished jobs are forgotten after a time, GET /v1/jobs lists them")
