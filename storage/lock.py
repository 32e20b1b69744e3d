"""The writer lock: one process writes to a knowledge base at a time.

`flock` is released by the kernel when the process dies, however it dies, so there is no stale lock to break. Readers
that could not see a writer's changes, on a read-only mount, hold it together and keep writers out.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType

from storage.durable import write_error
from storage.errors import InvalidOptionError, LockedError, NotAKnowledgeBaseError
from storage.operating_system import operating_system

__all__ = ["LOCK_NAME", "WriterLock", "hold_off_writers", "is_locked"]

LOCK_NAME = "writer.lock"
_POLL_S = 0.05


class WriterLock:
    """An exclusive lock on the file `writer.lock` of a knowledge base, held from construction to `release()`."""

    def __init__(self, directory: Path, *, timeout_s: float = 10.0) -> None:
        """Waits up to `timeout_s` seconds, then raises LockedError naming the process that holds the lock."""
        if timeout_s < 0:
            raise InvalidOptionError(f"lock timeout is {timeout_s} s; give 0 (do not wait) or more")
        self.path = directory / LOCK_NAME
        try:
            self._descriptor: int | None = operating_system().open(self.path, os.O_RDWR | os.O_CREAT)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotAKnowledgeBaseError(f"{directory} is not a directory; create one with 'kbengine build'") from error
        except PermissionError as error:
            raise LockedError(
                f"{self.path} cannot be opened for writing; run as the user who owns the knowledge base"
            ) from error
        except OSError as error:
            raise write_error(error, self.path) from error
        try:
            self._acquire(timeout_s)
        except BaseException:
            self.release()
            raise

    def _acquire(self, timeout_s: float) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            raise LockedError(f"{self.path}: this lock was released; make a new one")
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise LockedError(
                        f"{self.path.parent} is being {self._use()}; waited {timeout_s:g} s: wait for it to end, or "
                        "stop it"
                    ) from error
                time.sleep(_POLL_S)
            except OSError as error:
                raise write_error(error, self.path) from error
        holder = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        # The lock is held already; on a full disk only the name in the others' message is missing.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(holder).encode(), 0)

    def _use(self) -> str:
        if hold_off_writers(self.path.parent, for_good=False) is not None:
            return "read through a read-only mount, where changes would not be seen; mount it writable for its readers"
        return f"written by {self._holder()}"

    def _holder(self) -> str:
        # Only for the message: the holder may be between taking the lock and writing its name.
        try:
            holder = json.loads(self.path.read_text("utf-8"))
            return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"

    def release(self) -> None:
        """Free the lock for others. Calling it again does nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def hold_off_writers(directory: Path, *, for_good: bool = True) -> int | None:
    """Return a descriptor that keeps writers out until it is closed, None when one is at work or none ever was.

    Args:
        directory: The knowledge base.
        for_good: False only tries it: the descriptor is closed already.
    """
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None  # nobody has ever written, or we may not look
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    if not for_good:
        os.close(descriptor)
    return descriptor


def is_locked(directory: Path) -> bool:
    """Return whether some process, this one included, holds the writer lock just now."""
    return (directory / LOCK_NAME).exists() and hold_off_writers(directory, for_good=False) is None
