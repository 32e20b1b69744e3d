"""Sparse rows: stored beside the vectors, carried by every rewriting, scored as their definition says."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from storage.errors import CorruptError, InvalidOptionError, UsageError
from storage.reader import KBReader
from storage.records import NewDocument, NewPassage, StoredPassage
from storage.reindexing import FilterRequest, ReindexRequest
from storage.repair import repair
from storage.segment import open_segment, write_segment
from storage.sparse_rows import SparseArrays, SparsePassage, SparseSide, sparse_arrays
from storage.sparse_scores import SparseQuery
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_passage, make_settings

MODEL = "a" * 64
N_GRAMS = 40


def random_side(rng: np.random.Generator, n_tokens: int, n_grams: int) -> SparseSide:
    """Return rows of 0 to 6 entries, each n-gram once a row."""
    counts = rng.integers(0, min(7, n_grams + 1), size=n_tokens)
    columns = [np.sort(rng.choice(n_grams, size=count, replace=False)) for count in counts]
    joined = np.concatenate([np.empty(0, int), *columns]).astype(np.uint16)
    return SparseSide(counts.astype(np.uint8), joined, rng.uniform(0.1, 2.0, len(joined)).astype(np.float32))


def sparse_of(text: str, n_tokens: int, *, model: str = MODEL) -> SparsePassage:
    """Return sparse rows that follow from the text."""
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    rng = np.random.default_rng(seed)
    grams = np.sort(rng.choice(N_GRAMS, size=int(rng.integers(1, 12)), replace=False)).astype(np.uint32)
    return SparsePassage(grams, random_side(rng, n_tokens, len(grams)), random_side(rng, n_tokens, len(grams)), model)


def with_sparse(passage: NewPassage, *, model: str = MODEL) -> NewPassage:
    """Return the passage with sparse rows for its kept tokens."""
    whole = sparse_of(passage.text, passage.encoded_token_count, model=model)
    keep = np.zeros(passage.encoded_token_count, dtype=np.bool_)
    keep[passage.token_ordinals] = True
    return dataclasses.replace(passage, sparse=whole.rows(keep))


def document(doc_id: str, *texts: str, model: str = MODEL) -> NewDocument:
    """Return a document of the small world with sparse rows."""
    plain = make_document(doc_id, *texts)
    return dataclasses.replace(plain, passages=tuple(with_sparse(each, model=model) for each in plain.passages))


def reencode(stored: Sequence[StoredPassage]) -> list[NewPassage]:
    """Return the same vectors and sparse rows for the same text."""
    return [with_sparse(make_passage(each.text, each.ordinal, kept=each.token_ordinals)) for each in stored]


def settings():
    """Return settings of a knowledge base with sparse rows."""
    return make_settings(sparse={"model": MODEL})


def dense(side: SparseSide, grams: np.ndarray) -> np.ndarray:
    """Return the side's rows over all n-grams, float64 (t, N_GRAMS)."""
    rows = np.zeros((len(side.counts), N_GRAMS))
    at = 0
    for token, count in enumerate(side.counts.tolist()):
        for entry in range(at, at + count):
            rows[token, grams[side.columns[entry]]] += side.weights[entry]
        at += count
    return rows


def random_query(seed: int) -> SparseQuery:
    """Return a query over some of the n-grams and some that no passage has."""
    rng = np.random.default_rng(seed)
    grams = np.sort(rng.choice(N_GRAMS + 20, size=9, replace=False)).astype(np.uint32)
    start, end = rng.uniform(0, 1, (2, 9)).astype(np.float32)
    return SparseQuery(grams, np.where(rng.random(9) < 0.3, 0, start).astype(np.float32), end, MODEL)


def expected_scores(reader: KBReader, query: SparseQuery) -> dict[tuple[str, int], tuple[float, float]]:
    """Return, by passage text and token ordinal, the scores of all live tokens over explicit vectors."""
    found = {}
    start, end = np.zeros(N_GRAMS + 20), np.zeros(N_GRAMS + 20)
    start[query.grams], end[query.grams] = query.start, query.end
    for _, passages in reader.iterate_documents():
        for passage in passages:
            whole = with_sparse(make_passage(passage.text, passage.ordinal, kept=passage.offsets.ordinals)).sparse
            scores = (
                dense(whole.start, whole.grams) @ start[:N_GRAMS],
                dense(whole.end, whole.grams) @ end[:N_GRAMS],
            )
            for i, ordinal in enumerate(passage.offsets.ordinals.tolist()):
                found[passage.text, ordinal] = (scores[0][i], scores[1][i])
    return found


