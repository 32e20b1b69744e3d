"""Building a cluster: one plan, the same objects however it is interrupted, nothing visible before all is there."""

from __future__ import annotations

import dataclasses
import gzip
import json
import multiprocessing
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kbengine.build.storing import StoreOptions
from kbengine.cluster.build import build_cluster
from kbengine.cluster.build_work import InProcess, Piece
from kbengine.cluster.build_workers import workers_for
from kbengine.cluster.planning import describe_plan, plan_build
from kbengine.cluster.process_build import ProcessWorkers
from kbengine.encoders.encoder import Encoder
from kbengine.errors import CorpusError, EmptyCorpusError, InvalidOptionError, StateError
from storage.cluster import Cluster
from storage.common_settings import common_settings_of
from storage.reader import KBReader
from storage.shard_files import fetch_files, read_common
from storage.verify import verify
from tests.kbengine.cluster.small_corpus import N, load_encoder, request_for, write_corpus


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder."""
    return load_encoder(tmp_path_factory.mktemp("encoder"))


def opened(folder: Path) -> Cluster:
    """A cluster in a folder."""
    return Cluster.create(f"file://{folder}")


def contents(cluster: Cluster) -> list[tuple[str, tuple[str, ...]]]:
    """Name and checksums of each shard's files."""
    return [(shard.name, tuple(file.sha256 for file in shard.files)) for shard in cluster.manifest().shards]


def fetched(cluster: Cluster, folder: Path) -> list[Path]:
    """The shards as knowledge bases."""
    paths = []
    for shard in cluster.manifest().shards:
        fetch_files(cluster.store, shard.files, folder / shard.name)
        paths.append(folder / shard.name)
    return paths


class KilledError(Exception):
    """What stops a worker in these tests."""


class DyingWorkers:
    """Does pieces of one kind until so many are done, and then nothing any more."""

    def __init__(self, inner: InProcess, kind: str, after: int) -> None:
        self.inner, self.kind, self.left = inner, kind, after

    def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
        """Yield results until death."""
        for piece, result in self.inner.work(pieces):
            if piece.kind == self.kind:
                if not self.left:
                    raise KilledError
                self.left -= 1
            yield piece, result


def test_a_corpus_becomes_shards(encoder: Encoder, tmp_path: Path) -> None:
    """All documents once, in the order of the corpus, in whole shards of common settings."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    cluster = opened(tmp_path / "cluster")
    report = build_cluster(request_for(corpus), cluster, encoder=encoder)
    assert (report.generation, report.shards, report.documents, report.passages) == (1, 3, N, 2 * N)
    assert (report.links.links, report.links.aliases) == (3 * N, N + 1)
    common = read_common(cluster.store, cluster.manifest().common)
    ids: list[str] = []
    ordinals: list[int] = []
    for path, shard in zip(fetched(cluster, tmp_path / "shards"), cluster.manifest().shards, strict=True):
        assert verify(path).ok
        mine = common_settings_of(path)
        assert mine.settings == common.settings
        with KBReader.open(path) as reader:
            documents = [document for document, _ in reader.iterate_documents()]
            ids += [document.doc_id for document in documents]
            ordinals += [document.document_id - 1 for document in documents]
            assert shard.first_ordinal == documents[0].document_id - 1
            assert shard.end_ordinal == documents[-1].document_id
    assert ids == [f"doc {number}" for number in range(N)] and ordinals == sorted(ordinals)
    placed = cluster.catalog.placed(ids)
    assert [each.ordinal for each in placed] == ordinals
    assert cluster.catalog.reserve(1) > ordinals[-1]
    # What was on its way is gone, what is needed is there.
    assert {each.sha256 for each in cluster.store.stored()} == set(cluster.manifest().objects())
    cluster.close()


def test_links_count_wherever_they_lead(encoder: Encoder, tmp_path: Path) -> None:
    """A name counted from links is that of one knowledge base, though the links are in other shards."""
    cluster = opened(tmp_path / "cluster")
    build_cluster(request_for(write_corpus(tmp_path / "corpus.jsonl")), cluster, encoder=encoder)
    counted: dict[str, tuple[str, int]] = {}
    for path in fetched(cluster, tmp_path / "shards"):
        with KBReader.open(path) as reader:
            for alias in reader.list_aliases(source="anchor"):
                counted[alias.alias] = (alias.doc_id, alias.uses)
    assert counted == {f"number {n}": (f"doc {n}", 1) for n in range(N)} | {"the first": ("doc 0", N)}
    cluster.close()


@pytest.mark.parametrize(("kind", "after"), [("chunk", 3), ("shard", 1), ("shard", 3)])
def test_an_interrupted_build_goes_on_and_gives_the_same_bytes(
    encoder: Encoder, tmp_path: Path, kind: str, after: int
) -> None:
    """Nothing is visible before, what was done is not done again, the objects are those of a build in one go."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    whole, cut = opened(tmp_path / "whole"), opened(tmp_path / "cut")
    build_cluster(request_for(corpus), whole, encoder=encoder)
    with pytest.raises(KilledError):
        build_cluster(
            request_for(corpus), cut, encoder=encoder, workers=DyingWorkers(InProcess(encoder), kind, after)
        ) if after < 3 or kind == "chunk" else stop_at_the_end(corpus, cut, encoder)
    assert cut.catalog.newest_number() == 0
    build_cluster(request_for(corpus), cut, encoder=encoder)
    assert contents(cut) == contents(whole)
    assert {each.sha256 for each in cut.store.stored()} == set(cut.manifest().objects())
    whole.close()
    cut.close()


