"""Records that are kept between questions: never older than the database, bounded, nobody else's to change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import storage.record_cache
from storage.reader import KBReader
from storage.record_cache import RecordCache
from storage.records import DocumentRecord, pack_offsets, unpack_offsets
from storage.writer import KBWriter
from tests.storage.small_world import make_document, make_settings


def test_records_and_names_are_those_of_the_newest_commit(tmp_path: Path) -> None:
    """What was kept is forgotten by the next commit, also by one of another process: names, texts, tombstones."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document("a", "amber basalt"), make_document("b", "cedar delta")])
        ids = reader.snapshot().passage_ids
        for _ in range(2):
            passages, documents = reader.passages_with_documents(ids)
            assert [passages[int(i)].text for i in ids] == ["amber basalt", "cedar delta"]
            assert {each.doc_id for each in documents.values() if each.live} == {"a", "b"}
        title = next(iter(documents.values())).title
        for _ in range(2):
            assert reader.known_names([title, "nobody's"]) == {title}
        writer.delete(["a"])
        assert {each.doc_id for each in reader.passages_with_documents(ids)[1].values() if each.live} == {"b"}
        writer.delete(["b"])
        assert reader.known_names([title]) == frozenset()
        writer.compact(purge=True)
        assert reader.passages_with_documents(ids) == ({}, {})


def test_some_records_are_read_and_others_kept(tmp_path: Path) -> None:
    """Kept and new ones come together, the same as read by themselves."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document(str(i), f"amber basalt {i}") for i in range(5)])
        ids = reader.snapshot().passage_ids
        kept = reader.passages_with_documents(ids[:3])
        both = reader.passages_with_documents(ids[1:])
        assert set(both[0]) == set(ids[1:].tolist())
        assert both[0][int(ids[1])] is kept[0][int(ids[1])]
        with KBReader.open(tmp_path / "kb") as other:
            assert other.passages_with_documents(ids[1:]) == both


def test_changing_what_was_returned_changes_nothing_else(tmp_path: Path) -> None:
    """Meta of a document is the caller's own."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:
        writer.add([make_document("a", "amber")])
        ids = reader.snapshot().passage_ids
        for _ in range(3):
            (document,) = reader.passages_with_documents(ids)[1].values()
            assert "mine" not in document.meta
            document.meta["mine"] = 1  # type: ignore[index]  # what a careless caller does


def test_no_more_is_kept_than_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go; another state of the database begins anew, and what is of an earlier one is not kept."""
    monkeypatch.setattr(storage.record_cache, "MAX_RECORDS", 3)
    cache = RecordCache()
    asked: list[list[str]] = []

    def look_up(names: object) -> list[str]:
        asked.append(list(names))  # type: ignore[call-overload]
        return [name for name in asked[-1] if name.isupper()]

    assert cache.known_names(lambda: 1, list("aBcD"), look_up) == {"B", "D"}
    assert cache.known_names(lambda: 1, list("Dab"), look_up) == {"D"}
    assert asked == [list("aBcD"), list("ab")]
    assert cache.known_names(lambda: 2, ["D"], look_up) == {"D"}
    versions = iter((2, 3))
    assert cache.known_names(lambda: next(versions), ["E"], look_up) == {"E"}
    cache.keep(1, {}, {9: DocumentRecord(9, "x", "X", None, {}, 1, 1, None)})
    assert cache.known_names(lambda: 3, ["E"], look_up) == {"E"}
    assert asked[2:] == [["D"], ["E"], ["E"]]


def test_offsets_of_all_tokens_are_unpacked_as_any(tmp_path: Path) -> None:
    """Short and long passages, in one byte and in two."""
    for n, step in ((0, 1), (1, 4), (300, 5), (300, 300)):
        starts = (np.arange(n) * step).astype(np.int32)
        packed = pack_offsets(np.arange(n, dtype=np.uint32), starts, starts + 3)
        seen = unpack_offsets(packed, passage_id=1)
        for array, wanted in zip(
            (seen.ordinals, seen.starts, seen.ends, seen.numbers),
            (np.arange(n), starts, starts + 3, np.arange(n)),
            strict=True,
        ):
            assert array.tolist() == wanted.tolist()
        assert [each.dtype for each in (seen.ordinals, seen.starts, seen.ends)] == [np.uint32, np.int32, np.int32]