def check(path: Path) -> int:
    """Compare the scores of all stored rows with the definition; return how many there are."""
    n = 0
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        texts = {p.passage_id: p.text for _, passages in reader.iterate_documents() for p in passages}
        for seed in range(4):
            query = random_query(seed)
            expected = expected_scores(reader, query)
            live = np.flatnonzero(np.repeat(snapshot.live_passages, snapshot.token_counts)).astype(np.int64)
            rows = np.random.default_rng(seed).permutation(live)
            start, end = snapshot.sparse_scores(rows, query)
            passages = snapshot.passages_of_rows(rows)
            ordinals = snapshot.token_ordinals(rows)
            keys = [(texts[int(snapshot.passage_ids[p])], int(o)) for p, o in zip(passages, ordinals, strict=True)]
            assert set(keys) == set(expected)
            np.testing.assert_allclose(start, [expected[key][0] for key in keys], atol=0.05)
            np.testing.assert_allclose(end, [expected[key][1] for key in keys], atol=0.05)
            n += int((start > 0).sum())
    return n


TEXTS = [" ".join(f"w{i}x{j}" for j in range(3 + i % 9)) for i in range(30)]


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """A knowledge base with sparse rows, of several commits, one document replaced and one deleted."""
    path = tmp_path / "kb"
    with KBWriter.create(path, settings()) as writer:
        for begin in range(0, 30, 6):
            writer.add([document(f"d{i}", TEXTS[i], TEXTS[(i + 1) % 30]) for i in range(begin, begin + 6)])
        writer.add([document("d3", "another text for the same name"), document("empty")])
        writer.delete(["d7"])
        writer.wait_for_merging()
    return path


def test_scores_are_those_of_explicit_vectors(kb: Path) -> None:
    """Start and end side, every row, in any order, over several segments; weights within their byte."""
    assert check(kb) > 50


def test_merging_compacting_and_filtering_keep_the_rows(kb: Path) -> None:
    """Rows of dead documents go, all others stay what they were."""
    with KBWriter.open(kb) as writer:
        assert writer.merge_all() == 1
    before = check(kb)
    with KBWriter.open(kb) as writer:
        assert writer.compact() == 2
    assert check(kb) == before
    with KBWriter.open(kb) as writer:
        done = writer.reindex(ReindexRequest(filter=FilterRequest(keep_fraction=0.3)))
    assert done.rows < done.rows_before
    assert 0 < check(kb) < before
    assert verify(kb, deep=True, reencode=reencode).clean


def test_sparse_rows_can_be_dropped(kb: Path) -> None:
    """Nothing else changes, plain additions are taken from then on, and there is nothing more to drop."""
    with KBReader.open(kb) as reader:
        before, vectors = reader.info().bytes_by_use, reader.snapshot().vectors(np.arange(20))
        assert reader.snapshot().has_sparse_rows
    with KBWriter.open(kb) as writer:
        done = writer.reindex(ReindexRequest(drop_sparse=True))
        assert done.rows == done.rows_before
        assert writer.settings.sparse_model is None
        with pytest.raises(InvalidOptionError, match="base's are missing"):
            writer.add([document("x", "other words")])
        writer.add([make_document("x", "plain words")])
        with pytest.raises(InvalidOptionError, match="no sparse rows to drop"):
            writer.reindex(ReindexRequest(drop_sparse=True))
    with KBReader.open(kb) as reader:
        after = reader.info().bytes_by_use
        np.testing.assert_array_equal(reader.snapshot().vectors(np.arange(20)), vectors)
        assert not reader.snapshot().has_sparse_rows
    assert before["sparse"] > after["sparse"] == 0
    assert verify(kb, deep=True, reencode=lambda stored: [drop(each) for each in reencode(stored)]).clean


def drop(passage: NewPassage) -> NewPassage:
    """Return the passage without sparse rows."""
    return dataclasses.replace(passage, sparse=None)


def test_repair_makes_the_rows_again(kb: Path) -> None:
    """A damaged segment is encoded anew with its sparse rows."""
    before = check(kb)
    damaged = sorted((kb / "segments").glob("*.seg"))[0]
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(bytes(data))
    assert not verify(kb).ok

    assert repair(kb, reencode)

    assert verify(kb).clean
    assert check(kb) == before


def test_the_size_of_sparse_rows_is_told(kb: Path, tmp_path: Path) -> None:
    """As part of the segments' bytes; 0 where none are stored."""
    with KBReader.open(kb) as reader:
        info = reader.info()
        sizes = [loaded.segment.arrays.sparse.n_bytes for loaded in reader.snapshot().segments]
    assert info.bytes_by_use["sparse"] == sum(sizes) > 0
    assert info.bytes_by_use["sparse"] < info.bytes_by_kind["segments"]
    with KBWriter.create(tmp_path / "plain", make_settings()) as writer:
        writer.add([make_document("d", "some text")])
    with KBReader.open(tmp_path / "plain") as reader:
        assert reader.info().bytes_by_use["sparse"] == 0
        rows = np.arange(1)
        with pytest.raises(UsageError, match="sparse rows of none"):
            reader.snapshot().sparse_scores(rows, random_query(0))


