"""Making the plan of a build, once for one corpus and one set of options."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.builder import CorpusOptions
from kbengine.build.filtering import DEFAULT_FILTER, FilterOptions
from kbengine.build.storing import DEFAULT_STORE, StoreOptions
from kbengine.cluster.build_chunk import read_chunk
from kbengine.cluster.plan import BuildPlan, Chunk, PlanOptions, plan_name, read_plan
from kbengine.cluster.plan_corpus import shard_ends, stage_corpus
from kbengine.cluster.plan_settings import SettingsRequest, measure_settings
from kbengine.corpus.document import CorpusDocument
from kbengine.encoders.location import find_encoder
from kbengine.errors import EmptyCorpusError
from kbengine.progress import NoProgress, ProgressSink
from kbengine.version import __version__
from storage.cluster import Cluster
from storage.shard_files import put_common, read_common

if TYPE_CHECKING:
    from kbengine.encoders.encoder import Encoder

_SEED = 1


@dataclass(frozen=True)
class ClusterBuild:
    """What to build and how.

    Attributes:
        corpus: what to read.
        filter: which tokens are indexed.
        store: what is stored of the tokens.
        ann: options of the index that are not to be chosen from the size.
        plan: how the corpus is dealt out.
        device: where passages are encoded.
    """

    corpus: CorpusOptions
    filter: FilterOptions = DEFAULT_FILTER
    store: StoreOptions = DEFAULT_STORE
    ann: Mapping[str, str | int] = field(default_factory=dict)
    plan: PlanOptions = field(default_factory=PlanOptions)
    device: str = "auto"


def plan_build(
    request: ClusterBuild, cluster: Cluster, *, encoder: Encoder, progress: ProgressSink | None = None
) -> BuildPlan:
    """Return the plan for a corpus: the one that was made for the same call before, or a new one, stored.

    Args:
        request: what to build.
        cluster: where.
        encoder: makes the vectors.
        progress: shown the stages.

    Raises:
        CorpusError: the corpus cannot be read, or has no text.
    """
    progress = progress or NoProgress()
    name = _name(request, encoder)
    known = read_plan(cluster.store, name)
    if known is not None:
        return known
    store, options = cluster.store, request.plan
    chunks = stage_corpus(request.corpus, store, chunk_bytes=options.chunk_bytes, progress=progress)
    draft = BuildPlan(
        name=name,
        kbengine_version=__version__,
        encoder=_location(encoder),
        encoder_name=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        passage_fingerprint=encoder.passage_fingerprint,
        sparse=encoder.sparse is not None,
        dtype=_dtype(encoder),
        skip_bad=request.corpus.skip_bad,
        common=(),
        chunks=chunks,
        shard_ends=shard_ends(chunks, shards=options.shards, shard_bytes=options.shard_bytes),
    )
    common = measure_settings(
        encoder,
        _sample(draft, cluster),
        SettingsRequest(request.filter, request.store, request.ann, _of_text(draft)),
        n_bytes=draft.n_bytes,
        sample_passages=options.sample_passages,
        progress=progress,
    )
    plan = BuildPlan(**{**vars(draft), "common": put_common(store, common)})
    store.write_record(plan.record("plan.json"), plan.to_bytes())
    made = read_plan(store, name)
    assert made is not None
    return made  # of two at once the first holds


def _name(request: ClusterBuild, encoder: Encoder) -> str:
    return plan_name(
        request.corpus.paths,
        {
            "format": request.corpus.format,
            "skip_bad": request.corpus.skip_bad,
            "filter": request.filter.to_json(),
            "store": request.store.to_json(),
            "ann": dict(request.ann),
            "plan": vars(request.plan),
            "encoder": encoder.fingerprint,
            "sparse": encoder.sparse is not None,
            "dtype": _dtype(encoder),
            "version": __version__,
        },
    )


def _of_text(plan: BuildPlan) -> str:
    """Return a name that follows from the text alone, wherever it lies: names of code and quantiser come of it."""
    return BuildPlan(**{**vars(plan), "shard_ends": (len(plan.chunks),)}).shard_name(0)


def _location(encoder: Encoder) -> str:
    """Return what workers load the encoder by: its name where that is enough."""
    is_bundled = encoder.directory is None or find_encoder(encoder.name) == encoder.directory
    return encoder.name if is_bundled else str(encoder.directory)


def _dtype(encoder: Encoder) -> str:
    return str(encoder.passage_dtype).removeprefix("torch.")


def _sample(plan: BuildPlan, cluster: Cluster) -> Iterator[tuple[list[CorpusDocument], int]]:
    """Yield documents of chunks in random order, with the bytes of their records."""
    numbers = list(range(len(plan.chunks)))
    random.Random(_SEED).shuffle(numbers)
    n_passages = 0
    with tempfile.TemporaryDirectory(prefix="kbengine-sample-") as folder:
        for number in numbers:
            chunk: Chunk = plan.chunks[number]
            documents, _ = read_chunk(plan, chunk, cluster.store, Path(folder))
            n_passages += sum(len(document.passages) for document in documents)
            yield documents, chunk.text.n_bytes
    if not n_passages:
        raise EmptyCorpusError("the corpus has not one passage of text, wanted documents with text")


def describe_plan(plan: BuildPlan, cluster: Cluster) -> dict[str, Any]:
    """Return a plan as plain values."""
    settings = read_common(cluster.store, plan.common).settings
    return {
        "plan": plan.name,
        "objects": cluster.store.place,
        "bytes": plan.n_bytes,
        "chunks": len(plan.chunks),
        "shards": len(plan.shard_ends),
        "encoder": plan.encoder_name,
        "arithmetic": plan.dtype,
        "token_scale": settings.token_scale,
        "passage_scale": settings.passage_scale,
        "indexed_from": settings.indexed_from,
        "index": settings.ann_options.kind,
        "nprobe": settings.quantiser.get("nprobe"),
        "index_recall": settings.quantiser.get("recall"),
        "passage_index": "none" if settings.passage_quantiser_file is None else settings.passage_quantiser_file.kind,
        "passage_nprobe": settings.passage_quantiser.get("nprobe"),
        "passage_recall": settings.passage_quantiser.get("recall"),
    }
