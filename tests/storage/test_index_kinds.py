"""Every kind of index through a knowledge base's life: recall, additions, deletions, merges, damage, crashes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from storage.errors import CorruptError, InvalidOptionError
from storage.filter_request import FilterRequest
from storage.reader import KBReader
from storage.reindexing import ReindexRequest
from storage.repair import repair
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.clustered_world import (
    change,
    cosines,
    create,
    make_document,
    queries,
    recall,
    reencode,
    true_vectors,
)

ROOT = Path(__file__).parents[2]
# Kind, least recall@20 with int8 vectors kept, and, where they can be dropped, without them.
KINDS = [
    ("exact", 0.97, None),
    ("ivf-sq8", 0.97, None),
    ("ivf-sq4", 0.97, 0.85),
    ("ivf-pq", 0.95, 0.65),
    ("opq4", 0.80, 0.40),
    ("opq16", 0.97, 0.85),
    ("fastscan", 0.97, 0.65),
    ("opq-fastscan", 0.95, 0.45),
]
CODED = [(kind, kept, dropped) for kind, kept, dropped in KINDS if dropped is not None]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of 2,400 token vectors with the default index."""
    path = tmp_path_factory.mktemp("original") / "kb"
    create(path)
    return path


@pytest.fixture(scope="module")
def variants(original: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """The same with each index, and without int8 vectors where that is possible."""
    directory = tmp_path_factory.mktemp("variants")
    paths: dict[tuple[str, bool], Path] = {}
    for kind, _, dropped in KINDS:
        path = directory / kind
        shutil.copytree(original, path)
        change(path, kind)
        paths[kind, False] = path
        if dropped is not None:
            paths[kind, True] = directory / f"{kind}-dropped"
            shutil.copytree(path, paths[kind, True])
            change(paths[kind, True], drop=True)
    return paths


@pytest.fixture
def copy_of(variants: dict[tuple[str, bool], Path], tmp_path: Path):
    """A function that gives a copy to be changed."""

    def copy(kind: str, *, drop: bool = False) -> Path:
        shutil.copytree(variants[kind, drop], tmp_path / "kb")
        return tmp_path / "kb"

    return copy


@pytest.mark.parametrize(("kind", "kept", "dropped"), KINDS)
def test_the_default_search_finds_what_numpy_finds(variants, kind, kept, dropped):
    """Recall against all inner products with the vectors that the encoder made."""
    for drop, least in ((False, kept), (True, dropped)):
        if least is None:
            continue
        with KBReader.open(variants[kind, drop]) as reader:
            snapshot = reader.snapshot()
            assert recall(snapshot, true_vectors(reader, snapshot)) >= least
            assert reader.settings.ann_options.kind == kind
            assert reader.settings.drops_vectors == drop


@pytest.mark.parametrize(("kind", "kept", "dropped"), CODED)
def test_served_vectors_are_in_the_true_basis_on_every_path(copy_of, kind, kept, dropped):
    """From the index file, from the segment, from a small segment, after merging: near the encoder's, and what scores.

    Rotated twice or not at all, the cosine would be near zero (both defects of the published system).
    """
    del kept, dropped
    path = copy_of(kind)
    least = 0.75 if kind == "opq4" else 0.93

    def check(*, scored_by_codes: bool) -> None:
        with KBReader.open(path) as reader:
            snapshot = reader.snapshot()
            rows = np.random.default_rng(0).permutation(snapshot.n_rows)
            truth = true_vectors(reader, snapshot)[rows]
            served, stored = snapshot.served_vectors(rows), snapshot.vectors(rows)
            assert np.median(cosines(served, truth)) > least
            assert np.median(cosines(stored, truth)) > (least if scored_by_codes else 0.999)
            if scored_by_codes:
                np.testing.assert_allclose(served, stored)
            np.testing.assert_allclose(snapshot.inner_products(rows, truth[:3].T), stored @ truth[:3].T, atol=2e-2)
            codes, scales = snapshot.gather(rows)
            np.testing.assert_allclose(codes * scales[:, None], stored, atol=0.03)
            scores, found = snapshot.search_tokens(queries(), 5)
            vectors = snapshot.vectors(found.ravel()).reshape(*found.shape, -1)
            np.testing.assert_allclose(scores, np.einsum("md,mkd->mk", queries(), vectors), atol=0.05)

    check(scored_by_codes=False)
    change(path, drop=True)
    check(scored_by_codes=True)
    with KBWriter.open(path, background_merging=False) as writer:
        writer.add([make_document(100)])
        check(scored_by_codes=True)
        writer.merge_all()
    check(scored_by_codes=True)


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS])
def test_a_life_of_additions_deletions_and_merges(variants, copy_of, kind, drop):
    """New documents are found, deleted ones are not, before and after merging, reopening and compaction."""
    if (kind, drop) not in variants:
        pytest.skip("this kind is made of the int8 vectors")
    path = copy_of(kind, drop=drop)
    least = {name: dropped if drop else kept for name, kept, dropped in KINDS}[kind]
    with KBReader.open(path) as reader:
        reader.snapshot()
        with KBWriter.open(path, background_merging=False) as writer:
            writer.add([make_document(seed) for seed in range(100, 120)])
            writer.delete([f"doc{seed}" for seed in range(0, 60, 4)])
            writer.add([make_document(3)])
            for step in (lambda: None, writer.merge_all, writer.compact):
                step()
                snapshot = reader.snapshot()
                assert recall(snapshot, true_vectors(reader, snapshot)) >= least
                _, rows = snapshot.search_tokens(queries(), 50)
                assert snapshot.live_passages[snapshot.passages_of_rows(rows.ravel())].all()
            assert len(snapshot.segments) == 1
    report = verify(path, deep=True, reencode=reencode)
    assert report.clean, report.findings
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        assert recall(snapshot, true_vectors(reader, snapshot)) >= least
        assert reader.info().documents == 65


