"""A cluster of the bundled corpus, and one knowledge base of the same documents made with the same settings."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kbengine.build.builder import stored_threshold
from kbengine.build.document_encoder import DocumentEncoder
from kbengine.build.filtering import FilterOptions
from kbengine.cluster.routing import RouterOptions
from kbengine.corpus.document import CorpusDocument
from kbengine.encoders.encoder import Encoder
from storage.cluster import Cluster
from storage.cluster_changes import publish_build
from storage.cluster_shards import NewShard
from storage.common_settings import CommonSettings, common_settings_of, create_with
from storage.creation import FirstIds
from storage.generation_manifest import GenerationManifest
from storage.records import NewDocument
from storage.shard_files import put_common, put_shard
from storage.shard_merge import ShardPart, merge_shards

AT = "2026-01-01T00:00:00+00:00"
PATIENT = RouterOptions(deadline_s=600.0)
"""Answers may take as long as a busy machine needs."""


@dataclass(frozen=True)
class Corpus:
    """Encoded documents, and the settings that all shards of them share."""

    documents: tuple[NewDocument, ...]
    common: CommonSettings
    encoder: Encoder


def corpus_of(kb: Path, encoder: Encoder, pages: Sequence[CorpusDocument]) -> Corpus:
    """Return pages encoded as the knowledge base `kb` would store them."""
    common = common_settings_of(kb).comparable()
    settings = common.settings
    maker = DocumentEncoder(encoder, FilterOptions.from_json(settings.filter), store_all=settings.stores_all)
    chunk = maker.encode(list(pages), threshold=stored_threshold(settings))
    return Corpus(tuple(chunk.documents), common, encoder)


def first_ids(documents: Sequence[NewDocument], begin: int) -> FirstIds:
    """Return the ids that documents from `begin` on have, where all are given them in order."""
    passages = [passage for document in documents[:begin] for passage in document.passages]
    tokens = sum(passage.encoded_token_count for passage in passages)
    return FirstIds(document=begin + 1, passage=len(passages) + 1, token=tokens + 1)


def one_knowledge_base(path: Path, corpus: Corpus) -> Path:
    """Make one knowledge base of all documents."""
    with create_with(path, corpus.common) as writer:
        writer.add(corpus.documents)
    return path


def make_shard(cluster: Cluster, scratch: Path, corpus: Corpus, part: range) -> NewShard:
    """Return a shard of some of the documents, uploaded."""
    name = uuid.uuid4().hex
    first = first_ids(corpus.documents, part.start)
    with create_with(scratch / f"part-{name}", corpus.common, first=first) as writer:
        writer.add(corpus.documents[part.start : part.stop])
    made = scratch / f"shard-{name}"
    merged = merge_shards(made, [ShardPart(scratch / f"part-{name}")], corpus.common, name=name, created_at=AT)
    entry = put_shard(cluster.store, made, name, merged)
    return NewShard(entry, tuple((corpus.documents[i].doc_id, i) for i in part))


def make_cluster(root: Path, scratch: Path, corpus: Corpus, n_shards: int) -> str:
    """Publish the corpus as a cluster of so many shards and return its address."""
    address = root.as_uri()
    cluster = Cluster.create(address)
    n = len(corpus.documents)
    bounds = [n * i // n_shards for i in range(n_shards + 1)]
    made = [make_shard(cluster, scratch, corpus, range(begin, end)) for begin, end in itertools.pairwise(bounds)]
    cluster.catalog.create(cluster=cluster.name, root=address, next_ordinal=n)
    settings = corpus.common.settings
    manifest = GenerationManifest(
        generation=1,
        parent=None,
        cluster=cluster.name,
        operation="build",
        created_at=AT,
        kbengine_version=settings.kbengine_version,
        encoder_name=settings.encoder_name,
        encoder_fingerprint=settings.encoder_fingerprint,
        passage_fingerprint=settings.passage_fingerprint,
        common=put_common(cluster.store, corpus.common),
        shards=tuple(each.entry for each in made),
    )
    publish_build(cluster, manifest, {each.entry.name: each.documents for each in made}, op_id="build")
    cluster.close()
    return address
