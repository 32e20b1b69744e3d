"""Shards fetched to a folder of this machine: each once for all processes, kept as long as one of them uses it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from storage.cluster import Cluster
from storage.generation_manifest import ShardEntry
from storage.shard_files import fetch_files

KEPT_S = 3_600.0
"""A shard that nobody has open stays for so long: another process may be about to open it."""
_POLL_S = 0.01


@dataclass(frozen=True)
class FetchedShard:
    """A shard's directory, which nobody removes before it is released."""

    path: Path
    descriptor: int

    def release(self) -> None:
        """Let it be removed when it is not needed any more."""
        os.close(self.descriptor)  # and with it goes the lock


class FetchedShards:
    """The shards of a cluster that were fetched: `folder/CLUSTER/SHARD`.

    Whoever has one open holds a lock on its directory, which the kernel gives back when the process dies.

    Args:
        cluster: where they are from.
        folder: where they are kept.
        kept_s: how long one stays that nobody has open and the generation does not name.
    """

    def __init__(self, cluster: Cluster, folder: Path, kept_s: float = KEPT_S) -> None:
        self._cluster = cluster
        self._folder = folder / cluster.name
        self._kept_s = kept_s

    def get(self, entry: ShardEntry) -> FetchedShard:
        """Return a shard, fetched and checked if it was not there.

        Raises:
            CorruptError: an object is missing or damaged.
        """
        directory = self._folder / entry.name
        while True:
            held = _held(directory)
            if held is not None:
                return FetchedShard(directory, held)
            if not directory.exists():
                self._fetch(entry, directory)
            else:
                time.sleep(_POLL_S)  # it is being removed

    def _fetch(self, entry: ShardEntry, directory: Path) -> None:
        coming = self._folder / f".{entry.name}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        coming.mkdir(parents=True)
        held = _held(coming)
        if held is None:
            return  # it was taken for one that was left; the caller looks again
        try:
            fetch_files(self._cluster.store, entry.files, coming)
            try:
                coming.rename(directory)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # another was sooner, and may be gone again
                    raise
        finally:
            os.close(held)
            shutil.rmtree(coming, ignore_errors=True)

    def remove_all_but(self, names: Collection[str]) -> None:
        """Remove shards of other names that nobody has open, and what killed processes left, if they are old."""
        before = time.time() - self._kept_s
        try:
            found = [path for path in self._folder.iterdir() if path.name not in names]
        except FileNotFoundError:
            return
        for path in found:
            with contextlib.suppress(OSError):  # gone meanwhile, or of another user
                if path.stat().st_mtime <= before:
                    self._remove(path)

    def _remove(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not os.path.samestat(os.fstat(descriptor), path.stat()):
                return  # another removed it, and it was fetched anew since
            leaving = path.with_name(f".leaving-{uuid.uuid4().hex}")
            path.rename(leaving)
            shutil.rmtree(leaving, ignore_errors=True)
        finally:
            os.close(descriptor)


def _held(directory: Path) -> int | None:
    """Return a descriptor that holds a directory; None where it is not there or is being removed."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno == errno.EWOULDBLOCK:
            os.close(descriptor)
            return None
        # A file system without locks, where nothing is removed either.
    try:
        is_same = os.path.samestat(os.fstat(descriptor), directory.stat())
    except FileNotFoundError:
        is_same = False
    if not is_same:
        os.close(descriptor)
        return None
    return descriptor
