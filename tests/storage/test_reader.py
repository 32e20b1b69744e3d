"""Reading beside a writer: whole commits only, texts by id, lists and look-ups."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from storage.errors import CorruptError, InvalidOptionError, UnknownDocumentError
from storage.inspect import count_rows, list_views, view_rows
from storage.reader import KBReader
from storage.records import NewDocument
from storage.writer import KBWriter
from tests.storage.small_world import D, make_document, make_passage, make_settings, random_document


def test_commit_is_visible_in_the_next_snapshot_and_not_in_earlier_ones(tmp_path: Path) -> None:
    """Read your writes; a snapshot stays as it was."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        empty = reader.snapshot()
        assert reader.snapshot() is empty
        commit = writer.add([make_document("a", "amber basalt")])
        first = reader.snapshot()
        writer.delete(["a"])
        second = reader.snapshot()
        assert (empty.n_passages, first.generation, first.live_passages.tolist()) == (0, commit.generation, [True])
        assert second.live_passages.tolist() == [False]
        assert first.live_passages.tolist() == [True]


def test_snapshot_reuses_segments_that_are_open(tmp_path: Path) -> None:
    """A new commit opens its own segment only."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document("a", "amber")])
        before = reader.snapshot()
        writer.add([make_document("b", "basalt")])
        after = reader.snapshot()
        assert after.segments[0] is before.segments[0]
        assert len(after.segments) == 2


def test_snapshot_in_use_survives_compaction(tmp_path: Path) -> None:
    """Its files are unlinked, its vectors stay readable; texts that were forgotten are simply absent."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document("a", "amber basalt"), make_document("b", "cedar delta")])
        snapshot = reader.snapshot()
        query = make_passage("amber basalt").vectors
        expected = snapshot.search_tokens(query, 2)
        writer.delete(["a"])
        writer.compact(purge=True)
        np.testing.assert_array_equal(snapshot.search_tokens(query, 2)[1], expected[1])
        assert set(reader.passages(snapshot.passage_ids)) == {2}
        assert reader.snapshot().passage_ids.tolist() == [2]


@pytest.mark.parametrize("defer_rows", [1, 10**9])
def test_large_merge_is_opened_in_the_background_with_the_same_answers(tmp_path: Path, defer_rows: int) -> None:
    """Until then its sources answer; documents deleted meanwhile are gone at once."""
    rng = np.random.default_rng(0)
    query = rng.normal(size=(3, D)).astype(np.float32)
    with (
        KBWriter.create(tmp_path / "kb", make_settings()) as writer,
        KBReader.open(tmp_path / "kb", defer_rows=defer_rows) as reader,
    ):
        for number in range(5):
            writer.add([random_document(f"d{number}", rng, passages=3)])
        reader.snapshot()
        writer.delete(["d1"])
        writer.merge_all()
        writer.delete(["d2"])
        writer.add([random_document("new", rng, passages=2)])
        early = reader.snapshot()
        reader._cache.wait()
        late = reader.snapshot()
        assert len(late.segments) == 2
        assert len(early.segments) == (6 if defer_rows == 1 else 2)
        for snapshot in (early, late):
            scores, rows = snapshot.search_tokens(query, 4, exact=True)
            token_ids = snapshot.token_ids_of_rows(rows)
            if snapshot is early:
                expected = scores, token_ids
            np.testing.assert_allclose(scores, expected[0], rtol=1e-5)
            np.testing.assert_array_equal(token_ids, expected[1])
            assert set(snapshot.document_ids[snapshot.live_passages].tolist()) == {1, 4, 5, 6}


def test_compaction_is_never_answered_from_old_segments(tmp_path: Path) -> None:
    """Their tombstones are gone: old segments must not stand in for the compacted one."""
    with (
        KBWriter.create(tmp_path / "kb", make_settings()) as writer,
        KBReader.open(tmp_path / "kb", defer_rows=1) as reader,
    ):
        writer.add([make_document("a", "amber"), make_document("b", "basalt")])
        writer.add([make_document("c", "cedar")])
        reader.snapshot()
        writer.delete(["a"])
        writer.compact()
        assert reader.snapshot().passage_ids.tolist() == [2, 3]


def test_snapshots_taken_beside_a_busy_writer_are_whole(tmp_path: Path) -> None:
    """Each commit replaces both documents by the same word: no snapshot ever shows two words."""
    stop = threading.Event()
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document(name, "word0") for name in "ab"])

        def write() -> None:
            for number in range(1, 40):
                writer.add([make_document(name, f"word{number}") for name in "ab"])
                if number % 10 == 0:
                    writer.compact()
            stop.set()

        thread = threading.Thread(target=write)
        thread.start()
        n_snapshots = 0
        with KBReader.open(tmp_path / "kb") as reader:
            while not stop.is_set():
                snapshot = reader.snapshot()
                ids = snapshot.passage_ids[snapshot.live_passages]
                assert len(ids) == 2
                texts = {passage.text for passage in reader.passages(ids).values()}
                assert len(texts) <= 1  # none when a compaction has forgotten both meanwhile
                n_snapshots += 1
        thread.join()
        assert n_snapshots > 3


