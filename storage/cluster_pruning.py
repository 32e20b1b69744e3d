"""Removing what no generation needs that is kept."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from storage.cluster import Cluster
from storage.cluster_acknowledged import forget_acknowledged
from storage.cluster_catalog import GenerationRow, locked_cluster
from storage.errors import InvalidOptionError
from storage.generation_manifest import MANIFEST_FOLDER, ref_of

__all__ = ["PruneReport", "prune_cluster"]

_BATCH = 200
LEAST_KEPT = 2
"""Generations that are always kept: the newest, and the one before, which searches may still be reading."""


@dataclass(frozen=True)
class PruneReport:
    """What was removed: objects, their bytes, and manifests."""

    objects: int
    n_bytes: int
    manifests: int


def prune_cluster(cluster: Cluster, *, keep: int = LEAST_KEPT, older_than_s: float = 86_400.0) -> PruneReport:
    """Remove objects and manifests that none of the newest generations needs, and return how much that was.

    What was uploaded a short while ago stays: it may belong to a change that is under way. A change that finds one of
    its objects gone is refused, so nothing that is published is ever missing.

    Args:
        cluster: Which; searched and changed meanwhile.
        keep: How many generations stay, the newest; two at least.
        older_than_s: Only what was uploaded so many seconds ago is removed.

    Raises:
        InvalidOptionError: Fewer than two generations are to be kept.
        CorruptError: A manifest that is kept is missing or damaged, or the catalog has lost a generation: nothing is
            removed then.
    """
    if keep < LEAST_KEPT:
        raise InvalidOptionError(f"keep is {keep}; wanted at least {LEAST_KEPT}: searches may read the one before")
    store = cluster.store
    before = time.time() - older_than_s
    newest = cluster.catalog.newest_number()
    cluster.check_nothing_lost(newest)
    if not newest:
        return PruneReport(0, 0, 0)  # a build is under way, or was interrupted: it goes on with what is there
    candidates = [each for each in store.stored() if each.at_s <= before]
    n_objects = n_bytes = 0
    for start in range(0, len(candidates), _BATCH):
        # Nobody makes a generation meanwhile: what is needed now is needed until these are gone.
        with cluster.catalog.database.writing() as connection:
            locked_cluster(connection, cluster.catalog.place)
            needed = _needed(cluster, cluster.catalog.generations(limit=keep))
            for each in candidates[start : start + _BATCH]:
                if each.sha256 not in needed:
                    store.remove(each.sha256)
                    n_objects, n_bytes = n_objects + 1, n_bytes + each.n_bytes
    return PruneReport(n_objects, n_bytes, _prune_manifests(cluster, keep))


def _needed(cluster: Cluster, rows: Sequence[GenerationRow]) -> set[str]:
    return {sha256 for row in rows for sha256 in cluster.manifest_of(row.ref).objects()}


def _prune_manifests(cluster: Cluster, keep: int) -> int:
    rows = {row.ref for row in cluster.catalog.generations()}
    newest = max((ref.generation for ref in rows), default=0)
    removed = 0
    for name in cluster.store.record_names(MANIFEST_FOLDER):
        ref = ref_of(name)
        if ref is None or ref.generation > newest:
            continue  # of a change that is under way
        if ref not in rows or ref.generation <= newest - keep:
            cluster.store.remove_record(f"{MANIFEST_FOLDER}/{name}")
            removed += 1
    forget_acknowledged(cluster.store, up_to=newest - keep)
    return removed
