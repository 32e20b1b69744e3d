"""Building a cluster: plan, chunks, names, shards, one generation; each step goes on where it was interrupted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kbengine.cluster.build_chunk import BuiltChunk
from kbengine.cluster.build_names import CorpusNames, LinkTotals, put_anchors
from kbengine.cluster.build_shard import built_shard
from kbengine.cluster.build_work import InProcess, Piece, Workers, result_of
from kbengine.cluster.plan import BuildPlan
from kbengine.cluster.planning import ClusterBuild, plan_build
from kbengine.errors import StateError
from kbengine.progress import NoProgress, ProgressSink
from storage.backup_store import StoredFile
from storage.cluster import Cluster
from storage.cluster_catalog import now
from storage.cluster_changes import publish_build
from storage.generation_draft import made_before
from storage.generation_manifest import GenerationManifest, ShardEntry

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder


@dataclass(frozen=True)
class ClusterReport:
    """What a build made: the generation, and what was encoded in this run."""

    generation: int
    shards: int
    documents: int
    passages: int
    bad_records: int
    links: LinkTotals
    encoded_tokens: int
    elapsed_s: float


def build_cluster(
    request: ClusterBuild,
    cluster: Cluster,
    *,
    encoder: Encoder,
    workers: Workers | None = None,
    progress: ProgressSink | None = None,
) -> ClusterReport:
    """Build a corpus into a cluster that has no generation yet; the same call goes on with an interrupted build.

    Chunks and shards that are built are not built again; what is uploaded is visible when all is, by one transaction.

    Args:
        request: what to build.
        cluster: where.
        encoder: makes the plan's sample; workers load their own.
        workers: who encodes; None: this process.
        progress: shown the stages.

    Raises:
        CorpusError: the corpus cannot be read, or an id comes twice.
        StateError: the cluster has a generation that another build made.
    """
    began = time.perf_counter()
    progress = progress or NoProgress()
    plan = plan_build(request, cluster, encoder=encoder, progress=progress)
    root = cluster.store.place
    cluster.catalog.create(cluster=cluster.name, root=root, next_ordinal=plan.end_ordinal)
    made = made_before(cluster, plan.name)
    if made is not None:
        return _report(cluster, made.generation, [], LinkTotals(0, 0), began)
    if cluster.catalog.newest_number():
        raise StateError(
            f"{root} holds generation {cluster.catalog.newest_number()}, made by another build; add to it with "
            "'kbengine cluster add', or build at another address"
        )
    workers = workers or InProcess(encoder)
    chunks = _chunks(plan, request, root, workers, progress)
    with tempfile.TemporaryDirectory(prefix="kbengine-names-") as folder:
        names = CorpusNames(Path(folder) / "names.sqlite")
        try:
            totals, anchors = _names(plan, cluster, chunks, names, progress)
            entries = _shards(plan, cluster, root, workers, anchors, progress)
            progress.begin("publishing", None, "")
            ranges = {
                entry.name: (plan.chunks_of(number)[0].first_ordinal, plan.chunks_of(number)[-1].end_ordinal)
                for number, entry in entries.items()
            }
            row = publish_build(
                cluster,
                _manifest(plan, cluster, tuple(entries.values())),
                {name: names.documents(*ends) for name, ends in ranges.items()},
                op_id=plan.name,
            )
        finally:
            names.close()
    report = _report(cluster, row.generation, chunks, totals, began)
    forget_build(cluster, plan, chunks, anchors)
    return report


def _chunks(
    plan: BuildPlan, request: ClusterBuild, root: str, workers: Workers, progress: ProgressSink
) -> list[BuiltChunk]:
    """Have all chunks encoded, and return them in order."""
    progress.begin("encoding passages", plan.n_bytes, "bytes")
    pieces = [Piece(root, plan.name, "chunk", chunk.number, request.device) for chunk in plan.chunks]
    found: dict[int, BuiltChunk] = {}
    began, documents, tokens = time.perf_counter(), 0, 0
    for piece, data in workers.work(pieces):
        built = result_of(piece, data)
        assert built is not None
        found[built.number] = built
        documents, tokens = documents + built.documents, tokens + built.tokens
        rate = tokens / max(time.perf_counter() - began, 1e-9)
        progress.advance(plan.chunks[built.number].text.n_bytes, f"{documents:,} documents, {rate:,.0f} tokens/s")
    return [found[number] for number in sorted(found)]


def _names(
    plan: BuildPlan, cluster: Cluster, chunks: list[BuiltChunk], names: CorpusNames, progress: ProgressSink
) -> tuple[LinkTotals, dict[int, StoredFile]]:
    """Put names and links of all chunks together; return what was counted, and an object for each shard."""
    progress.begin("counting links", len(chunks), "chunks")
    for chunk in chunks:
        if chunk.names is not None:
            names.add(cluster.store.read(chunk.names))
        progress.advance(1)
    names.check(plan)
    totals = names.totals()
    anchors: dict[int, StoredFile] = {}
    if totals.links:
        for number in range(len(plan.shard_ends)):
            of_shard = plan.chunks_of(number)
            rows = names.anchors(of_shard[0].first_ordinal, of_shard[-1].end_ordinal)
            anchors[number] = put_anchors(cluster.store, rows, number)
    return totals, anchors


def _shards(
    plan: BuildPlan,
    cluster: Cluster,
    root: str,
    workers: Workers,
    anchors: Mapping[int, StoredFile],
    progress: ProgressSink,
) -> dict[int, ShardEntry]:
    """Have all shards put together, and return those that have documents, by number."""
    numbers = range(len(plan.shard_ends))
    progress.begin("putting shards together", len(numbers), "shards")
    pieces = [Piece(root, plan.name, "shard", number, anchors=anchors.get(number)) for number in numbers]
    for _ in workers.work(pieces):
        progress.advance(1)
    entries = {number: built_shard(plan, cluster.store, number) for number in numbers}
    return {number: entry for number, entry in entries.items() if entry is not None}


def _manifest(plan: BuildPlan, cluster: Cluster, entries: tuple[ShardEntry, ...]) -> GenerationManifest:
    return GenerationManifest(
        generation=1,
        parent=None,
        cluster=cluster.name,
        operation="build",
        created_at=now(),
        kbengine_version=plan.kbengine_version,
        encoder_name=plan.encoder_name,
        encoder_fingerprint=plan.encoder_fingerprint,
        passage_fingerprint=plan.passage_fingerprint,
        common=plan.common,
        shards=entries,
        arithmetic=plan.dtype,
    )


def _report(
    cluster: Cluster, generation: int, chunks: list[BuiltChunk], totals: LinkTotals, began: float
) -> ClusterReport:
    manifest = cluster.manifest(generation)
    return ClusterReport(
        generation,
        len(manifest.shards),
        manifest.documents,
        sum(shard.passages for shard in manifest.shards),
        sum(chunk.bad_records for chunk in chunks),
        totals,
        sum(chunk.tokens for chunk in chunks),
        time.perf_counter() - began,
    )


def forget_build(
    cluster: Cluster, plan: BuildPlan, chunks: list[BuiltChunk], anchors: Mapping[int, StoredFile]
) -> None:
    """Remove what a finished build needed on its way: texts of chunks, encoded chunks, records; the plan stays."""
    store = cluster.store
    needed = set(cluster.manifest().objects())
    for folder in ("chunks", "shards"):
        for name in store.record_names(plan.record(folder)):
            store.remove_record(plan.record(folder, name))
    files = [chunk.text for chunk in plan.chunks] + [file for chunk in chunks for file in chunk.objects()]
    for sha256 in {file.sha256 for file in (*files, *anchors.values())} - needed:
        store.remove(sha256)