def test_the_exact_index_is_exact(variants):
    """Also for rows with a scale of their own, and among few live rows."""
    with KBReader.open(variants["exact", False]) as reader:
        snapshot = reader.snapshot()
        assert not snapshot.segments[0].token_ann.is_exact  # one list, scanned by FAISS
        arrays = snapshot.segments[0].segment.arrays
        assert (arrays.scales != np.float16(arrays.token_scale)).any()
        ann = snapshot.segments[0].token_ann
        for live in (None, np.random.default_rng(1).random(snapshot.n_rows) < 0.1):
            for k in (1, 30):
                seen, wanted = ann.search(queries(), k, live=live), ann.search(queries(), k, exact=True, live=live)
                np.testing.assert_array_equal(seen[1], wanted[1])
                np.testing.assert_array_equal(seen[0], wanted[0])
    assert list((variants["exact", False] / "index").iterdir()) == []


def test_a_reader_changes_to_the_new_index_without_being_opened_again(copy_of):
    """Settings of the newest commit rule; earlier snapshots go on as they were."""
    path = copy_of("ivf-sq8")
    with KBReader.open(path) as reader:
        before = reader.snapshot()
        wanted = before.search_tokens(queries(), 5)
        rows = np.arange(50)
        assert np.array_equal(before.served_vectors(rows), before.vectors(rows))
        change(path, "opq16")
        after = reader.snapshot()
        assert not np.array_equal(after.served_vectors(rows), after.vectors(rows))
        assert after.segments[0].segment is before.segments[0].segment
        change(path, drop=True)
        assert np.array_equal(reader.snapshot().served_vectors(rows), reader.snapshot().vectors(rows))
        for seen, expected in zip(before.search_tokens(queries(), 5), wanted, strict=True):
            np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS if kind != "exact"])
def test_a_damaged_or_missing_index_file_is_made_again(copy_of, kind):
    """Flipped, cut and deleted files give the same answers and are whole afterwards; verify tells of damage."""
    path = copy_of(kind)
    (file,) = (path / "index").glob("*.tokens.*")
    good = file.read_bytes()
    with KBReader.open(path) as reader:
        wanted = reader.snapshot().search_tokens(queries(), 10)
    for bad in (None, b"", good[:-1], good[:500] + bytes([good[500] ^ 1]) + good[501:]):
        if bad is None:
            file.unlink()
        else:
            file.write_bytes(bad)
            assert [finding.severity for finding in verify(path).findings] == ["derived"]
        with KBReader.open(path) as reader:
            for seen, expected in zip(reader.snapshot().search_tokens(queries(), 10), wanted, strict=True):
                np.testing.assert_array_equal(seen, expected)
        assert file.read_bytes() == good
        assert verify(path).clean


def test_a_damaged_quantiser_is_left_out_and_trained_again_by_repair(copy_of, caplog):
    """With int8 vectors nothing is lost: searched without it, then repaired."""
    path = copy_of("opq16")
    (file,) = (path / "segments").glob("*.quantiser")
    file.write_bytes(file.read_bytes()[:-1])
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        assert recall(snapshot, true_vectors(reader, snapshot)) > 0.95
    assert "verify --repair" in caplog.text
    report = verify(path)
    assert report.ok
    assert {finding.severity for finding in report.findings} <= {"derived", "leftover"}
    assert any("quantiser" in action for action in repair(path, reencode))
    assert verify(path).clean
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        assert not np.array_equal(snapshot.served_vectors(np.arange(9)), snapshot.vectors(np.arange(9)))