def test_documents_are_listed_page_by_page(tmp_path: Path) -> None:
    """In the order of their ids; title prefixes in either case; deleted ones are not listed."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document(f"d{n}", "amber", title=f"{'Paris' if n % 2 else 'Rome'} {n}") for n in range(6)])
        writer.delete(["d3"])
        with KBReader.open(tmp_path / "kb") as reader:
            assert [d.doc_id for d in reader.list_documents(limit=3)] == ["d0", "d1", "d2"]
            assert [d.doc_id for d in reader.list_documents(limit=3, after="d2")] == ["d4", "d5"]
            assert [d.doc_id for d in reader.list_documents(title_prefix="pArIs")] == ["d1", "d5"]
            assert reader.list_documents(title_prefix="paris%") == []
            with pytest.raises(InvalidOptionError):
                reader.list_documents(limit=0)


def test_document_is_found_by_its_id(tmp_path: Path) -> None:
    """With url, meta and its passages in order; unknown and deleted ids raise."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        passages = (make_passage("amber"), make_passage("basalt", 2))
        writer.add([NewDocument("a", "Über", "http://x", {"k": [1, None]}, passages)])
        document = reader.document("a")
        assert (document.title, document.url, document.meta) == ("Über", "http://x", {"k": [1, None]})
        assert document.live
        assert [passage.text for passage in reader.passages_of_document(document.document_id)] == ["amber", "basalt"]
        writer.delete(["a"])
        with pytest.raises(UnknownDocumentError, match="'a'"):
            reader.document("a")
        assert not reader.documents([document.document_id])[document.document_id].live


def test_lexical_look_up_takes_any_text(tmp_path: Path) -> None:
    """FTS5 operators and quotes are plain words; words are stemmed and folded; deleted documents are not found."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document("a", "the rivers of Élan"), make_document("b", "basalt NEAR amber")])
        writer.add([make_document("c", "cedar")])
        assert [d.doc_id for d, _ in reader.lexical_documents('river "elan')] == ["a"]
        assert [d.doc_id for d, _ in reader.lexical_documents("NEAR(amber AND")] == ["b"]
        assert reader.lexical_documents("()*:^-") == []
        (_, better), (_, worse) = reader.lexical_documents("basalt amber cedar")
        assert better > worse
        writer.delete(["a"])
        assert reader.lexical_documents("rivers") == []


def test_info_counts_what_is_live(tmp_path: Path) -> None:
    """Kept share, tombstones, bytes by kind, last commits."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document("a", "amber basalt cedar delta"), make_document("b", "ember")], op_id="x")
        writer.delete(["b"])
        info = reader.info()
    assert (info.documents, info.passages, info.tokens_stored, info.tokens_total) == (1, 1, 2, 4)
    assert (info.kept_fraction, info.tombstones, info.segments, info.segment_rows) == (0.5, 1, 1, 3)
    assert [entry.operation for entry in info.last_commits] == ["delete", "add", "create"]
    assert info.bytes_by_kind["database"] > info.bytes_by_kind["segments"] > 0


def test_changed_text_is_not_served(tmp_path: Path) -> None:
    """A letter changed in the file raises CorruptError naming the passage, before anybody reads the text."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber basalt cedar")])
    file = tmp_path / "kb" / "kb.sqlite"
    data = file.read_bytes()
    assert data.count(b"amber basalt cedar") == 1
    file.write_bytes(data.replace(b"amber basalt cedar", b"amber basalt cedaR"))
    with KBReader.open(tmp_path / "kb") as reader, pytest.raises(CorruptError, match="passage_id 1"):
        reader.passages([1])


def test_damaged_segment_is_refused_or_left_out_by_name(tmp_path: Path) -> None:
    """CorruptError by default; with allow_damaged the others answer and `damaged` says what is missing."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
        (first,) = (tmp_path / "kb" / "segments").iterdir()
        writer.add([make_document("b", "basalt")])
    (second,) = set((tmp_path / "kb" / "segments").iterdir()) - {first}
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    with KBReader.open(tmp_path / "kb") as reader, pytest.raises(CorruptError, match=first.name):
        reader.snapshot()
    with KBReader.open(tmp_path / "kb", allow_damaged=True) as reader:
        assert reader.snapshot().passage_ids.tolist() == [2]
        assert first.name in reader.damaged[0]
    second.unlink()
    with KBReader.open(tmp_path / "kb") as reader, pytest.raises(CorruptError):
        reader.snapshot()


def test_people_can_look_at_the_views(tmp_path: Path) -> None:
    """Through sqlite-utils: names, counts, rows in a chosen order; unknown names are refused."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber"), make_document("b", "basalt", "cedar")])
        writer.delete(["a"])
        assert {view.name: view.rows for view in list_views(tmp_path / "kb")} == {
            "live_documents": 1,
            "live_passages": 2,
            "live_aliases": 0,
            "tombstones": 1,
            "history": 3,
        }
        rows = view_rows(tmp_path / "kb", "live_passages", order_by="-ordinal", limit=1)
        assert [(row["doc_id"], row["text"]) for row in rows] == [("b", "cedar")]
        assert view_rows(tmp_path / "kb", "history")[0]["operation"] == "delete"
        assert count_rows(tmp_path / "kb")["documents"] == 2
        with pytest.raises(InvalidOptionError, match="settings"):
            view_rows(tmp_path / "kb", "settings")
        with pytest.raises(InvalidOptionError, match="DROP"):
            view_rows(tmp_path / "kb", "history", order_by="1; DROP")
        with pytest.raises(InvalidOptionError, match="limit"):
            view_rows(tmp_path / "kb", "history", limit=0)