def stop_at_the_end(corpus: Path, cluster: Cluster, encoder: Encoder) -> None:
    """Stop when all shards are there and nothing is published."""

    class LastWorkers(InProcess):
        def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
            for piece, result in super().work(pieces):
                kind = piece.kind
                yield piece, result
            if kind == "shard":
                raise KilledError

    build_cluster(request_for(corpus), cluster, encoder=encoder, workers=LastWorkers(encoder))


def test_order_and_place_of_work_change_nothing(encoder: Encoder, tmp_path: Path) -> None:
    """Pieces done backwards, by workers that know nothing but their messages, from a packed copy of the corpus."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    packed = tmp_path / "elsewhere" / "packed.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(corpus.read_bytes()))

    class Backwards(InProcess):
        def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
            return super().work(Piece.from_bytes(piece.to_bytes()) for piece in reversed(list(pieces)))

    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    build_cluster(request_for(corpus), one, encoder=encoder)
    build_cluster(request_for(packed), other, encoder=encoder, workers=Backwards())
    assert contents(one) == contents(other)
    assert one.manifest().common == other.manifest().common
    one.close()
    other.close()


@pytest.mark.slow
def test_processes_build_what_one_does_though_one_is_killed(encoder: Encoder, tmp_path: Path) -> None:
    """The same objects; a process that dies costs its piece."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    one, other = opened(tmp_path / "one"), opened(tmp_path / "other")
    build_cluster(request_for(corpus), one, encoder=encoder)

    class Killing(ProcessWorkers):
        killed = False

        def work(self, pieces: Iterable[Piece]) -> Iterator[tuple[Piece, bytes]]:
            for piece, result in super().work(pieces):
                if not self.killed:
                    self.killed = True
                    multiprocessing.active_children()[0].kill()
                yield piece, result

    workers = Killing(2)
    build_cluster(request_for(corpus), other, encoder=encoder, workers=workers)
    assert workers.killed and contents(one) == contents(other)
    one.close()
    other.close()


def test_a_quantiser_is_trained_once_for_all_shards(encoder: Encoder, tmp_path: Path) -> None:
    """With lists, code and number of lists to look into in every shard, and the same bytes in another build."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    request = request_for(corpus, ann={"kind": "opq-fastscan", "nlist": 4}, shards=2)
    built = [opened(tmp_path / name) for name in ("one", "other")]
    for cluster in built:
        build_cluster(request, cluster, encoder=encoder)
    assert contents(built[0]) == contents(built[1])
    plan = plan_build(request, built[0], encoder=encoder)
    facts = describe_plan(plan, built[0])
    assert facts["index"] == "opq-fastscan" and facts["nprobe"] >= 1 and facts["shards"] == 2
    for path in fetched(built[0], tmp_path / "shards"):
        with KBReader.open(path) as reader:
            assert reader.settings.quantiser["nprobe"] == facts["nprobe"]
            scores, _ = reader.snapshot().search_tokens(np.ones((1, encoder.d), np.float32), 3)
            assert np.isfinite(scores).all()
    for cluster in built:
        cluster.close()


def test_a_plan_is_made_once(encoder: Encoder, tmp_path: Path) -> None:
    """The same call finds it; another number of shards, or a corpus that changed, is another plan."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    cluster = opened(tmp_path / "cluster")
    plan = plan_build(request_for(corpus), cluster, encoder=encoder)
    assert plan_build(request_for(corpus), cluster, encoder=encoder) == plan
    assert plan.chunks[0].first_ordinal == 0 and plan.end_ordinal == plan.n_bytes
    assert plan_build(request_for(corpus, shards=2), cluster, encoder=encoder).name != plan.name
    write_corpus(corpus, n=N + 1)
    assert plan_build(request_for(corpus), cluster, encoder=encoder).name != plan.name
    cluster.close()


