"""A cluster with objects in an object store and its catalog in PostgreSQL: built, changed, copied, lost, found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kbengine.cluster.build import build_cluster
from kbengine.cluster.plan import CREATED_AT
from kbengine.cluster.writer import ClusterWriter
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.encoders.encoder import Encoder
from storage.cluster import Cluster
from storage.cluster_compaction import compact_cluster
from storage.cluster_copies import copy_generation, restore_catalog, verify_generation
from storage.cluster_pruning import prune_cluster
from tests.integrations.cluster.services import Postgres
from tests.kbengine.cluster.small_corpus import N, load_encoder, request_for, write_corpus
from tests.tiny_encoder import SENTENCES


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder."""
    return load_encoder(tmp_path_factory.mktemp("encoder"))


def test_the_same_objects_as_in_a_folder(
    encoder: Encoder, bucket: Callable[[], str], catalog: str, postgres: Postgres, tmp_path: Path
) -> None:
    """Byte for byte; then documents come, are put together, pruned, copied to a folder, and entered anew."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    here = Cluster.create(f"file://{tmp_path}/cluster")
    there = Cluster.create(bucket(), catalog)
    for cluster in (here, there):
        build_cluster(request_for(corpus), cluster, encoder=encoder)
    assert here.manifest().shards == there.manifest().shards
    assert {each.sha256 for each in there.store.stored()} == set(there.manifest().objects())

    writer = ClusterWriter(there, encoder)
    for number in range(3):
        writer.add([CorpusDocument(f"new {number}", "New", passages=(CorpusPassage(1, SENTENCES[number]),))])
    writer.delete(["doc 2", "new 1"])
    assert there.manifest().documents == N + 1
    assert compact_cluster(there, created_at=CREATED_AT, kbengine_version="1")
    prune_cluster(there, older_than_s=-60)
    assert verify_generation(there.manifest(), there.store) == []

    copy_generation(there, f"file://{tmp_path}/copy")
    for root, database in ((f"file://{tmp_path}/copy", None), (there.store.place, postgres.database("found_again"))):
        again = Cluster.open(root, database)
        row = restore_catalog(again)
        assert (row.generation, again.manifest().documents) == (there.manifest().generation, N + 1)
        assert {each.doc_id for each in again.catalog.placed(["doc 1", "doc 2", "new 0", "new 1"])} == {
            "doc 1",
            "new 0",
        }
        again.close()
    here.close()
    there.close()
