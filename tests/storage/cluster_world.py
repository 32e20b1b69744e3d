"""A small cluster of random vectors, for tests of storage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from storage.cluster import Cluster
from storage.cluster_changes import publish_build
from storage.cluster_shards import NewShard
from storage.common_settings import CommonSettings, create_with
from storage.creation import FirstIds
from storage.generation_manifest import GenerationManifest
from storage.records import NewDocument
from storage.shard_files import put_common, put_shard
from storage.shard_merge import ShardPart, merge_shards
from tests.storage.small_world import make_document, make_settings

COMMON = CommonSettings(make_settings(kbengine_version="1")).comparable()
AT = "2026-01-01T00:00:00+00:00"


def make_shard(cluster: Cluster, scratch: Path, documents: Sequence[NewDocument], ordinal: int) -> NewShard:
    """A shard of these documents, uploaded."""
    part = scratch / f"part-{ordinal}"
    with create_with(part, COMMON, first=FirstIds(ordinal + 1, 10 * ordinal + 1, 1000 * ordinal + 1)) as writer:
        writer.add(documents)
    made = scratch / f"shard-{ordinal}"
    merged = merge_shards(made, [ShardPart(part)], COMMON, name=f"{ordinal:032x}", created_at=AT)
    entry = put_shard(cluster.store, made, f"{ordinal:032x}", merged)
    return NewShard(entry, tuple((each.doc_id, ordinal + place) for place, each in enumerate(documents)))


def make_cluster(
    root: str,
    scratch: Path,
    catalog: str | None = None,
    *,
    shards: int = 2,
    per_shard: int = 5,
    op_id: str = "build",
) -> Cluster:
    """Two shards of five documents, doc 0 to 9, published as generation 1."""
    cluster = Cluster.create(root, catalog)
    try:
        made = [
            make_shard(
                cluster,
                scratch,
                [make_document(f"doc {per_shard * n + i}", f"amber delta {n} {i}") for i in range(per_shard)],
                per_shard * n,
            )
            for n in range(shards)
        ]
        cluster.catalog.create(cluster=cluster.name, root=root, next_ordinal=per_shard * shards)
        settings = COMMON.settings
        manifest = GenerationManifest(
            generation=1,
            parent=None,
            cluster=cluster.name,
            operation="build",
            created_at=AT,
            kbengine_version="1",
            encoder_name=settings.encoder_name,
            encoder_fingerprint=settings.encoder_fingerprint,
            passage_fingerprint=settings.passage_fingerprint,
            common=put_common(cluster.store, COMMON),
            shards=tuple(each.entry for each in made),
        )
        publish_build(cluster, manifest, {each.entry.name: each.documents for each in made}, op_id=op_id)
    except BaseException:
        cluster.close()
        raise
    return cluster
