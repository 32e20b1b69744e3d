"""Changing a cluster: what was acknowledged is there, compaction and pruning take nothing that is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kbengine.build.builder import CorpusOptions
from kbengine.cli import cli
from kbengine.cluster.build import build_cluster
from kbengine.cluster.plan import CREATED_AT
from kbengine.cluster.writer import ClusterWriter
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.encoders.encoder import Encoder
from kbengine.errors import (
    CorruptError,
    DuplicateDocumentError,
    EncoderMismatchError,
    InvalidOptionError,
    StateError,
    UnknownDocumentError,
)
from storage.alias_records import NewAlias
from storage.cluster import Cluster
from storage.cluster_compaction import compact_cluster
from storage.cluster_copies import copy_generation, restore_catalog, verify_generation
from storage.cluster_pruning import prune_cluster
from storage.object_folder import ObjectFolder
from storage.reader import KBReader
from storage.shard_files import fetch_files
from storage.verify import verify
from tests.kbengine.cluster.small_corpus import N, load_encoder, request_for, write_corpus
from tests.tiny_encoder import SENTENCES, write_tiny_encoder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The tiny encoder."""
    return load_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def built(encoder: Encoder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cluster of three shards; to be copied."""
    folder = tmp_path_factory.mktemp("built")
    cluster = Cluster.create(f"file://{folder}/cluster")
    build_cluster(request_for(write_corpus(folder / "corpus.jsonl")), cluster, encoder=encoder)
    cluster.close()
    return folder / "cluster"


@pytest.fixture
def cluster(built: Path, tmp_path: Path) -> Iterator[Cluster]:
    """A copy of it."""
    copy_tree(built, tmp_path / "cluster")
    opened = Cluster.open(f"file://{tmp_path}/cluster")
    yield opened
    opened.close()


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder that nobody writes to."""
    for path in source.rglob("*"):
        if path.is_file() and not path.name.endswith("-shm"):
            copied = target / path.relative_to(source)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())


def document(doc_id: str, *texts: str) -> CorpusDocument:
    """A document of some passages."""
    return CorpusDocument(
        doc_id, doc_id.title(), passages=tuple(CorpusPassage(n, text) for n, text in enumerate(texts))
    )


def contents(cluster: Cluster, folder: Path) -> dict[str, tuple[str, ...]]:
    """Texts of the live documents, each found in exactly one shard, whose files are checked."""
    found: dict[str, tuple[str, ...]] = {}
    for shard in cluster.manifest().shards:
        path = folder / f"{cluster.manifest().generation}-{shard.name}"
        fetch_files(cluster.store, shard.files, path)
        assert verify(path).ok
        dead = set(cluster.tombstones(shard).tolist())
        with KBReader.open(path) as reader:
            for each, passages in reader.iterate_documents():
                if each.document_id - 1 not in dead:
                    assert each.doc_id not in found
                    found[each.doc_id] = tuple(passage.text for passage in passages)
    return found


def test_documents_are_added_replaced_and_deleted(cluster: Cluster, encoder: Encoder, tmp_path: Path) -> None:
    """In the next generation, with the settings of all shards."""
    writer = ClusterWriter(cluster, encoder)
    before = contents(cluster, tmp_path)
    assert len(before) == N
    row = writer.add([document("new", SENTENCES[0]), document("doc 3", SENTENCES[1], SENTENCES[2])])
    assert (row.generation, row.documents_added, row.documents_replaced) == (2, 1, 1)
    row = writer.delete(["doc 5"])
    changed = {"new": (SENTENCES[0],), "doc 3": (SENTENCES[1], SENTENCES[2])}
    now = contents(cluster, tmp_path)
    assert now == {name: texts for name, texts in (before | changed).items() if name != "doc 5"}
    with pytest.raises(UnknownDocumentError):
        writer.delete(["doc 5"])
    with pytest.raises(DuplicateDocumentError, match="comes twice in one call"):
        writer.add([document("x", "one"), document("x", "two")])


def test_a_repeated_operation_encodes_and_changes_nothing(cluster: Cluster, encoder: Encoder) -> None:
    """It tells what the first did."""
    one = ClusterWriter(cluster, encoder).add([document("new", SENTENCES[0])], op_id="mine")
    assert ClusterWriter(cluster).add([document("new", SENTENCES[0])], op_id="mine") == one


