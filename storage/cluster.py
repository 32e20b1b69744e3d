"""A cluster as storage sees it: its objects, its catalog, and the generations that both tell of."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.alias_records import AliasSource
from storage.backup_store import StoredFile
from storage.cluster_acknowledged import check_no_generation_lost
from storage.cluster_catalog import Catalog
from storage.cluster_database import catalog_url
from storage.errors import CorruptError, InvalidOptionError, NotAKnowledgeBaseError
from storage.generation_manifest import GenerationManifest, ManifestRef, ShardEntry, manifest_name
from storage.object_places import open_objects
from storage.object_store import ObjectStore

__all__ = ["AliasOverlay", "Cluster"]

_IDENTITY = "cluster.json"
_KEPT_MANIFESTS = 4


@dataclass(frozen=True)
class AliasOverlay:
    """A name that a document was given, or lost, since its shard was made."""

    ordinal: int
    alias: str
    source: AliasSource
    uses: int = 0
    prior: float | None = None
    is_removed: bool = False


class Cluster:
    """A cluster's objects and catalog; safe to share between threads.

    Attributes:
        store: The objects.
        catalog: The catalog.
        name: Tells one cluster from another.
    """

    def __init__(self, store: ObjectStore, catalog: Catalog, name: str) -> None:
        """Use `Cluster.open` or `Cluster.create`."""
        self.store, self.catalog, self.name = store, catalog, name
        self._mutex = threading.Lock()
        self._manifests: dict[ManifestRef, GenerationManifest] = {}

    @classmethod
    def open(cls, root: str, catalog: str | None = None) -> Cluster:
        """Open the cluster whose objects are at `root`.

        Args:
            root: file:///folder or s3://bucket/prefix.
            catalog: Address of its catalog; None: an SQLite file beside objects in a folder.

        Raises:
            NotAKnowledgeBaseError: There is none.
        """
        store, known = open_objects(root), Catalog(catalog_url(root, catalog))
        data = store.read_record(_IDENTITY)
        if data is None:
            raise NotAKnowledgeBaseError(
                f"{store.place} holds no cluster; build one with 'kbengine cluster build CORPUS --to {root}'"
            )
        return cls(store, known, _identity(data, store.place))

    @classmethod
    def create(cls, root: str, catalog: str | None = None) -> Cluster:
        """Open the cluster at `root`, which is made if it is not there; its catalog is made by the first build."""
        store, known = open_objects(root), Catalog(catalog_url(root, catalog))
        record = json.dumps({"cluster": uuid.uuid4().hex, "format": 1}).encode()
        store.write_record(_IDENTITY, record)
        data = store.read_record(_IDENTITY)
        assert data is not None  # written a moment ago, by us or by another
        return cls(store, known, _identity(data, store.place))

    def close(self) -> None:
        """Close the connections of the catalog."""
        self.catalog.close()

    def manifest(self, generation: int | None = None) -> GenerationManifest:
        """Return a generation's manifest, by default the newest one's.

        Raises:
            InvalidOptionError: There is no such generation.
            CorruptError: Its manifest is missing or damaged.
            CatalogUnavailableError: The catalog does not answer.
        """
        if generation is None:
            return self.manifest_of(self.newest_ref())
        row = self.catalog.generation(generation)
        if row is None:
            raise self._no(f"generation {generation}")
        return self.manifest_of(row.ref)

    def newest_ref(self) -> ManifestRef:
        """Return number and checksum of the newest generation.

        Raises:
            InvalidOptionError: There is none yet.
            CorruptError: The catalog has lost one that was acknowledged.
            CatalogUnavailableError: The catalog does not answer.
        """
        row = next(iter(self.catalog.generations(limit=1)), None)
        self.check_nothing_lost(0 if row is None else row.generation)
        if row is None:
            raise self._no("generation yet")
        return row.ref

    def check_nothing_lost(self, generation: int) -> None:
        """Raise CorruptError when one after this generation was acknowledged and the catalog does not know of it."""
        try:
            check_no_generation_lost(self.store, generation, catalog=self.catalog.place)
        except CorruptError:
            if self.catalog.newest_number() <= generation:  # otherwise it was made meanwhile
                raise

    def _no(self, what: str) -> InvalidOptionError:
        return InvalidOptionError(f"{self.store.place} has no {what}; 'kbengine cluster status' names them")

    def manifest_of(self, ref: ManifestRef) -> GenerationManifest:
        """Return the manifest of this number and checksum; without the catalog."""
        with self._mutex:
            known = self._manifests.get(ref)
        if known is not None:
            return known
        name = manifest_name(ref)
        data = self.store.read_record(name)
        if data is None:
            raise CorruptError(
                f"{self.store.place}/{name} is missing; restore it from a copy of the cluster ('kbengine cluster "
                "backup' makes one), or go back to an older generation"
            )
        manifest = GenerationManifest.from_bytes(data, name=f"{self.store.place}/{name}", sha256=ref.sha256)
        self._keep(ref, manifest)
        return manifest

    def put_manifest(self, manifest: GenerationManifest) -> ManifestRef:
        """Store a manifest and return its number and checksum."""
        data = manifest.to_bytes()
        ref = ManifestRef(manifest.generation, hashlib.sha256(data).hexdigest())
        self.store.write_record(manifest_name(ref), data)
        self._keep(ref, manifest)
        return ref

    def _keep(self, ref: ManifestRef, manifest: GenerationManifest) -> None:
        with self._mutex:
            self._manifests[ref] = manifest
            while len(self._manifests) > _KEPT_MANIFESTS:
                del self._manifests[next(iter(self._manifests))]

    def tombstones(self, shard: ShardEntry) -> NDArray[np.int64]:
        """Return the ordinals of a shard's dead documents, int64 (n), rising."""
        if shard.tombstones is None:
            return np.empty(0, dtype=np.int64)
        return np.frombuffer(self.store.read(shard.tombstones), dtype="<i8").astype(np.int64)

    def put_tombstones(self, shard: str, ordinals: Iterable[int]) -> StoredFile | None:
        """Store the ordinals of dead documents, rising; None where there are none."""
        array = np.fromiter(ordinals, dtype="<i8")
        return self.store.put_bytes(array.tobytes(), f"tombstones of {shard}") if len(array) else None

    def aliases(self, manifest: GenerationManifest) -> tuple[AliasOverlay, ...]:
        """Return the names that documents were given or lost since their shards were made, by ordinal."""
        if manifest.aliases is None:
            return ()
        rows: list[dict[str, Any]] = json.loads(self.store.read(manifest.aliases))
        return tuple(AliasOverlay(**row) for row in rows)

    def put_aliases(self, overlay: Iterable[AliasOverlay]) -> StoredFile | None:
        """Store such names; None where there are none."""
        rows = [asdict(each) for each in overlay]
        if not rows:
            return None
        return self.store.put_bytes(json.dumps(rows, ensure_ascii=False).encode(), "aliases")


def _identity(data: bytes, place: str) -> str:
    try:
        return str(json.loads(data)["cluster"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"{place}/{_IDENTITY} is damaged ({error}); restore it from a copy of the cluster"
        ) from error