def test_indexed_tokens_alone_in_int8(encoder: Encoder, tmp_path: Path) -> None:
    """The other ways to store are the same for all shards, too."""
    cluster = opened(tmp_path / "cluster")
    request = request_for(write_corpus(tmp_path / "c.jsonl"), store=StoreOptions("indexed", 8))
    build_cluster(request, cluster, encoder=encoder)
    for path in fetched(cluster, tmp_path / "shards"):
        assert verify(path).ok
        with KBReader.open(path) as reader:
            info = reader.info()
            assert 0.2 < info.tokens_stored / info.tokens_total < 0.9
    cluster.close()


def test_other_formats_are_read_into_chunks(encoder: Encoder, tmp_path: Path) -> None:
    """A folder of texts has no lines to cut at."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"Page {number}\n\nThe capital of France is Paris, part {number}.")
    cluster = opened(tmp_path / "cluster")
    report = build_cluster(request_for(folder), cluster, encoder=encoder)
    assert report.documents == 5
    cluster.close()


def test_an_id_that_comes_twice_is_named(encoder: Encoder, tmp_path: Path) -> None:
    """Workers see their own chunks only: it is found when all are there, with both places."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    lines = corpus.read_text().splitlines()
    corpus.write_text("\n".join([*lines, lines[0]]) + "\n")
    cluster = opened(tmp_path / "cluster")
    with pytest.raises(
        CorpusError, match=r"document id 'doc 0' comes twice, in .*lines 1 to .* and in .*lines 21 to 25"
    ):
        build_cluster(request_for(corpus), cluster, encoder=encoder)
    assert cluster.catalog.newest_number() == 0
    cluster.close()


def test_what_cannot_be_read_stops_a_build_or_is_counted(encoder: Encoder, tmp_path: Path) -> None:
    """As in a build of one knowledge base."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    corpus.write_text(corpus.read_text() + "not a record\n")
    request = request_for(corpus)
    cluster = opened(tmp_path / "cluster")
    with pytest.raises(CorpusError, match=r"corpus.jsonl, lines .*malformed JSON.*--skip-bad"):
        build_cluster(request, cluster, encoder=encoder)
    lenient = dataclasses.replace(request, corpus=dataclasses.replace(request.corpus, skip_bad=True))
    report = build_cluster(lenient, cluster, encoder=encoder)
    assert (report.documents, report.bad_records) == (N, 1)
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(EmptyCorpusError):
        build_cluster(request_for(tmp_path / "empty.jsonl"), opened(tmp_path / "e"), encoder=encoder)
    titles = [json.dumps({"doc_id": str(n), "title": "t", "url": None, "meta": {}, "passages": []}) for n in range(3)]
    (tmp_path / "titles.jsonl").write_text("\n".join(titles))
    with pytest.raises(EmptyCorpusError, match="not one passage"):
        build_cluster(request_for(tmp_path / "titles.jsonl"), opened(tmp_path / "t"), encoder=encoder)
    with pytest.raises(InvalidOptionError, match="shards is 0"):
        request_for(corpus, shards=0)
    with pytest.raises(InvalidOptionError, match="workers is 0"):
        workers_for(0, encoder=encoder)
    cluster.close()


def test_a_second_build_tells_what_is_there(encoder: Encoder, tmp_path: Path) -> None:
    """The same one is done; another one is refused."""
    corpus = write_corpus(tmp_path / "corpus.jsonl")
    cluster = opened(tmp_path / "cluster")
    build_cluster(request_for(corpus), cluster, encoder=encoder)
    again = build_cluster(request_for(corpus), cluster, encoder=encoder)
    assert (again.documents, again.encoded_tokens) == (N, 0)
    with pytest.raises(StateError, match="holds generation 1, made by another build"):
        build_cluster(request_for(corpus, shards=2), cluster, encoder=encoder)
    cluster.close()