def test_another_encoder_is_refused(cluster: Cluster, encoder: Encoder, tmp_path: Path) -> None:
    """Its vectors mean something else."""
    write_tiny_encoder(tmp_path / "other", seed=5)
    writer = ClusterWriter(cluster, Encoder.load(tmp_path / "other", device="cpu", dtype="float32"))
    with pytest.raises(EncoderMismatchError):
        writer.add([document("new", SENTENCES[0])])
    assert encoder.directory is not None
    otherwise = Encoder.load(encoder.directory, device="cpu", dtype="bfloat16")
    with pytest.raises(EncoderMismatchError, match="computed in float32, this encoder computes them in bfloat16"):
        ClusterWriter(cluster, otherwise).add([document("new", SENTENCES[0])])
    assert cluster.catalog.newest_number() == 1


def test_a_corpus_is_added_in_some_generations(cluster: Cluster, encoder: Encoder, tmp_path: Path) -> None:
    """Also pages without text."""
    lines = [{"doc_id": f"more {n}", "title": f"More {n}", "url": None, "meta": {}, "passages": []} for n in range(3)]
    lines[0]["passages"] = [{"ordinal": 1, "text": SENTENCES[4]}]
    (tmp_path / "more.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    rows = ClusterWriter(cluster, encoder).add_corpus(CorpusOptions((tmp_path / "more.jsonl",)))
    assert [row.documents_added for row in rows] == [3]
    assert contents(cluster, tmp_path)["more 2"] == ()


def test_small_shards_become_one(cluster: Cluster, encoder: Encoder, tmp_path: Path) -> None:
    """Without dead documents; nothing else changes; names stay with their documents."""
    writer = ClusterWriter(cluster, encoder)
    for number in range(4):
        writer.add([document(f"new {number}", SENTENCES[number])])
    writer.add_aliases([("doc 1", NewAlias("the one"))])
    writer.delete(["doc 2", "new 1"])
    before = contents(cluster, tmp_path)
    assert len(cluster.manifest().shards) == 6  # one of the additions is empty by now
    made = compact_cluster(cluster, created_at=CREATED_AT, kbengine_version="1")
    assert len(made) == 1 and len(cluster.manifest().shards) == 1
    assert contents(cluster, tmp_path) == before
    manifest = cluster.manifest()
    assert sum(shard.dead for shard in manifest.shards) == 0
    assert [each.alias for each in cluster.aliases(manifest)] == ["the one"]
    assert compact_cluster(cluster, created_at=CREATED_AT, kbengine_version="1") == []
    writer.add([document("doc 2", SENTENCES[5])])
    assert contents(cluster, tmp_path) == before | {"doc 2": (SENTENCES[5],)}


def test_what_was_built_for_several_machines_stays_for_several(cluster: Cluster, encoder: Encoder) -> None:
    """Only what is small beside the largest is put together; with `purge` dead documents go all the same."""
    rows = [shard.rows for shard in cluster.manifest().shards]
    writer = ClusterWriter(cluster, encoder)
    writer.delete(["doc 0"])
    made = compact_cluster(cluster, created_at=CREATED_AT, kbengine_version="1", max_rows=max(rows))
    assert made == [] and len(cluster.manifest().shards) == 3
    made = compact_cluster(cluster, created_at=CREATED_AT, kbengine_version="1", max_rows=max(rows), purge=True)
    assert len(made) == 1 and [shard.dead for shard in cluster.manifest().shards] == [0, 0, 0]


def test_pruning_keeps_what_the_last_two_generations_need(cluster: Cluster, encoder: Encoder, tmp_path: Path) -> None:
    """And what was uploaded a moment ago, which may be somebody's next generation."""
    writer = ClusterWriter(cluster, encoder)
    writer.add([document("new", SENTENCES[0])])
    compact_cluster(cluster, created_at=CREATED_AT, kbengine_version="1")
    writer.delete(["doc 1"])
    orphan = cluster.store.put_bytes(b"of a change that was interrupted", "orphan")
    first = cluster.manifest(1)
    report = prune_cluster(cluster)
    assert (report.objects, report.manifests) == (0, 2)
    assert prune_cluster(cluster, older_than_s=-60).objects > 0
    assert not cluster.store.has(orphan.sha256, orphan.n_bytes)
    assert verify_generation(cluster.manifest(), cluster.store) == []
    assert verify_generation(cluster.manifest(3), cluster.store) == []
    assert len(verify_generation(first, cluster.store)) > 0
    assert "new" in contents(cluster, tmp_path)
    with pytest.raises(InvalidOptionError, match="wanted at least 2"):
        prune_cluster(cluster, keep=1)


def test_a_copy_is_a_cluster_of_its_own(cluster: Cluster, encoder: Encoder, tmp_path: Path) -> None:
    """Copied, checked, entered into an empty catalog, it answers the same and can be changed."""
    writer = ClusterWriter(cluster, encoder)
    writer.add([document("doc 1", SENTENCES[3])])
    writer.add_aliases([("doc 2", NewAlias("the two"))])
    writer.delete(["doc 4"])
    target = f"file://{tmp_path}/copy"
    report = copy_generation(cluster, target)
    assert report.generation == 4 and report.n_bytes == report.new_bytes
    assert copy_generation(cluster, target).new_bytes == 0
    copy = Cluster.open(target)
    row = restore_catalog(copy)
    assert row.generation == 4
    before = contents(cluster, tmp_path)
    (tmp_path / "of-copy").mkdir()
    assert contents(copy, tmp_path / "of-copy") == before
    ClusterWriter(copy, encoder).add([document("doc 2", SENTENCES[4]), document("after", SENTENCES[5])])
    assert copy.manifest().generation == 5
    assert [each.alias for each in copy.aliases(copy.manifest())] == ["the two"]
    assert contents(copy, tmp_path / "of-copy") == before | {"doc 2": (SENTENCES[4],), "after": (SENTENCES[5],)}
    with pytest.raises(StateError, match="has generations already"):
        restore_catalog(copy)
    copy.close()


def test_damage_is_named_and_stops_a_copy(cluster: Cluster, tmp_path: Path) -> None:
    """No manifest is written for what is not whole."""
    file = cluster.manifest().shards[0].files[-1]
    assert isinstance(cluster.store, ObjectFolder)
    path = cluster.store.folder / "objects" / file.sha256[:2] / file.sha256
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert [file.sha256 in problem for problem in verify_generation(cluster.manifest(), cluster.store)] == [True]
    with pytest.raises(CorruptError, match=file.sha256):
        copy_generation(cluster, f"file://{tmp_path}/copy")
    assert not (tmp_path / "copy" / "generations").exists()


def test_commands(encoder: Encoder, tmp_path: Path) -> None:
    """From a corpus to a changed, compacted, copied and checked cluster."""
    assert encoder.directory is not None
    corpus, root = write_corpus(tmp_path / "corpus.jsonl"), f"file://{tmp_path}/cluster"
    with_encoder = ["--encoder", str(encoder.directory), "--device", "cpu", "--dtype", "float32", "--json"]

    def run(*arguments: str, code: int = 0) -> dict[str, object]:
        done = CliRunner(env={**os.environ}).invoke(cli, ["cluster", *arguments])
        assert done.exit_code == code, (arguments, done.output, done.exception)
        return dict(json.loads(done.stdout.splitlines()[0]))

    shape = ["--shards", "2", "--chunk-bytes", "2000"]
    plan = run("plan", str(corpus), "--to", root, *shape, *with_encoder)
    assert (plan["shards"], plan["index"], plan["arithmetic"]) == (2, "exact", "float32")
    built = run("build", str(corpus), "--to", root, *shape, *with_encoder)
    assert (built["generation"], built["documents"], built["links"]) == (1, N, 3 * N)
    more = tmp_path / "more.jsonl"
    more.write_text(json.dumps({"id": "doc 1", "title": "One", "text": SENTENCES[0]}) + "\n")
    assert run("add", str(more), "--to", root, *with_encoder)["replaced"] == 1
    assert run("alias", root, "doc 1", "number one", "--json")["generation"] == 3
    assert run("alias", root, "doc 1", "number one", "--remove", "--json")["aliases"] == 1
    for name, said in (
        ("number one", "has no name 'number one'; nothing"),
        ("number 2", "of the source 'manual', but"),
    ):
        lost = CliRunner().invoke(cli, ["cluster", "alias", root, "doc 2", name, "--remove"])
        assert (lost.exit_code, said in str(lost.exception)) == (1, True), lost.exception
    assert run("delete", root, "doc 2", "--op-id", "mine", "--json")["generation"] == 5
    assert run("delete", root, "doc 2", "--op-id", "mine", "--json")["generation"] == 5
    status = run("status", root, "--json")
    assert (status["generation"], status["documents"], status["shards"]) == (5, N - 1, 3)
    assert run("compact", root, "--json")["shards"] == 1
    assert run("prune", root, "--older-than-s", "-60", "--json")["manifests_removed"] == 4
    assert run("verify", root, "--json")["problems"] == 0
    copy = f"file://{tmp_path}/copy"
    assert run("backup", root, copy, "--json")["generation"] == 6
    assert run("restore", copy, "--json")["documents"] == N - 1
    victim = next((tmp_path / "copy" / "objects").glob("*/*"))
    victim.unlink()
    assert run("verify", copy, "--json", code=1)["problems"] == 1
