"""All tokens stored, some of them indexed: what is found, what is scored, and how one becomes the other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.container import BLOCK_BYTES, open_container
from storage.document_frequencies import document_frequencies
from storage.errors import CorruptError, InvalidOptionError
from storage.reader import KBReader
from storage.records import NewDocument, pack_offsets, unpack_offsets
from storage.reindexing import FilterRequest, ReindexRequest
from storage.segment import open_segment, segment_path
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.segment_arrays import write_and_open
from tests.storage.small_world import make_document, make_passage, make_settings, reencode
from tests.storage.test_segment import make_arrays

ALL = {"tokens": "all", "bits": 4}
TEXTS = [" ".join(f"w{(7 * i + j) % 40}" for j in range(12)) for i in range(40)]


def whole(doc_id: str, text: str) -> NewDocument:
    """A document of one passage with every token of it."""
    passage = make_passage(text, kept=np.arange(len(text.split())))
    return dataclasses.replace(make_document(doc_id, text), passages=(passage,))


def make_kb(path: Path, **changes: Any) -> Path:
    """Forty documents in two segments."""
    settings = make_settings(
        store=ALL, filter={"threshold": None, "keep_fraction": 0.5}, build={"state": "building", "position": {}}
    )
    with KBWriter.create(path, dataclasses.replace(settings, **changes)) as writer:
        writer.add([whole(f"d{i}", text) for i, text in enumerate(TEXTS[:25])])
        writer.add([whole(f"d{i + 25}", text) for i, text in enumerate(TEXTS[25:])])
        writer.choose_indexed()
        writer.finish_build()
    return path


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    """The same, half of the tokens indexed, as a build leaves it."""
    return make_kb(tmp_path / "kb")


def best_rows(path: Path, queries: np.ndarray, k: int = 10, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Token ids found and their logits."""
    with KBReader.open(path) as reader:
        snapshot = reader.snapshot()
        _, rows = snapshot.search_tokens(queries, k, **options)
        return snapshot.token_ids_of_rows(rows), snapshot.best_logits(rows.ravel())


QUERIES = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)


def test_a_search_starts_from_indexed_tokens_and_all_are_scored(kb: Path) -> None:
    """Half of them are found, every one has a vector near what was encoded, ordinals follow from rows."""
    with KBReader.open(kb) as reader:
        info, settings, snapshot = reader.info(), reader.settings, reader.snapshot()
        assert (info.tokens_stored, info.tokens_total) == (480, 480)
        assert info.kept_fraction == pytest.approx(0.5, abs=0.03)
        assert settings.indexed_from is not None
        rows = np.arange(snapshot.n_rows)
        wanted = np.concatenate([whole("x", text).passages[0].vectors for text in TEXTS])
        seen = snapshot.vectors(rows)
        cosines = (wanted * seen).sum(axis=1) / np.linalg.norm(wanted, axis=1) / np.linalg.norm(seen, axis=1)
        assert cosines.mean() > 0.95
        np.testing.assert_allclose(snapshot.inner_products(rows, QUERIES.T), seen @ QUERIES.T, atol=1e-2)
        assert snapshot.token_ordinals(rows[:24]).tolist() == [*range(12), *range(12)]
        assert {loaded.segment.arrays.token_ordinals is None for loaded in snapshot.segments} == {True}
        _, found = snapshot.search_tokens(QUERIES, 480)
        assert (found >= 0).sum(axis=1).tolist() == [info.indexed_rows] * 4
        logits = snapshot.best_logits(found[0][found[0] >= 0])
        assert (logits >= np.float16(settings.indexed_from)).all()
    assert verify(kb, deep=True, reencode=reencode).clean


@pytest.mark.parametrize("kind", ["ivf-sq8", "exact", "ivf-sq4"])
def test_lists_find_what_a_scan_finds(tmp_path: Path, kind: str) -> None:
    """With every list probed, any index of the indexed rows gives what looking at each of them gives."""
    ann: dict[str, Any] = {"exact_below_rows": 1, "kind": kind, "nlist": 4, "nprobe": 1000, "refine": 50}
    path = make_kb(tmp_path / "kb", ann={name: value for name, value in ann.items() if name != "kind"})
    with KBWriter.open(path) as writer:
        writer.merge_all()
        writer.reindex(ReindexRequest(ann=ann))
    ids, logits = best_rows(path, QUERIES)
    scanned, _ = best_rows(path, QUERIES, exact=True)
    assert np.array_equal(ids, scanned)
    with KBReader.open(path) as reader:
        assert logits.min() >= np.float16(reader.settings.indexed_from or 0)
    assert verify(path, deep=True, reencode=reencode).clean


def test_more_or_fewer_tokens_are_indexed_without_a_segment_written(kb: Path) -> None:
    """In either direction, and all of them; segments stay the files that they are."""
    before = {path.name: path.stat().st_mtime_ns for path in (kb / "segments").iterdir()}
    for fraction in (0.2, 0.8, 1.0):
        with KBWriter.open(kb) as writer:
            done = writer.reindex(ReindexRequest(FilterRequest(keep_fraction=fraction)))
        assert done.rows == 480
        assert done.indexed == pytest.approx(480 * fraction, abs=40)
        with KBReader.open(kb) as reader:
            assert reader.info().kept_fraction == pytest.approx(fraction, abs=0.08)
    assert {path.name: path.stat().st_mtime_ns for path in (kb / "segments").iterdir()} == before