def test_a_knowledge_base_holds_rows_of_one_sparse_encoder_or_none(kb: Path, tmp_path: Path) -> None:
    """An addition without them, or of another encoder, is refused before anything is written."""
    with KBWriter.open(kb) as writer:
        with pytest.raises(InvalidOptionError, match="missing"):
            writer.add([make_document("x", "plain words")])
        with pytest.raises(InvalidOptionError, match="of sparse encoder bbbb"):
            writer.add([document("x", "other words", model="b" * 64)])
    with (
        KBWriter.create(tmp_path / "plain", make_settings()) as writer,
        pytest.raises(InvalidOptionError, match="base's are missing"),
    ):
        writer.add([document("x", "sparse words")])
    with KBReader.open(kb) as reader, pytest.raises(UsageError, match="use the encoder"):
        reader.snapshot().sparse_scores(np.arange(3), dataclasses.replace(random_query(0), model="c" * 64))


def test_wrong_rows_are_refused() -> None:
    """Counts, columns and weights that contradict each other; grams that do not rise; a wrong number of tokens."""
    side = SparseSide(np.array([1], np.uint8), np.array([0], np.uint16), np.array([1.0], np.float32))
    grams = np.array([4, 9], np.uint32)
    for wrong in (
        lambda: SparsePassage(grams[::-1], side, side, MODEL),
        lambda: SparsePassage(grams[:0], side, side, MODEL),
        lambda: SparsePassage(grams, dataclasses.replace(side, weights=-side.weights), side, MODEL),
        lambda: SparsePassage(grams, side, dataclasses.replace(side, counts=np.array([2], np.uint8)), MODEL),
        lambda: SparseQuery(grams[::-1], side.weights, side.weights, MODEL),
        lambda: SparseQuery(grams, side.weights, side.weights, MODEL),
        lambda: dataclasses.replace(make_passage("two words here"), sparse=SparsePassage(grams, side, side, MODEL)),
    ):
        with pytest.raises(InvalidOptionError, match=r"wanted|names n-gram|at fault|do not rise"):
            wrong()
    other = SparsePassage(grams, side, side, "b" * 64)
    with pytest.raises(UsageError, match="2 encoders"):
        sparse_arrays([other, SparsePassage(grams, side, side, MODEL)])


def test_a_segment_with_contradicting_sparse_arrays_is_not_opened(kb: Path, tmp_path: Path) -> None:
    """Whatever wrote it: structure is checked beside the checksum."""
    with KBReader.open(kb) as reader:
        opened = reader.snapshot().segments[0].segment
    arrays = open_segment(opened.path, opened.file).arrays
    sparse = arrays.sparse
    assert sparse is not None
    counts = sparse.start_counts.copy()
    counts[:] = 0
    for changed in (
        {"start_counts": counts},
        {"start_columns": np.full_like(sparse.start_columns, 60_000)},
        {"gram_starts": sparse.gram_starts[::-1].copy()},
        {"scales": sparse.scales[:-1]},
    ):
        with pytest.raises(UsageError):
            dataclasses.replace(arrays, sparse=dataclasses.replace(sparse, **changed))
    file = write_segment(tmp_path, arrays)
    path = tmp_path / f"{file.name}.seg"
    assert open_segment(path, file).arrays.sparse is not None
    with pytest.raises(CorruptError):
        open_segment(path, dataclasses.replace(file, n_rows=file.n_rows + 1))


def test_weights_keep_their_order_of_magnitude() -> None:
    """A byte each: the largest exact to half a step, what is below half a step is not stored."""
    weights = np.array([1000.0, 3.0, 0.5], np.float32)
    side = SparseSide(np.array([2, 1], np.uint8), np.array([0, 1, 1], np.uint16), weights)
    empty = SparseSide(np.zeros(2, np.uint8), np.empty(0, np.uint16), np.empty(0, np.float32))

    arrays = sparse_arrays([SparsePassage(np.array([1, 2], np.uint32), side, empty, MODEL)])

    assert isinstance(arrays, SparseArrays)
    assert arrays.start_counts.tolist() == [2, 0] and arrays.start_weights.tolist() == [255, 1]
    assert arrays.scales[0, 0] * 255 == pytest.approx(1000, rel=2e-3) and arrays.scales[0, 1] == 1
    assert arrays.end_columns.shape == (0,) and arrays.end_begins.tolist() == [0, 0]
