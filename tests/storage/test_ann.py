"""Approximate and exact search over the vectors of one segment."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from storage.ann import AnnOptions, TokenAnn, ann_path, build_ann, load_ann
from storage.codes import common_scale, dequantise
from storage.errors import InvalidOptionError, UsageError
from storage.segment import Segment
from tests.storage.segment_arrays import segment_arrays, write_and_open

D = 16
N = 3000
OPTIONS = AnnOptions(exact_below_rows=500)


def clustered(n: int, *, seed: int) -> NDArray[np.float32]:
    """Vectors float32 (n, D) around 40 centres, as token vectors are; a few longer than the others."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(40, D))
    vectors = centres[rng.integers(40, size=n)] + 0.4 * rng.normal(size=(n, D))
    vectors[:: max(1, n // 20)] *= 1.2
    return vectors.astype(np.float32)


def make_segment(directory: Path, vectors: NDArray[np.float32]) -> Segment:
    """A segment of one passage per ten of these token vectors."""
    counts = np.full(-(-len(vectors) // 10), 10)
    counts[-1] = len(vectors) - 10 * (len(counts) - 1)
    scale = common_scale(vectors, coverage=0.98)
    arrays = segment_arrays(
        vectors,
        vectors[::10],
        counts.tolist(),
        texts=[("", "")] * len(counts),
        scale=scale,
        passage_scale=scale,
        rng=np.random.default_rng(0),
    )
    return write_and_open(directory, arrays)


@pytest.fixture(scope="module")
def segment(tmp_path_factory: pytest.TempPathFactory) -> Segment:
    """A segment large enough for lists under OPTIONS."""
    return make_segment(tmp_path_factory.mktemp("segments"), clustered(N, seed=1))


@pytest.fixture(scope="module")
def ann(segment: Segment) -> TokenAnn:
    """Its token search, with lists."""
    return build_ann(segment, "tokens", OPTIONS)


@pytest.fixture(scope="module")
def queries() -> NDArray[np.float32]:
    """Queries near the stored vectors."""
    return clustered(30, seed=1) + np.float32(0.3) * clustered(30, seed=2)


def brute_force(
    segment: Segment, queries: NDArray[np.float32], k: int, live: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The definition: all inner products in float64, sorted by falling score and rising row."""
    vectors = dequantise(segment.arrays.codes, segment.arrays.scales).astype(np.float64)
    products = queries.astype(np.float64) @ vectors.T
    if live is not None:
        products[:, ~live] = -np.inf
    order = np.argsort(-products, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(products, order, axis=1).astype(np.float32), order


def recall(found: NDArray[np.int64], wanted: NDArray[np.int64]) -> float:
    """The mean share of the wanted rows that were found."""
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]))


def test_exact_search_is_what_numpy_says(ann: TokenAnn, segment: Segment, queries: NDArray[np.float32]) -> None:
    """Scores, rows and order are those of the definition, row scales included."""
    scores, rows = ann.search(queries, 25, exact=True)
    wanted_scores, wanted_rows = brute_force(segment, queries, 25)
    np.testing.assert_allclose(scores, wanted_scores, rtol=1e-4)
    np.testing.assert_array_equal(rows, wanted_rows)


def test_reading_all_lists_is_exact(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """With every list probed the approximate search returns the exact result, long rows included."""
    scores, rows = ann.search(queries, 10, nprobe=10**6)
    wanted_scores, wanted_rows = ann.search(queries, 10, exact=True)
    np.testing.assert_array_equal(rows, wanted_rows)
    np.testing.assert_allclose(scores, wanted_scores, rtol=1e-5)


def test_rows_with_a_scale_of_their_own_get_exact_scores(segment: Segment, ann: TokenAnn) -> None:
    """A row too long for the common scale is found by its own vector, with its true score."""
    own = np.flatnonzero(segment.arrays.scales > segment.arrays.scales.min())
    assert len(own) > 5
    vectors = segment.vectors(own)
    scores, rows = ann.search(vectors, 200)
    for index, row in enumerate(own.tolist()):
        assert row in rows[index].tolist()
        place = rows[index].tolist().index(row)
        assert scores[index, place] == pytest.approx(float(vectors[index] @ vectors[index]), rel=1e-5)


def test_default_effort_finds_nearly_everything(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """Recall at the default number of probes is high, and probing more never loses."""
    _, wanted = ann.search(queries, 50, exact=True)
    found = [recall(ann.search(queries, 50, nprobe=nprobe)[1], wanted) for nprobe in (4, None, 10**6)]
    assert found[1] > 0.95
    assert found[2] == 1
    assert found[0] <= found[1] <= found[2]


def test_a_result_does_not_depend_on_its_batch(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """A query alone and among others gives the same rows, and scores equal to 1e-5."""
    for exact in (False, True):
        scores, rows = ann.search(queries, 40, exact=exact)
        for index in range(len(queries)):
            alone_scores, alone_rows = ann.search(queries[index : index + 1], 40, exact=exact)
            np.testing.assert_array_equal(alone_rows[0], rows[index])
            np.testing.assert_allclose(alone_scores[0], scores[index], atol=1e-5)


def test_equal_scores_go_to_the_lower_row(tmp_path: Path) -> None:
    """Every vector stored four times: the copies come out in row order, also where k cuts them."""
    vectors = np.tile(clustered(300, seed=3), (4, 1))
    ann = build_ann(make_segment(tmp_path, vectors), "tokens", OPTIONS)
    queries = clustered(20, seed=4)
    for k in (6, 7, 8, 9):
        for options in ({"exact": True}, {"nprobe": 10**6}):
            _, rows = ann.search(queries, k, **options)
            for row in rows:
                first = row[0::4]
                assert (first < 300).all()
                assert [r for f in first for r in (f, f + 300, f + 600, f + 900)][:k] == row.tolist()


def test_dead_rows_never_come_out_and_live_ones_fill_up(
    ann: TokenAnn, segment: Segment, queries: NDArray[np.float32]
) -> None:
    """Whatever share is dead, k live rows are returned as long as there are k."""
    rng = np.random.default_rng(5)
    for share in (0.999, 0.9, 0.5, 0.1, 0.01, 0.002):
        live = rng.random(N) < share
        for exact in (False, True):
            scores, rows = ann.search(queries, 20, live=live, exact=exact)
            expected = min(20, int(live.sum()))
            assert ((rows >= 0).sum(axis=1) == expected).all()
            assert live[rows[rows >= 0]].all()
            assert np.isneginf(scores[rows < 0]).all()
        np.testing.assert_array_equal(rows[:, :expected], brute_force(segment, queries, expected, live)[1])


def test_the_dead_are_passed_over_even_where_they_are_all_the_best(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """Deleting the 300 best rows of a query leaves it with the next best."""
    _, best = ann.search(queries[:1], 300, exact=True)
    live = np.ones(N, dtype=np.bool_)
    live[best[0]] = False
    _, rows = ann.search(queries[:1], 10, live=live, nprobe=10**6)
    np.testing.assert_array_equal(rows, ann.search(queries[:1], 310, exact=True)[1][:, 300:])


def test_nothing_live_gives_nothing(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """All rows dead: only the filling row −1 and score −inf."""
    scores, rows = ann.search(queries, 3, live=np.zeros(N, dtype=np.bool_))
    assert (rows == -1).all()
    assert np.isneginf(scores).all()


def test_more_than_there_is_is_filled_up(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """A k above the number of rows returns all of them, then −1 and −inf."""
    scores, rows = ann.search(queries[:2], N + 5)
    assert sorted(rows[0, :N].tolist()) == list(range(N))
    assert (rows[:, N:] == -1).all()
    assert np.isneginf(scores[:, N:]).all()


def test_a_search_that_asks_for_more_than_its_lists_hold_reads_more_lists(
    ann: TokenAnn, queries: NDArray[np.float32]
) -> None:
    """One probed list cannot hold 500 rows; the search still returns 500."""
    _, rows = ann.search(queries, 500, nprobe=1)
    assert (rows >= 0).all()
    assert all(len(set(row)) == 500 for row in rows.tolist())


def test_a_small_segment_is_scanned_and_writes_no_file(tmp_path: Path, queries: NDArray[np.float32]) -> None:
    """Below `exact_below_rows` search is exact and the index directory stays empty."""
    segment = make_segment(tmp_path, clustered(400, seed=6))
    index = tmp_path / "index"
    index.mkdir()
    ann = load_ann(index, segment, "tokens", OPTIONS)
    assert ann.is_exact
    np.testing.assert_array_equal(ann.search(queries, 10)[1], brute_force(segment, queries, 10)[1])
    assert list(index.iterdir()) == []


def test_passage_vectors_have_their_own_search(tmp_path: Path, segment: Segment, queries: NDArray[np.float32]) -> None:
    """Tokens and passages of a segment are searched apart, each from its own file."""
    options = AnnOptions(exact_below_rows=100)
    passages = load_ann(tmp_path, segment, "passages", options)
    tokens = load_ann(tmp_path, segment, "tokens", options)
    assert (passages.n_rows, tokens.n_rows) == (N // 10, N)
    wanted = np.argsort(-(queries @ segment.passage_vectors(slice(None)).T), axis=1)[:, :5]
    np.testing.assert_array_equal(passages.search(queries, 5, nprobe=10**6)[1], wanted)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{segment.name}.passages.ann",
        f"{segment.name}.tokens.ann",
    ]


def test_the_file_is_read_again_instead_of_built_again(tmp_path: Path, segment: Segment) -> None:
    """A second load does no work and gives the same lists."""
    steps: list[tuple[int, int]] = []
    first = load_ann(tmp_path, segment, "tokens", OPTIONS, progress=lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == steps[-1][1]
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    steps.clear()
    second = load_ann(tmp_path, segment, "tokens", OPTIONS, progress=lambda done, total: steps.append((done, total)))
    assert steps == []
    assert first.lists is not None
    assert second.lists is not None
    np.testing.assert_array_equal(first.lists.order, second.lists.order)


def test_any_damage_of_the_file_is_repaired(
    tmp_path: Path, segment: Segment, queries: NDArray[np.float32], caplog: pytest.LogCaptureFixture
) -> None:
    """Flipped bytes, truncation and absence lead to the same file and the same results as before."""
    path = ann_path(tmp_path, segment.name, "tokens")
    wanted = load_ann(tmp_path, segment, "tokens", OPTIONS).search(queries, 10)
    good = path.read_bytes()
    rng = np.random.default_rng(7)
    damaged: list[bytes | None] = [None, b"", good[:7], good[:-1], good[: len(good) // 2], good + b"x"]
    for position in [0, 5, 9, 100, len(good) - 1, *rng.integers(len(good), size=12).tolist()]:
        damaged.append(good[:position] + bytes([good[position] ^ 4]) + good[position + 1 :])
    for bad in damaged:
        caplog.clear()
        if bad is None:
            path.unlink()
        else:
            path.write_bytes(bad)
        scores, rows = load_ann(tmp_path, segment, "tokens", OPTIONS).search(queries, 10)
        assert path.read_bytes() == good
        assert ("rebuilding" in caplog.text) == (bad is not None)
        np.testing.assert_array_equal(rows, wanted[1])
        np.testing.assert_array_equal(scores, wanted[0])


def test_a_file_of_another_segment_or_other_options_is_not_used(tmp_path: Path, segment: Segment) -> None:
    """The file says which segment, kind and options it was made from."""
    other = make_segment(tmp_path, clustered(N, seed=8))
    load_ann(tmp_path, other, "tokens", OPTIONS)
    ann_path(tmp_path, other.name, "tokens").rename(ann_path(tmp_path, segment.name, "tokens"))
    ann = load_ann(tmp_path, segment, "tokens", OPTIONS)
    fresh = build_ann(segment, "tokens", OPTIONS)
    assert ann.lists is not None
    assert fresh.lists is not None
    np.testing.assert_array_equal(ann.lists.order, fresh.lists.order)
    changed = load_ann(tmp_path, segment, "tokens", AnnOptions(exact_below_rows=500, nlist=7))
    assert changed.lists is not None
    assert len(changed.lists.centroids) == 7


def test_an_index_directory_that_cannot_be_written_does_not_stop_the_search(
    tmp_path: Path, segment: Segment, queries: NDArray[np.float32], caplog: pytest.LogCaptureFixture
) -> None:
    """The lists are used from memory and a warning says so."""
    ann = load_ann(tmp_path / "missing", segment, "tokens", OPTIONS)
    assert recall(ann.search(queries, 10)[1], ann.search(queries, 10, exact=True)[1]) > 0.9
    assert "built again at the next start" in caplog.text


def test_threads_get_the_same_answers(ann: TokenAnn, queries: NDArray[np.float32]) -> None:
    """Searches with different effort at the same time do not disturb each other."""
    wanted = {nprobe: ann.search(queries, 10, nprobe=nprobe)[1] for nprobe in (1, 3, 50)}
    with ThreadPoolExecutor(4) as pool:
        jobs = [(nprobe, pool.submit(ann.search, queries, 10, nprobe=nprobe)) for nprobe in [1, 3, 50] * 10]
        for nprobe, job in jobs:
            np.testing.assert_array_equal(job.result()[1], wanted[nprobe])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"queries": np.zeros((1, D + 1), dtype=np.float32)}, UsageError),
        ({"queries": np.zeros(D, dtype=np.float32)}, UsageError),
        ({"queries": np.full((1, D), np.nan, dtype=np.float32)}, UsageError),
        ({"k": 0}, InvalidOptionError),
        ({"nprobe": 0}, InvalidOptionError),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    ann: TokenAnn, change: dict[str, Any], error: type[Exception]
) -> None:
    """Wrong dimension, NaN, k or nprobe below one."""
    arguments = {"queries": np.zeros((1, D), dtype=np.float32), "k": 1, **change}
    with pytest.raises(error):
        ann.search(arguments.pop("queries"), arguments.pop("k"), **arguments)


def test_options_outside_their_range_are_refused() -> None:
    """Each option has a least value."""
    with pytest.raises(InvalidOptionError, match="nlist is 0"):
        AnnOptions(nlist=0)
    with pytest.raises(InvalidOptionError, match="iterations"):
        AnnOptions(iterations=0)


def test_one_row_repeated_can_be_clustered(tmp_path: Path) -> None:
    """Equal vectors leave lists empty, which is no problem."""
    vectors = np.ones((600, D), dtype=np.float32)
    ann = build_ann(make_segment(tmp_path, vectors), "tokens", OPTIONS)
    _, rows = ann.search(np.ones((1, D), dtype=np.float32), 600)
    assert sorted(rows[0].tolist()) == list(range(600))
