"""Putting a shard of a plan together from its chunks, uploaded, with a record that says so written last."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

from kbengine.cluster.build_chunk import BuiltChunk, built_chunk
from kbengine.cluster.build_names import read_anchors
from kbengine.cluster.plan import CREATED_AT, BuildPlan
from kbengine.errors import CorruptError
from storage.backup_store import StoredFile
from storage.common_settings import CommonSettings
from storage.generation_manifest import ShardEntry
from storage.object_store import ObjectStore
from storage.shard_files import fetch_files, put_shard
from storage.shard_merge import ShardPart, merge_shards


def built_shard(plan: BuildPlan, store: ObjectStore, number: int) -> ShardEntry | None:
    """Return a shard that was built before and whose objects are there, None for another."""
    data = store.read_record(plan.record("shards", f"{number:08d}.json"))
    if data is None:
        return None
    try:
        entry = ShardEntry.from_json(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # cut short: it is built again
    return entry if all(store.has(file.sha256, file.n_bytes) for file in entry.files) else None


def build_shard(
    plan: BuildPlan, store: ObjectStore, number: int, *, common: CommonSettings, anchors: StoredFile | None
) -> ShardEntry | None:
    """Put a shard together and upload it, unless that was done before; return its entry, None without a document.

    Args:
        plan: of the build; all chunks of the shard are built.
        store: where objects are and go.
        number: of the shard.
        common: the settings that all shards share.
        anchors: object with the names that are counted from all links to its documents.

    Raises:
        CorruptError: a chunk is missing or damaged.
    """
    done = built_shard(plan, store, number)
    if done is not None:
        return done
    with tempfile.TemporaryDirectory(prefix="kbengine-shard-") as scratch:
        parts: list[ShardPart] = []
        for chunk in plan.chunks_of(number):
            built = _built(plan, store, chunk.number)
            if built.files:
                folder = Path(scratch) / f"chunk-{chunk.number}"
                folder.mkdir()
                fetch_files(store, built.files, folder)
                parts.append(ShardPart(folder))
        if not parts:
            return None
        target = Path(scratch) / "shard"
        name = plan.shard_name(number)
        merged = merge_shards(
            target,
            parts,
            common,
            name=name,
            created_at=CREATED_AT,
            anchors=None if anchors is None else read_anchors(store, anchors),
        )
        entry = put_shard(store, target, name, merged)
    store.write_record(
        plan.record("shards", f"{number:08d}.json"), json.dumps(dataclasses.asdict(entry)).encode(), replace=True
    )
    return entry


def _built(plan: BuildPlan, store: ObjectStore, number: int) -> BuiltChunk:
    built = built_chunk(plan, store, number)
    if built is None:
        raise CorruptError(
            f"chunk {number} of build {plan.name} in {store.place} is missing or damaged; run the same build again, "
            "which encodes it anew"
        )
    return built
