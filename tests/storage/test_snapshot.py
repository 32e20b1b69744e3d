"""All segments of one generation, searched as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from storage.ann import AnnOptions, load_ann
from storage.code_block import BlockPart, CodeBlock
from storage.codes import dequantise, quantise
from storage.errors import CorruptError, UsageError
from storage.segment import open_segment, segment_path, write_segment
from storage.snapshot import LoadedSegment, Snapshot
from tests.storage.segment_arrays import WORDS, segment_arrays

D = 12
SCALE = 0.03125
NONE_DEAD = np.empty(0, dtype=np.int64)
OPTIONS = AnnOptions(exact_below_rows=300)


def make_loaded(
    directory: Path, counts: Sequence[int], *, seed: int, first_token_id: int, first_passage_id: int
) -> LoadedSegment:
    """A loaded segment of clustered vectors; documents of two passages each, ids from the passage ids."""
    rng = np.random.default_rng(seed)
    n, p = sum(counts), len(counts)
    centres = np.random.default_rng(99).normal(size=(10, D))
    vectors = centres[rng.integers(10, size=n)] + 0.3 * rng.normal(size=(n, D))
    passage_vectors = rng.normal(size=(p, D))
    passage_vectors /= np.linalg.norm(passage_vectors, axis=1, keepdims=True)
    arrays = segment_arrays(
        vectors,
        passage_vectors,
        counts,
        texts=[("", " ".join(rng.choice(WORDS, size=6))) for _ in range(p)],
        scale=SCALE,
        passage_scale=0.0078125,
        rng=rng,
        first_token_id=first_token_id,
        first_passage_id=first_passage_id,
    )
    file = write_segment(directory, arrays)
    segment = open_segment(segment_path(directory, file.name), file)
    return LoadedSegment(segment, *(load_ann(directory, segment, kind, OPTIONS) for kind in ("tokens", "passages")))


def make_segments(directory: Path, sizes: Sequence[Sequence[int]]) -> list[LoadedSegment]:
    """Segments with these rows per passage, with gaps of 5 token ids and 2 passage ids between them."""
    loaded: list[LoadedSegment] = []
    token_id, passage_id = 10, 4
    for seed, counts in enumerate(sizes):
        loaded.append(make_loaded(directory, counts, seed=seed, first_token_id=token_id, first_passage_id=passage_id))
        token_id, passage_id = token_id + sum(counts) + 5, passage_id + len(counts) + 2
    return loaded


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[LoadedSegment]:
    """One segment with lists between small ones, one of them without any row."""
    sizes = [[5, 0, 7], [0, 0], [9] * 60, [3], [4, 4, 0], [40] * 10]
    return make_segments(tmp_path_factory.mktemp("segments"), sizes)


@pytest.fixture(scope="module")
def snapshot(segments: list[LoadedSegment]) -> Snapshot:
    """All of them, nothing deleted."""
    return Snapshot(7, segments, NONE_DEAD)


@pytest.fixture(scope="module")
def queries() -> NDArray[np.float32]:
    """A few queries near the clusters."""
    rng = np.random.default_rng(5)
    centres = np.random.default_rng(99).normal(size=(10, D))
    return (centres[rng.integers(10, size=8)] + 0.5 * rng.normal(size=(8, D))).astype(np.float32)


def all_vectors(snapshot: Snapshot) -> NDArray[np.float32]:
    """The token vectors of the snapshot."""
    return dequantise(*snapshot.gather(np.arange(snapshot.n_rows)))


def test_rows_passages_and_tokens_are_numbered_through(snapshot: Snapshot, segments: list[LoadedSegment]) -> None:
    """What each segment says about a row, the snapshot says about its number in all segments."""
    first_row = 0
    for loaded in segments:
        segment = loaded.segment
        rows = np.arange(segment.n_rows)
        passages = snapshot.passages_of_rows(rows + first_row)
        np.testing.assert_array_equal(
            snapshot.passage_ids[passages], segment.arrays.passage_ids[segment.passage_of_rows(rows)]
        )
        np.testing.assert_array_equal(snapshot.token_ids_of_rows(rows + first_row), segment.token_ids_of_rows(rows))
        np.testing.assert_array_equal(snapshot.token_ordinals(rows + first_row), segment.arrays.token_ordinals)
        np.testing.assert_array_equal(snapshot.best_logits(rows + first_row), segment.best_logits)
        np.testing.assert_array_equal(snapshot.gather(rows + first_row)[0], segment.arrays.codes)
        first_row += segment.n_rows
    assert (snapshot.n_rows, snapshot.generation, snapshot.d) == (first_row, 7, D)
    assert snapshot.n_passages == sum(loaded.segment.n_passages for loaded in segments)
    np.testing.assert_array_equal(snapshot.first_rows, np.cumsum(snapshot.token_counts) - snapshot.token_counts)


def test_gathering_keeps_the_order_asked_for(snapshot: Snapshot) -> None:
    """Rows of several segments in any order, with repetitions."""
    rows = np.random.default_rng(1).integers(0, snapshot.n_rows, size=500)
    codes, scales = snapshot.gather(rows)
    all_codes, all_scales = snapshot.gather(np.arange(snapshot.n_rows))
    np.testing.assert_array_equal(codes, all_codes[rows])
    np.testing.assert_array_equal(scales, all_scales[rows])
    passages = np.array([snapshot.n_passages - 1, 0, 5, 0])
    vectors = snapshot.passage_vectors(passages)
    np.testing.assert_array_equal(vectors[1], vectors[3])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=0.02)
    assert snapshot.gather(np.empty(0, dtype=np.int64))[0].shape == (0, D)


def test_token_ids_rise_and_lie_in_their_passages(snapshot: Snapshot) -> None:
    """Each row's id is one of its passage's; between segments there are gaps."""
    rows = np.arange(snapshot.n_rows)
    token_ids = snapshot.token_ids_of_rows(rows)
    assert (np.diff(token_ids) > 0).all() and len(np.setdiff1d(np.arange(token_ids.max()), token_ids)) > 20
    passages = snapshot.passages_of_rows(rows)
    first = snapshot.first_token_ids[passages]
    assert (first <= token_ids).all() and (token_ids < first + snapshot.token_counts[passages]).all()


def test_searching_all_segments_is_searching_one_matrix(snapshot: Snapshot, queries: NDArray[np.float32]) -> None:
    """Exact search over small and large segments together equals numpy over all vectors."""
    products = queries.astype(np.float64) @ all_vectors(snapshot).T.astype(np.float64)
    wanted = np.argsort(-products, axis=1, kind="stable")[:, :30]
    for effort in ({"exact": True}, {"nprobe": 10**6}):
        scores, rows = snapshot.search_tokens(queries, 30, **effort)
        np.testing.assert_array_equal(rows, wanted)
        np.testing.assert_allclose(scores, np.take_along_axis(products, wanted, axis=1), rtol=1e-4)
    passage_products = queries @ snapshot.passage_vectors(np.arange(snapshot.n_passages)).T
    np.testing.assert_array_equal(
        snapshot.search_passages(queries, 5)[1], np.argsort(-passage_products, axis=1, kind="stable")[:, :5]
    )


def test_the_block_of_small_segments_equals_searching_each(tmp_path: Path, queries: NDArray[np.float32]) -> None:
    """Scanning all small segments at once gives what searching them one by one and merging gives."""
    segments = make_segments(tmp_path, [[3] * size for size in (1, 5, 20, 2, 9)])
    scores, rows = Snapshot(1, segments, NONE_DEAD).search_tokens(queries, 10)
    offset, all_scores, all_rows = 0, [], []
    for loaded in segments:
        part_scores, part_rows = loaded.token_ann.search(queries, 10)
        all_scores.append(part_scores)
        all_rows.append(np.where(part_rows >= 0, part_rows + offset, -1))
        offset += loaded.segment.n_rows
    joined_scores, joined_rows = np.concatenate(all_scores, axis=1), np.concatenate(all_rows, axis=1)
    order = np.lexsort((joined_rows, -joined_scores), axis=1)[:, :10]
    np.testing.assert_array_equal(rows, np.take_along_axis(joined_rows, order, axis=1))
    np.testing.assert_array_equal(scores, np.take_along_axis(joined_scores, order, axis=1))


def test_many_queries_at_once_and_rows_of_all_sizes_are_scanned_exactly() -> None:
    """The block gives what numpy gives, for one query and for fifty, with rows longer than the common scale."""
    rng = np.random.default_rng(8)
    vectors = rng.normal(size=(700, D)).astype(np.float32)
    vectors[::9] *= 4
    codes, scales = quantise(vectors, SCALE)
    rows = np.arange(1000, 1700)
    parts = [BlockPart(codes[part], scales[part], rows[part]) for part in (slice(0, 300), slice(300, 700))]
    block = CodeBlock(parts, common=SCALE, d=D)
    queries = rng.normal(size=(50, D)).astype(np.float32)
    products = queries.astype(np.float64) @ dequantise(codes, scales).T.astype(np.float64)
    wanted = np.argsort(-products, axis=1, kind="stable")[:, :40] + 1000
    many = block.search(queries, 40)
    np.testing.assert_array_equal(many.rows, wanted)
    for index in range(50):
        alone = block.search(queries[index : index + 1], 40)
        np.testing.assert_array_equal(alone.rows[0], many.rows[index])
        np.testing.assert_array_equal(alone.scores[0], many.scores[index])
    assert block.n_rows == 700


def test_dead_documents_are_never_returned(segments: list[LoadedSegment], queries: NDArray[np.float32]) -> None:
    """Deleting documents takes their tokens, passages and words out of every result, and the rest fills up."""
    rng = np.random.default_rng(3)
    documents = np.unique(np.concatenate([loaded.segment.arrays.document_ids for loaded in segments]))
    for share in (0.05, 0.5, 0.97):
        dead = documents[rng.random(len(documents)) < share]
        snapshot = Snapshot(8, segments, dead)
        live_rows = np.repeat(snapshot.live_passages, snapshot.token_counts)
        products = queries @ all_vectors(snapshot).T
        products[:, ~live_rows] = -np.inf
        expected = min(20, int(live_rows.sum()))
        for effort in ({"exact": True}, {"nprobe": 10**6}, {}):
            _, rows = snapshot.search_tokens(queries, 20, **effort)
            assert ((rows >= 0).sum(axis=1) == expected).all()
            found = snapshot.document_ids[snapshot.passages_of_rows(rows[:, :expected])]
            assert not np.isin(found, dead).any()
            if effort:
                wanted = np.argsort(-products, axis=1, kind="stable")[:, :expected]
                np.testing.assert_array_equal(rows[:, :expected], wanted)
        _, passages = snapshot.search_passages(queries, snapshot.n_passages)
        assert set(passages[passages >= 0].tolist()) == set(np.flatnonzero(snapshot.live_passages).tolist())
        lexical = snapshot.lexical_scores("river gold king")
        assert lexical.shape == (snapshot.n_passages,)
        assert not lexical[~snapshot.live_passages].any()


def test_a_result_does_not_depend_on_its_batch(snapshot: Snapshot, queries: NDArray[np.float32]) -> None:
    """A query alone and among others gives equal rows, and scores equal to 1e-5."""
    scores, rows = snapshot.search_tokens(queries, 25)
    for index in range(len(queries)):
        alone_scores, alone_rows = snapshot.search_tokens(queries[index : index + 1], 25)
        np.testing.assert_array_equal(alone_rows[0], rows[index])
        np.testing.assert_allclose(alone_scores[0], scores[index], atol=1e-5)


def test_words_find_passages_over_all_segments(snapshot: Snapshot) -> None:
    """Weighted terms and texts are scored over all passages."""
    scores = snapshot.lexical_scores({"river": 2.0})
    np.testing.assert_allclose(scores, 2 * snapshot.lexical_scores("river"), rtol=1e-6)
    assert (scores > 0).any()
    assert not (scores > 0).all()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_division_into_segments_gives_numbers_that_fit(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Rows lie in the passage that counts them, whatever passages are empty."""
    sizes = data.draw(st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=5), min_size=1, max_size=4))
    snapshot = Snapshot(1, make_segments(tmp_path_factory.mktemp("segments"), sizes), NONE_DEAD)
    flat = np.array([count for counts in sizes for count in counts])
    rows = np.arange(flat.sum())
    np.testing.assert_array_equal(snapshot.passages_of_rows(rows), np.repeat(np.arange(len(flat)), flat))
    assert (np.diff(snapshot.token_ids_of_rows(rows)) > 0).all()
    scores, found = snapshot.search_tokens(np.ones((1, D), dtype=np.float32), 3)
    assert (found >= 0).sum() == min(3, len(rows))
    assert (np.diff(scores[0][found[0] >= 0]) <= 0).all()