def test_only_indexed_tokens_can_be_stored_from_then_on(kb: Path) -> None:
    """The others are dropped; what is found stays the same; there is no way back."""
    ids, _ = best_rows(kb, QUERIES)
    with KBWriter.open(kb) as writer:
        done = writer.reindex(ReindexRequest(drop_unindexed=True))
        assert done.rows == done.indexed < done.rows_before
        assert not writer.settings.stores_all and writer.settings.indexed_from is None
        with pytest.raises(InvalidOptionError, match="already"):
            writer.reindex(ReindexRequest(drop_unindexed=True))
        with pytest.raises(InvalidOptionError, match="build anew"):
            writer.reindex(ReindexRequest(FilterRequest(keep_fraction=0.9)))
    assert np.array_equal(best_rows(kb, QUERIES)[0], ids)
    assert verify(kb, deep=True, reencode=reencode).clean


def test_int8_becomes_four_bits_and_merging_goes_on(tmp_path: Path) -> None:
    """A knowledge base of earlier settings, too; then additions, deletions and a compaction."""
    path = make_kb(tmp_path / "kb", store={}, filter={})
    with KBWriter.open(path) as writer:
        with pytest.raises(InvalidOptionError, match="leave one"):
            writer.reindex(ReindexRequest(ann={"kind": "ivf-sq4"}, drop_vectors=True, code_bits=4))
        writer.reindex(ReindexRequest(code_bits=4))
        assert writer.settings.code_bits == 4 and not writer.settings.stores_all
        with pytest.raises(InvalidOptionError, match="build anew"):
            writer.reindex(ReindexRequest(code_bits=8))
        writer.add([whole("more", TEXTS[3])])
        writer.delete(["d1"])
        writer.compact()
    assert verify(path, deep=True, reencode=reencode).clean
    with KBReader.open(path) as reader:
        assert reader.info().tokens_stored == 480


def test_a_damaged_code_is_told(kb: Path) -> None:
    """Without what decodes the vectors nothing is served, and verify names the file."""
    (code,) = (kb / "segments").glob("*.quantiser")
    code.write_bytes(code.read_bytes()[:-1] + b"x")
    assert [finding.severity for finding in verify(kb).findings if "quantiser" in finding.where] == ["error"]
    with KBReader.open(kb) as reader, pytest.raises(CorruptError, match="coded with quantiser"):
        reader.snapshot()


def test_documents_of_a_term_are_counted_through_merging(tmp_path: Path) -> None:
    """By hand, and in a segment: as many documents as have the term, not passages."""
    starts, passages = np.array([0, 3, 4]), np.array([0, 1, 3, 2], dtype=np.uint32)
    assert document_frequencies(starts, passages, np.array([7, 7, 8, 8])).tolist() == [2, 1]
    arrays = write_and_open(tmp_path, make_arrays([2, 3, 1, 0, 2])).arrays
    assert arrays.document_frequencies is not None
    for term in range(len(arrays.terms)):
        own = arrays.posting_passages[arrays.posting_starts[term] : arrays.posting_starts[term + 1]]
        assert arrays.document_frequencies[term] == len(set(arrays.document_ids[own].tolist()))


def test_each_block_of_a_segment_can_be_checked_by_itself(tmp_path: Path) -> None:
    """A changed byte is found in its block and in no other; the root covers header and checksums."""
    segment = write_and_open(tmp_path, make_arrays([4000, 3000]))
    path = segment_path(tmp_path, segment.name)
    data = bytearray(path.read_bytes())
    data[BLOCK_BYTES + 17] ^= 4
    path.write_bytes(data)
    container = open_container(path)
    assert container.checksums is not None
    container.check_root()
    for number in range(len(container.checksums)):
        if number != 1:
            container.check_block(number)
    with pytest.raises(CorruptError, match="bytes from 32768 on"):
        container.check_block(1)
    with pytest.raises(CorruptError, match="bytes from 32768 on"):
        open_segment(path, segment.file)
    assert container.root is not None
    with pytest.raises(CorruptError, match="header and block checksums"):
        dataclasses.replace(container, root=container.root ^ np.uint8(1)).check_root()


def test_places_of_all_tokens_take_two_bytes() -> None:
    """Their ordinals follow from their order."""
    for step in (5, 300):
        starts = np.arange(100, dtype=np.int32) * step
        packed = pack_offsets(np.arange(100, dtype=np.uint32), starts, starts + 3)
        assert len(packed) == 1 + 100 * 2 * (1 if step < 256 else 2)
        back = unpack_offsets(packed, passage_id=1)
        assert back.ordinals.tolist() == back.numbers.tolist() == list(range(100))
        assert back.starts.tolist() == starts.tolist() and back.ends.tolist() == (starts + 3).tolist()