def test_without_int8_vectors_a_damaged_quantiser_is_an_error(copy_of):
    """There is nothing else to answer from; the message says that a backup is needed."""
    path = copy_of("opq16", drop=True)
    (file,) = (path / "segments").glob("*.quantiser")
    file.unlink()
    with KBReader.open(path) as reader, pytest.raises(CorruptError, match="quantiser"):
        reader.snapshot()
    with KBWriter.open(path) as writer, pytest.raises(CorruptError, match="backup"):
        writer.add([make_document(200)])
    assert not verify(path).ok


def test_damaged_coded_segments_are_encoded_again(copy_of):
    """Repair codes the newly encoded vectors with the knowledge base's quantiser: the same codes as before."""
    path = copy_of("opq16", drop=True)
    with KBReader.open(path) as reader:
        wanted = reader.snapshot().vectors(np.arange(500))
    for segment in (path / "segments").glob("*.seg"):
        segment.write_bytes(segment.read_bytes()[:-7])
    assert repair(path, reencode)
    assert verify(path, deep=True, reencode=reencode).clean
    with KBReader.open(path) as reader:
        assert cosines(reader.snapshot().vectors(np.arange(500)), wanted).min() > 0.98


def test_tokens_and_index_change_in_one_commit(copy_of):
    """Fewer tokens, another index and dropped vectors: one generation, the rest of the vectors as before."""
    path = copy_of("ivf-sq8")
    with KBReader.open(path) as reader:
        generation = reader.snapshot().generation
    with KBWriter.open(path) as writer:
        done = writer.reindex(ReindexRequest(FilterRequest(keep_fraction=0.5), {"kind": "opq8"}, drop_vectors=True))
        assert done.trained
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        assert snapshot.generation == generation + 1
        assert snapshot.n_rows == done.rows == pytest.approx(1200, abs=30)
        assert np.median(cosines(snapshot.vectors(np.arange(done.rows)), true_vectors(reader, snapshot))) > 0.9
        info = reader.info()
        assert info.last_commits[0].note == "kept fraction 0.5, index opq8, vectors dropped"
        assert info.bytes_by_use["vectors"] < 1200 * 200
    assert verify(path, deep=True, reencode=reencode).clean
    with KBWriter.open(path) as writer:
        assert not writer.reindex(ReindexRequest(FilterRequest(keep_fraction=0.25))).trained
    assert verify(path, deep=True, reencode=reencode).clean


@pytest.mark.parametrize(
    ("kind", "drop", "request_", "message"),
    [
        ("opq16", True, ReindexRequest(ann={"kind": "ivf-sq8"}), "dropped.*build anew"),
        ("opq16", True, ReindexRequest(ann={"kind": "opq8"}), "dropped.*build anew"),
        ("ivf-sq8", False, ReindexRequest(drop_vectors=True), "cannot be dropped"),
        ("ivf-sq8", False, ReindexRequest(ann={"kind": "opq5"}), "divides it"),
        ("ivf-sq8", False, ReindexRequest(ann={"kind": "best"}), "wanted one of exact"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(copy_of, kind, drop, request_, message):
    """The message says why and what to do; no file is left behind."""
    path = copy_of(kind, drop=drop)
    before = sorted(file.name for part in ("segments", "index") for file in (path / part).iterdir())
    with KBWriter.open(path) as writer:
        with pytest.raises(InvalidOptionError, match=message):
            writer.reindex(request_)
        with pytest.raises(InvalidOptionError, match="kbengine reindex"):
            writer.set_setting("ann", {"kind": "opq4"})
    assert sorted(file.name for part in ("segments", "index") for file in (path / part).iterdir()) == before


def test_killed_while_reindexing_leaves_the_old_or_the_new(copy_of, tmp_path):
    """Killed at a moment (power cuts: at all): whole under the one index or the other; the same call succeeds."""
    path = copy_of("ivf-sq8")
    code = (
        "import sys; from storage.writer import KBWriter\nfrom storage.reindexing import ReindexRequest\n"
        "w = KBWriter.open(sys.argv[1]); print('ready', flush=True)\n"
        "w.reindex(ReindexRequest(ann={'kind': 'ivf-sq4'}, drop_vectors=True)); print('done', flush=True)\n"
        "sys.stdin.read()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    for number in (1, 3):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(path, copy)
        with subprocess.Popen(
            [sys.executable, "-c", code, str(copy)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        ) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            if number == 3:
                assert child.stdout.readline() == "done\n"
            else:
                time.sleep(0.04 * number)
            child.send_signal(signal.SIGKILL)
        KBWriter.open(copy).close()
        with KBReader.open(copy) as reader:
            snapshot = reader.snapshot()
            assert recall(snapshot, true_vectors(reader, snapshot)) > 0.6
            assert number != 3 or reader.settings.drops_vectors
            done = reader.settings.drops_vectors
        assert verify(copy).clean
        if not done:
            change(copy, "ivf-sq4", drop=True)
            assert verify(copy, deep=True, reencode=reencode).clean