def test_an_empty_snapshot_answers_with_nothing() -> None:
    """Before the first document everything is empty and no search fails."""
    snapshot = Snapshot(0, [], NONE_DEAD)
    queries = np.ones((2, D), dtype=np.float32)
    scores, rows = snapshot.search_tokens(queries, 3)
    assert (rows == -1).all()
    assert np.isneginf(scores).all()
    assert (snapshot.search_passages(queries, 3)[1] == -1).all()
    assert snapshot.lexical_scores("river").shape == (0,)
    assert snapshot.gather(np.empty(0, dtype=np.int64))[0].shape == (0, 0)


def test_segments_out_of_order_are_refused(segments: list[LoadedSegment]) -> None:
    """The order of token ids is checked, not assumed."""
    with pytest.raises(CorruptError, match="out of order"):
        Snapshot(1, [segments[1], segments[0]], NONE_DEAD)


def test_numbers_that_are_no_rows_are_refused(snapshot: Snapshot) -> None:
    """The −1 of a missing result must not silently become the last row."""
    for rows in ([-1], [0, snapshot.n_rows]):
        with pytest.raises(UsageError, match="row numbers"):
            snapshot.gather(np.array(rows))
        with pytest.raises(UsageError, match="row numbers"):
            snapshot.token_ids_of_rows(np.array(rows))
    with pytest.raises(UsageError, match="passage numbers"):
        snapshot.passage_vectors(np.array([-1]))
    with pytest.raises(UsageError, match="dimension 12"):
        snapshot.search_tokens(np.ones((1, D + 1), dtype=np.float32), 1)


def test_a_snapshots_arrays_cannot_be_changed(snapshot: Snapshot) -> None:
    """Threads share them, so they are read-only."""
    for array in (snapshot.passage_ids, snapshot.document_ids, snapshot.first_rows, snapshot.live_passages):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
