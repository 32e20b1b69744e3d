"""What a cluster holds, as plain values for people and programs."""

from __future__ import annotations

import time
from typing import Any

from storage.cluster import Cluster

__all__ = ["cluster_status"]


def cluster_status(cluster: Cluster, *, generations: int = 10) -> dict[str, Any]:
    """Return the newest generation's counts, the machines that search and the last changes.

    Args:
        cluster: Which.
        generations: How many changes are told, the newest.

    Raises:
        NotAKnowledgeBaseError: Nothing was built.
        CatalogUnavailableError: The catalog does not answer.
    """
    row = cluster.catalog.cluster()
    manifest = cluster.manifest()
    changes = cluster.catalog.generations(limit=generations)
    return {
        "cluster": row.cluster,
        "objects": cluster.store.place,
        "catalog": cluster.catalog.place,
        "generation": manifest.generation,
        "documents": manifest.documents,
        "shards": len(manifest.shards),
        "passages": sum(shard.passages for shard in manifest.shards),
        "stored_vectors": sum(shard.rows for shard in manifest.shards),
        "deleted_documents_kept": sum(shard.dead for shard in manifest.shards),
        "bytes": sum(shard.n_bytes for shard in manifest.shards),
        "encoder": manifest.encoder_name,
        "encoder_fingerprint": manifest.encoder_fingerprint,
        "machines": [
            {
                "machine": node.name,
                "state": node.state,
                "seen_s_ago": round(max(0.0, time.time() - node.seen_s), 1),
                **node.facts,
            }
            for node in cluster.catalog.nodes()
        ],
        "changes": [
            {
                "generation": each.generation,
                "operation": each.operation,
                "at": each.at,
                "added": each.documents_added,
                "replaced": each.documents_replaced,
                "deleted": each.documents_deleted,
            }
            for each in changes
        ],
    }
