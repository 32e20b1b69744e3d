"""Making few large shards of many small ones, while the cluster is searched and changed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select

from storage import cluster_schema as schema
from storage.cluster import Cluster
from storage.cluster_catalog import GenerationRow
from storage.cluster_changes import replace_shards
from storage.cluster_lease import Lease, held_lease
from storage.cluster_shards import NewShard
from storage.common_settings import CommonSettings
from storage.durable import is_abandoned
from storage.errors import InvalidOptionError, LockedError
from storage.generation_manifest import ShardEntry
from storage.merging import FAN_IN, MAX_ROWS, plan_merge
from storage.shard_files import fetch_files, put_shard, read_common
from storage.shard_merge import ShardPart, merge_shards

__all__ = ["CompactionLimits", "compact_cluster", "compact_step", "plan_compaction", "plan_step"]

LEAST_MAX_ROWS = 200_000
"""Shards together may become as large as the largest there is, and this large in any case."""

_LEASE = "compaction"


@dataclass(frozen=True)
class CompactionLimits:
    """Which small shards are put together while a service runs.

    Attributes:
        fan_in: So many neighbouring shards of like size become one, which is so many times as large.
        max_rows: Stored tokens that a new shard has at most; None: as many as the largest shard has, 200,000 in any
            case and 4 million at most.
    """

    fan_in: int = FAN_IN
    max_rows: int | None = None

    def __post_init__(self) -> None:
        if not 2 <= self.fan_in <= 1_000:
            raise InvalidOptionError(f"fan_in is {self.fan_in}, wanted 2 to 1,000")
        if self.max_rows is not None and self.max_rows < 1:
            raise InvalidOptionError(f"max_rows is {self.max_rows}; wanted at least 1")


class _Stopped(Exception):  # noqa: N818  # no error: whoever asked for it knows
    """The work was to end."""


@dataclass(frozen=True)
class _Work:
    """Where work goes on, until when, and what new shards say of themselves."""

    cluster: Cluster
    common: CommonSettings
    created_at: str
    kbengine_version: str
    scratch: Path
    goes_on: Callable[[], bool]
    uploaded: Callable[[ShardEntry, frozenset[str]], None]


def plan_step(shards: Sequence[ShardEntry], limits: CompactionLimits) -> list[ShardEntry]:
    """Return the neighbouring shards that are to become one next, none where nothing is due.

    A row is written anew a number of times that grows with the logarithm of how many there are. A shard of which half
    of the documents are dead is made anew alone.

    Args:
        shards: by rising ordinal.
        limits: how many make one, and how large.
    """
    largest = max((shard.rows for shard in shards), default=0)
    most = limits.max_rows or min(MAX_ROWS, max(largest, LEAST_MAX_ROWS))
    due = plan_merge([shard.rows + shard.passages for shard in shards], max_size=most, fan_in=limits.fan_in)
    if due is not None:
        return [shards[position] for position in due]
    half_dead = (shard for shard in shards if 2 * shard.dead >= shard.documents > 0 and shard.rows <= most)
    return list(next(zip(half_dead, strict=False), ()))


def plan_compaction(shards: Sequence[ShardEntry], *, max_rows: int, purge: bool = False) -> list[list[ShardEntry]]:
    """Return runs of neighbouring shards that are to become one each.

    Args:
        shards: by rising ordinal.
        max_rows: stored tokens that a new shard has at most; larger ones stay as they are.
        purge: shards with dead documents are made anew though they stay alone.
    """
    groups: list[list[ShardEntry]] = [[]]
    rows = 0
    for shard in shards:
        if groups[-1] and rows + shard.rows > max_rows:
            groups.append([])
            rows = 0
        groups[-1].append(shard)
        rows += shard.rows
    return [group for group in groups if len(group) > 1 or (purge and group and group[0].dead)]


def compact_cluster(
    cluster: Cluster, *, created_at: str, kbengine_version: str, max_rows: int | None = None, purge: bool = False
) -> list[GenerationRow]:
    """Put neighbouring small shards together, without dead documents; return the generations that this made.

    Args:
        cluster: Which; searched and changed meanwhile.
        created_at: When new shards say that they were made.
        kbengine_version: For the manifests.
        max_rows: Stored tokens that a new shard has at most; None: as many as the largest shard has, so that what was
            built for several machines stays for several.
        purge: Shards with dead documents are made anew though they stay alone.

    Raises:
        InvalidOptionError: `max_rows` is not positive.
        LockedError: Another machine does this now, or the catalog did not answer for so long that it may.
        CorruptError: A shard is missing or damaged.
    """
    if max_rows is not None and max_rows < 1:
        raise InvalidOptionError(f"max_rows is {max_rows}; wanted at least 1")
    manifest = cluster.manifest()
    largest = max((shard.rows for shard in manifest.shards), default=0)
    groups = plan_compaction(manifest.shards, max_rows=max_rows or max(largest, LEAST_MAX_ROWS), purge=purge)
    if not groups:
        return []
    made: list[GenerationRow] = []
    with _compacting(cluster, created_at, kbengine_version) as work:
        for group in groups:
            try:
                row = _replaced(work, group)
            except _Stopped:
                raise LockedError(
                    f"the catalog {cluster.catalog.place} did not answer for a minute, so another may compact now; "
                    f"{len(made)} new shards are done and stay: run this again when it answers"
                ) from None
            if row is not None:
                made.append(row)
    return made


def compact_step(
    cluster: Cluster,
    limits: CompactionLimits,
    *,
    created_at: str,
    kbengine_version: str,
    scratch: Path | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    uploaded: Callable[[ShardEntry, frozenset[str]], None] = lambda _entry, _old: None,
) -> GenerationRow | None:
    """Put the small shards together that are due next; return the generation, None where nothing was to do.

    Args:
        cluster: Which; searched and changed meanwhile.
        limits: What is due.
        created_at: When a new shard says that it was made.
        kbengine_version: For the manifest.
        scratch: A folder for what is made on the way; None: where temporary files belong.
        goes_on: Asked between steps; where it says no, nothing is changed.
        uploaded: Told of the new shard, and the names of those in whose place it comes, before that is seen.

    Raises:
        LockedError: Another service does this now.
        CorruptError: A shard is missing or damaged.
    """
    if not plan_step(cluster.manifest().shards, limits):
        return None
    with _compacting(
        cluster, created_at, kbengine_version, scratch=scratch, goes_on=goes_on, uploaded=uploaded
    ) as work:
        group = plan_step(cluster.manifest().shards, limits)  # another may have done it before we had the lease
        try:
            return _replaced(work, group) if group else None
        except _Stopped:
            return None


@contextlib.contextmanager
def _compacting(
    cluster: Cluster,
    created_at: str,
    kbengine_version: str,
    *,
    scratch: Path | None = None,
    goes_on: Callable[[], bool] = lambda: True,
    uploaded: Callable[[ShardEntry, frozenset[str]], None] = lambda _entry, _old: None,
) -> Iterator[_Work]:
    """Give what work needs, while nobody else does this."""
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    common = read_common(cluster.store, cluster.manifest().common)
    with held_lease(cluster.catalog, _LEASE, holder=holder) as lease, _scratch(cluster, scratch) as folder:
        yield _Work(cluster, common, created_at, kbengine_version, folder, _both(lease, goes_on), uploaded)


def _both(lease: Lease, goes_on: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: lease.is_held and goes_on()


@contextlib.contextmanager
def _scratch(cluster: Cluster, parent: Path | None) -> Iterator[Path]:
    """Give a folder that is removed at the end; those of compactions that were killed are removed first."""
    prefix = f"kbengine-compaction-{cluster.name[:12]}-"
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    for left in Path(parent or tempfile.gettempdir()).glob(f"{prefix}*"):
        if is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent) as name:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            yield Path(name)
        finally:
            os.close(descriptor)


def _replaced(work: _Work, group: Sequence[ShardEntry]) -> GenerationRow | None:
    """Return the generation in which one shard has the place of these; None where one of them is gone."""
    new = _merged(work, group)
    old = [shard.name for shard in group]
    work.uploaded(new.entry, frozenset(old))
    return replace_shards(work.cluster, old, [new], kbengine_version=work.kbengine_version)


def _merged(work: _Work, group: Sequence[ShardEntry]) -> NewShard:
    cluster = work.cluster
    with tempfile.TemporaryDirectory(dir=work.scratch) as scratch:
        parts: list[ShardPart] = []
        for number, shard in enumerate(group):
            _check(work)
            folder = Path(scratch) / str(number)
            folder.mkdir()
            fetch_files(cluster.store, shard.files, folder)
            # A document's id is its ordinal and one.
            parts.append(ShardPart(folder, [int(each) + 1 for each in cluster.tombstones(shard)]))
        target = Path(scratch) / "merged"
        name = uuid.uuid4().hex
        _check(work)
        merged = merge_shards(target, parts, work.common, name=name, created_at=work.created_at)
        _check(work)
        entry = put_shard(cluster.store, target, name, merged)
    return NewShard(entry, _documents(cluster, group))


def _check(work: _Work) -> None:
    if not work.goes_on():
        raise _Stopped


def _documents(cluster: Cluster, group: Sequence[ShardEntry]) -> tuple[tuple[str, int], ...]:
    """Return id and ordinal of the documents of the new shard, those that died meanwhile included."""
    table = schema.documents
    dead = {int(ordinal) for shard in group for ordinal in cluster.tombstones(shard)}
    names = [shard.name for shard in group]
    with cluster.catalog.database.reading() as connection:
        statement = select(table.c.doc_id, table.c.ordinal).where(table.c.shard.in_(names)).order_by(table.c.ordinal)
        rows = [(doc_id, ordinal) for doc_id, ordinal in connection.execute(statement) if ordinal not in dead]
    return tuple(rows)
