"""An index of passages that all shards share: planned once, and the answers are those of one knowledge base."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kbengine.cluster.build import build_cluster
from kbengine.cluster.build_chunk import encode_documents
from kbengine.cluster.host import ShardHost
from kbengine.cluster.hosting import METHODS, ShardOpener
from kbengine.cluster.plan import CREATED_AT
from kbengine.cluster.planning import describe_plan, plan_build
from kbengine.cluster.routing import Router
from kbengine.cluster.searchers import OneProcess
from kbengine.cluster.writer import ClusterWriter
from kbengine.corpus.document import CorpusDocument
from kbengine.encoders.encoder import Encoder
from kbengine.search.query import Query, SearchOptions
from kbengine.search.searcher import Searcher
from storage.ann_options import AnnOptions
from storage.cluster import Cluster
from storage.cluster_compaction import compact_cluster
from storage.common_settings import CommonSettings, create_with
from storage.reader import KBReader
from storage.shard_files import fetch_files, read_common
from storage.verify import verify
from storage.writer import KBWriter
from tests.kbengine.cluster.small_cluster import PATIENT
from tests.kbengine.cluster.small_corpus import load_encoder, request_for
from tests.kbengine.cluster.test_writer import document
from tests.tiny_encoder import SENTENCES

N = 45
ANN = {"kind": "opq-fastscan", "nlist": 6, "exact_below_rows": 100}
WORDS = sorted({word.strip(".,;?") for sentence in SENTENCES for word in sentence.split()})
ASKED = ("Which river crosses the city?", "Who was the first woman to win a Nobel Prize?", "light travels", "Paris")
OPTIONS = (
    SearchOptions(k=10, explain=True),
    SearchOptions(k=40, nprobe=1, strategy="dense"),
    SearchOptions(k=5, effort="low", unit="document"),
    SearchOptions(k=20, effort="exact", unit="passage"),
)


def page(doc_id: str, seed: int) -> CorpusDocument:
    """A document of three passages of random words."""
    chosen = random.Random(seed)
    return document(doc_id, *(" ".join(chosen.choices(WORDS, k=chosen.randint(6, 14))) + "." for _ in range(3)))


PAGES = [page(f"doc {number}", number) for number in range(N)]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder."""
    return load_encoder(tmp_path_factory.mktemp("encoder"))


def written(path: Path) -> Path:
    """The corpus as a file."""
    with path.open("w", encoding="utf-8") as file:
        for each in PAGES:
            passages = [{"ordinal": part.ordinal, "text": part.text} for part in each.passages]
            record = {"doc_id": each.doc_id, "title": each.title, "url": None, "meta": {}, "passages": passages}
            file.write(json.dumps(record) + "\n")
    return path


def answers(source: Any, encoder: Encoder) -> list[Any]:
    """What is found, without ids that depend on where documents lie."""
    queries = [Query.question(each) for each in ASKED]
    found = [result for options in OPTIONS for result in Searcher(source, encoder).search(queries, options)]
    return [
        [(hit.document.doc_id, hit.passage.text, hit.span, hit.text, hit.score, hit.parts) for hit in result.hits]
        for result in found
    ]


def of_cluster(cluster: Cluster, encoder: Encoder, folder: Path) -> list[Any]:
    """What is found in its newest generation, through messages."""
    router = Router(cluster, OneProcess(ShardHost(ShardOpener(cluster, folder), METHODS), PATIENT.replicas), PATIENT)
    try:
        return router.ask(lambda source: answers(source, encoder)).result
    finally:
        router.close()


def of_one(path: Path, encoder: Encoder) -> list[Any]:
    """What is found in one knowledge base."""
    with KBReader.open(path) as reader:
        assert not reader.snapshot().scans_all("passages")
        return answers(reader, encoder)


def added(writer: KBWriter, pages: Sequence[CorpusDocument], encoder: Encoder, common: CommonSettings) -> None:
    """Add pages as a cluster's shards store them."""
    writer.add(encode_documents(list(pages), encoder, common)[0])


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_answers_are_those_of_one_knowledge_base(encoder: Encoder, tmp_path: Path, shards: int) -> None:
    """Of the same plan: after the build, after additions, new versions and deletions, and after compaction."""
    cluster = Cluster.create(f"file://{tmp_path}/cluster")
    request = request_for(written(tmp_path / "corpus.jsonl"), shards=shards, ann=ANN)
    build_cluster(request, cluster, encoder=encoder)
    common = read_common(cluster.store, cluster.manifest().common)
    facts = describe_plan(plan_build(request, cluster, encoder=encoder), cluster)
    assert (facts["shards"], facts["passage_index"]) == (shards, "opq-fastscan")
    assert 1 <= facts["passage_nprobe"] <= 6 and facts["passage_recall"] > 0.9
    one = tmp_path / "one"
    with create_with(one, common) as writer:
        added(writer, PAGES, encoder, common)
    assert of_cluster(cluster, encoder, tmp_path / "open") == of_one(one, encoder)

    changing = ClusterWriter(cluster, encoder)
    changes = [
        [page("late 1", 100), page("doc 7", 101)],
        [page("late 2", 102)],
        [page("doc 30", 103)],
        [document("no text")],
    ]
    for pages in changes:
        changing.add(pages)
    changing.delete(["doc 3", "doc 40"])
    with KBWriter.open(one) as writer:
        for pages in changes:
            added(writer, pages, encoder, common)
        writer.delete(["doc 3", "doc 40"])
    wanted = of_one(one, encoder)
    assert of_cluster(cluster, encoder, tmp_path / "open") == wanted

    assert compact_cluster(cluster, created_at=CREATED_AT, kbengine_version="1", purge=True)
    assert of_cluster(cluster, encoder, tmp_path / "open") == wanted
    with KBWriter.open(one) as writer:
        writer.compact()
    assert of_one(one, encoder) == wanted
    assert verify(one).ok
    for shard in cluster.manifest().shards:
        path = tmp_path / shard.name
        fetch_files(cluster.store, shard.files, path)
        assert verify(path).ok
        with KBReader.open(path) as reader:
            assert reader.settings.passage_quantiser == common.settings.passage_quantiser
            assert not reader.snapshot().scans_all("passages")
    cluster.close()


@pytest.mark.parametrize(
    ("ann", "why"),
    [
        ({**ANN, "exact_below_rows": 1_000}, "fewer passages than one knowledge base would index"),
        ({**ANN, "exact_passages": True}, "nobody wants it"),
        ({"kind": "exact", "exact_below_rows": 10}, "all is looked at"),
    ],
)
def test_where_passages_are_scanned(encoder: Encoder, tmp_path: Path, ann: dict[str, Any], why: str) -> None:
    """The plan says so, and no shard has an index of them."""
    cluster = Cluster.create(f"file://{tmp_path}/cluster")
    plan = plan_build(request_for(written(tmp_path / "corpus.jsonl"), ann=ann), cluster, encoder=encoder)
    facts = describe_plan(plan, cluster)
    assert (facts["passage_index"], facts["passage_nprobe"]) == ("none", None), why
    options: AnnOptions = read_common(cluster.store, plan.common).settings.ann_options
    assert options.is_exact("passages")
    cluster.close()
