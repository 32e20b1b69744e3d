"""Search over segments that one quantiser codes: together, in any batch alike, with as many lists as was measured."""

from __future__ import annotations

import itertools
from pathlib import Path

import faiss
import numpy as np
import pytest

from storage.ann_codes import CodedVectors
from storage.axis_groups import uneven_sizes
from storage.coded_search import best_lists
from storage.filled_index import FilledIndex, Selector
from storage.index_kind import LARGE_KIND, IndexKind
from storage.probing import TARGET_RECALL, Probing, measure_probing
from storage.quantiser import Quantiser
from storage.reader import KBReader
from storage.records import NewDocument
from storage.reindexing import ReindexRequest
from storage.settings import KBSettings
from storage.writer import KBWriter
from tests.storage.clustered_world import D, change, create, make_document, make_passage, queries, vectors_of
from tests.storage.test_quantiser import train


@pytest.fixture(scope="module")
def trained() -> Quantiser:
    """A quantiser of sixteen lists."""
    return train(LARGE_KIND)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A knowledge base of three segments coded by one quantiser, some documents of it deleted, and a small segment."""
    path = tmp_path_factory.mktemp("coded") / "kb"
    create(path)
    change(path, LARGE_KIND)
    with KBWriter.open(path, background_merging=False) as writer:
        writer.add([make_document(seed) for seed in range(100, 130)])
        writer.add([make_document(seed) for seed in range(130, 150)])
        writer.add([make_document(seed) for seed in range(150, 153)])
        writer.delete([f"doc{seed}" for seed in [*range(20), *range(100, 125)]])
    return path


def test_a_query_finds_the_same_alone_and_beside_any_others(path):
    """Rows and scores to the last bit, whatever the order and size of the batch."""
    asked = np.concatenate([queries(60), vectors_of(77, 60)])
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        scores, rows = snapshot.search_tokens(asked, 20)
        order = np.random.default_rng(3).permutation(len(asked))
        for batch in (1, 7, 64):
            for begin in range(0, len(asked), batch):
                some = order[begin : begin + batch]
                again_scores, again_rows = snapshot.search_tokens(asked[some], 20)
                np.testing.assert_array_equal(again_rows, rows[some])
                np.testing.assert_array_equal(again_scores, scores[some])


def test_with_all_lists_and_enough_rescoring_it_is_exact(path):
    """The best rows of all segments together, by the inner products with the stored vectors."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        n = snapshot.n_rows
        scores, rows = snapshot.search_tokens(queries(), n // 3, nprobe=10_000)
        wanted_scores, wanted = snapshot.search_tokens(queries(), n // 3, exact=True)
        assert len(np.intersect1d(rows, wanted)) >= 0.999 * len(np.unique(wanted))
        np.testing.assert_allclose(scores, wanted_scores, atol=1e-3)
        assert snapshot.live_passages[snapshot.passages_of_rows(rows.ravel())].all()


def test_rows_that_are_all_alike_are_found_all_the_same(tmp_path: Path):
    """More equal vectors than candidates: which of them were fetched is chance, so more are fetched."""
    passage = make_passage(5)
    settings = KBSettings("clustered", "c" * 64, D, ann={"exact_below_rows": 100, "nlist": 4, "kind": LARGE_KIND})
    with KBWriter.create(tmp_path / "kb", settings) as writer:
        writer.add([NewDocument(f"same{i}", "Same", None, {}, (passage,)) for i in range(40)])
        writer.add([make_document(seed) for seed in range(20)])
        writer.merge_all()
        writer.reindex(ReindexRequest(ann={}))
    with KBReader.open(tmp_path / "kb") as reader:
        snapshot = reader.snapshot()
        scores, rows = snapshot.search_tokens(passage.vectors[:1], 30)
        wanted_scores, wanted = snapshot.search_tokens(passage.vectors[:1], 30, exact=True)
        np.testing.assert_allclose(scores, wanted_scores, atol=1e-3)
        assert len(np.intersect1d(rows, wanted)) >= 28


def test_nobody_asks_for_lists(trained):
    """And gets none."""
    lists, scores = best_lists(trained, vectors_of(11, 40)[:0], 5)
    assert lists.shape == scores.shape == (0, 5)


def test_lists_are_the_best_by_inner_product_whoever_else_asks(trained):
    """As numpy finds them, best first, to the last bit the same in every batch."""
    asked = vectors_of(11, 40)
    lists, scores = best_lists(trained, asked, 5)
    products = asked @ trained.centroids.T
    np.testing.assert_array_equal(lists, np.argsort(-products, axis=1, kind="stable")[:, :5])
    np.testing.assert_allclose(scores, -np.sort(-products, axis=1)[:, :5], rtol=1e-4)
    for index in range(len(asked)):
        alone = best_lists(trained, asked[index : index + 1], 5)
        np.testing.assert_array_equal(alone[0][0], lists[index])
        np.testing.assert_array_equal(alone[1][0], scores[index])


def test_probing_is_as_much_as_recall_needs():
    """So many lists hold the share that was aimed at, also of vectors that were not measured."""
    quantiser = train(LARGE_KIND, nlist=200)
    sample = vectors_of(1, 3000)
    probing = measure_probing(sample, quantiser, len(sample))
    assert TARGET_RECALL <= probing.recall <= 1 and 16 <= probing.nprobe < 200
    rows, asked = vectors_of(1, 3000), vectors_of(3, 200)
    lists = ((rows[:, None] - quantiser.centroids[None]) ** 2).sum(axis=2).argmin(axis=1)
    nearest = np.argsort(-(asked @ rows.T), axis=1)[:, :100]
    looked_into, _ = best_lists(quantiser, asked, probing.nprobe)
    held = [np.isin(lists[near], into).mean() for near, into in zip(nearest, looked_into, strict=True)]
    assert np.mean(held) > 0.9
    assert Probing.from_json(probing.to_json()) == probing
    assert Probing.from_json({"name": "x"}) is None


def test_what_was_measured_is_stored_and_kept_until_the_next_training(tmp_path: Path):
    """Another filter leaves it; a number that is given counts instead; training measures anew."""
    path = tmp_path / "kb"
    create(path)
    change(path, LARGE_KIND)
    with KBReader.open(path) as reader:
        measured = reader.settings.probing
        assert measured is not None and measured.recall >= TARGET_RECALL
        (loaded,) = reader.snapshot().segments
        assert loaded.token_ann.probes(10_000, None, 1.0) == measured.nprobe
        assert loaded.token_ann.probes(10_000, None, 2.0) == 2 * measured.nprobe
        assert loaded.passage_ann.options.nprobe is None
    change(path, drop=True)
    with KBReader.open(path) as reader:
        assert reader.settings.probing == measured
    with KBWriter.open(path) as writer:
        writer.set_setting("ann", {**writer.settings.ann, "nprobe": 3})
    with KBReader.open(path) as reader:
        assert reader.snapshot().segments[0].token_ann.probes(10_000, None, 1.0) == 3


def test_a_large_build_gets_the_index_for_large_ones_unless_one_was_chosen(tmp_path: Path):
    """By the number of indexed vectors; a chosen kind stays."""
    for name, ann, large, kind in (
        ("small", {}, 10**6, "ivf-sq8"),
        ("large", {}, 100, LARGE_KIND),
        ("chosen", {"kind": "ivf-sq4"}, 100, "ivf-sq4"),
    ):
        settings = KBSettings("clustered", "c" * 64, D, ann={"exact_below_rows": 500, **ann})
        with KBWriter.create(tmp_path / name, settings) as writer:
            writer.add([make_document(seed) for seed in range(4)])
            writer.choose_kind(large_rows=large)
            assert writer.settings.ann_options.kind == kind
        with KBReader.open(tmp_path / name) as reader:
            assert reader.settings.ann_options.kind == kind
            assert (reader.snapshot().search_tokens(queries(), 5)[1] >= 0).all()


def test_groups_of_axes_make_the_least_error():
    """Fewer axes where they vary more; all alike where they vary alike; no other sizes make less."""
    assert uneven_sizes(np.ones(12), 4, 4) == [3, 3, 3, 3]
    variances = np.array([50.0, 9.0, 4.0, 1.0, 0.9, 0.5, 0.3, 0.1])

    def error(sizes: tuple[int, ...]) -> float:
        parts = np.split(variances, np.cumsum(sizes)[:-1])
        return sum(min(len(p) * np.exp(np.log(p).mean()) * 4.0 ** (-4 / len(p)), p.sum()) for p in parts)

    every = [sizes for sizes in itertools.product(range(1, 9), repeat=3) if sum(sizes) == 8]
    assert error(tuple(uneven_sizes(variances, 3, 4))) == pytest.approx(min(map(error, every)))
    sizes = uneven_sizes(np.geomspace(100, 0.01, 384), 128, 4)
    assert sum(sizes) == 384 and len(sizes) == 128 and sizes == sorted(sizes)


def random_codes(rng):
    """Return 700 rows of codes in 8 lists, of nothing in particular."""
    rotation, codebooks = np.eye(384, dtype=np.float32), rng.normal(size=(128, 16, 3)).astype(np.float32)
    centroids = rng.normal(size=(8, 384)).astype(np.float32)
    quantiser = Quantiser("0" * 32, IndexKind.of(LARGE_KIND), centroids, rotation=rotation, codebooks=codebooks)
    lists = rng.integers(8, size=700)
    return CodedVectors(quantiser, lists.astype(np.uint16), rng.integers(256, size=(700, 64)).astype(np.uint8))


def test_blocks_are_what_faiss_makes_of_the_same_rows():
    """Filled block by block, the index answers as one that FAISS itself makes of an index filled row by row."""
    rng = np.random.default_rng(4)
    coded = random_codes(rng)
    by_row, coarse = coded.quantiser.empty_index()
    for number in range(8):
        rows = np.flatnonzero(coded.list_numbers == number)
        codes = np.ascontiguousarray(coded.codes[rows])
        by_row.invlists.add_entries(number, len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(codes))
    by_row.ntotal = 700
    filled = FilledIndex.of_codes(coded)
    filled.filling.need_all()
    theirs, ours = faiss.IndexIVFPQFastScan(by_row), filled.index
    asked = rng.normal(size=(20, 384)).astype(np.float32)
    theirs.nprobe = ours.nprobe = coarse.ntotal
    for found, wanted in zip(ours.search(asked, 50), theirs.search(asked, 50), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_few_queries_find_in_lists_what_they_find_among_many(share):
    """The same scores to the last bit, and the same rows of those that are better than the last."""
    rng = np.random.default_rng(5)
    filled = FilledIndex.of_codes(random_codes(rng))
    selector = None if share == 1 else Selector.of(rng.random(700) < share)
    asked = rng.normal(size=(20, 384)).astype(np.float32)
    lists = np.stack([rng.permutation(8)[:5] for _ in asked])
    biases = rng.normal(size=lists.shape).astype(np.float32)
    scores, rows = filled.search_lists(asked, 50, lists, biases, selector)
    for i in range(len(asked)):
        one = slice(i, i + 1)
        alone_scores, alone_rows = filled.search_lists(asked[one], 50, lists[one], biases[one], selector)
        np.testing.assert_array_equal(alone_scores[0], scores[i])
        is_better = scores[i] > scores[i, -1]
        assert set(alone_rows[0][is_better].tolist()) == set(rows[i][is_better].tolist())


def test_codes_that_were_given_back_are_read_again(path):
    """Once the lists are filled the index file takes no memory; what the index sees can still be asked for."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        large = [loaded.token_ann for loaded in snapshot.segments if loaded.token_ann.quantiser is not None]
        assert len(large) == 3
        rows = np.arange(0, snapshot.n_rows, 7)
        served = snapshot.served_vectors(rows)
        for ann in large:
            assert isinstance(ann.served, CodedVectors) and ann.served.mapped is not None
            ann.served.release()
        np.testing.assert_array_equal(snapshot.served_vectors(rows), served)
