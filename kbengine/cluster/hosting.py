"""What a host has open: shards fetched from the cluster's objects, as they are in a generation.

Files of a shard never change, so they are fetched once for all processes of a machine and all generations. What a
generation adds, documents that are dead by now and names given since, lies over them in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kbengine.cluster.calls import Method, Place
from kbengine.cluster.fetched_shards import FetchedShard, FetchedShards
from kbengine.cluster.host import ShardHost
from kbengine.cluster.record_calls import RECORDS
from kbengine.cluster.remote_shard import SEARCHING
from kbengine.errors import KBError, StateError
from kbengine.search.live_records import LiveRecords
from kbengine.search.local_shard import LocalShard
from storage.cluster import Cluster
from storage.generation_manifest import GenerationManifest, ManifestRef, ShardEntry
from storage.overlaid_names import NameChange, OverlaidNames
from storage.reader import KBReader

METHODS = {**SEARCHING, **RECORDS, "ready": Method(None, str), "fetch": Method(ShardEntry, str)}
"""All that hosts are asked."""


@dataclass(frozen=True)
class HostSpec:
    """What a host is made from; one that is started again from it answers as before.

    Attributes:
        root: Address of the cluster's objects.
        catalog: Address of its catalog; None: beside the objects.
        folder: Where fetched shards are kept; other hosts of the machine may use the same.
        places: What is opened at once.
        cluster: Name of the cluster, which has to be the one that is there.
    """

    root: str
    catalog: str | None
    folder: str
    places: tuple[Place, ...]
    cluster: str


def host_of(spec: HostSpec) -> ShardHost:
    """Return the host, its shards open.

    Raises:
        StateError: another cluster is there.
        CorruptError: an object is missing or damaged; the message names it.
    """
    cluster = Cluster.open(spec.root, spec.catalog)
    if cluster.name != spec.cluster:
        raise StateError(f"{spec.root} holds the cluster {cluster.name}, wanted {spec.cluster}: start the service anew")
    host = ShardHost(ShardOpener(cluster, Path(spec.folder)), METHODS)
    try:
        host.open(list(spec.places))
    except KBError:
        host.close()
        raise
    return host


@dataclass
class _Base:
    """An open shard as it was made, and in how many generations it is used."""

    reader: KBReader
    files: FetchedShard
    users: int


class ShardOpener:
    """Opens shards of a cluster; what generations share is open once.

    Args:
        cluster: where they are.
        folder: where files are kept: `folder/CLUSTER/SHARD`.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._fetched = FetchedShards(cluster, folder)
        self._newest = 0
        self._lock = threading.Lock()
        self._bases: dict[str, _Base] = {}
        self._fetching: dict[str, threading.Lock] = {}

    def __call__(self, place: Place) -> GenerationShard:
        """Return a shard as it is in a generation.

        Raises:
            StateError: the generation has no such shard.
            CorruptError: an object is missing or damaged.
        """
        manifest = self._cluster.manifest_of(ManifestRef(place.generation, place.manifest))
        entry = next((each for each in manifest.shards if each.name == place.shard), None)
        if entry is None:
            raise StateError(f"generation {place.generation} has no shard {place.shard}; ask for the newest generation")
        base = self._base(entry)
        try:
            opened = self._opened(place, manifest, entry, base)
        except BaseException:
            self._released(entry.name)
            raise
        if place.generation > self._newest:
            self._newest = place.generation
            self._fetched.remove_all_but([each.name for each in manifest.shards])
        return opened

    def _opened(self, place: Place, manifest: GenerationManifest, entry: ShardEntry, base: _Base) -> GenerationShard:
        dead = self._cluster.tombstones(entry) + 1  # a document's id is its ordinal and one
        ordinals = range(entry.first_ordinal, entry.end_ordinal)
        names = [
            NameChange(each.ordinal + 1, each.alias, each.source, each.uses, each.prior, each.is_removed)
            for each in self._cluster.aliases(manifest)
            if each.ordinal in ordinals
        ]
        records = LiveRecords(base.reader, dead.tolist(), OverlaidNames(names))
        snapshot = base.reader.snapshot()
        local = LocalShard(records, snapshot.without(dead) if len(dead) else snapshot, generation=place.generation)
        return GenerationShard(place, local, records, lambda: self._released(entry.name), self.fetch)

    def fetch(self, entry: ShardEntry) -> str:
        """Fetch the files of a shard that a generation is going to have; return its name.

        Raises:
            CorruptError: an object is missing or damaged.
        """
        with self._one_fetches(entry.name):
            self._fetched.get(entry).release()
        return entry.name

    def _one_fetches(self, name: str) -> threading.Lock:
        with self._lock:
            return self._fetching.setdefault(name, threading.Lock())

    def _base(self, entry: ShardEntry) -> _Base:
        with self._one_fetches(entry.name):
            with self._lock:
                base = self._bases.get(entry.name)
                if base is not None:
                    base.users += 1
                    return base
            files = self._fetched.get(entry)
            try:
                reader = _opened_reader(files.path)
            except BaseException:
                files.release()
                raise
            with self._lock:
                base = self._bases[entry.name] = _Base(reader, files, 1)
                return base

    def _released(self, name: str) -> None:
        with self._lock:
            base = self._bases[name]
            base.users -= 1
            if base.users:
                return
            del self._bases[name]
        base.reader.close()
        base.files.release()


def _opened_reader(directory: Path) -> KBReader:
    reader = KBReader.open(directory)
    try:
        reader.snapshot()
    except BaseException:
        reader.close()
        raise
    return reader


class GenerationShard:
    """A shard as it is in one generation: what a search asks, and its records."""

    def __init__(
        self,
        place: Place,
        shard: LocalShard,
        records: LiveRecords,
        release: Callable[[], None],
        fetch: Callable[[ShardEntry], str],
    ) -> None:
        self._place = place
        self._shard = shard
        self._records = records
        self._release = release
        self._fetch = fetch

    def __getattr__(self, name: str) -> Any:
        """Return what answers the call of a name that hosts are asked for."""
        if name in RECORDS:
            return lambda request: getattr(self._records, name)(**vars(request))
        if name in SEARCHING:
            return getattr(self._shard, name)
        raise AttributeError(name)

    def ready(self, _: None) -> str:
        """Return the shard's name: it is open."""
        return self._place.shard

    def fetch(self, entry: ShardEntry) -> str:
        """Fetch a shard that a generation is going to have; return its name."""
        return self._fetch(entry)

    def close(self) -> None:
        """Give its files back."""
        self._release()
