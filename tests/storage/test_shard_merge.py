"""Shards put together: what they hold stays as it is, the same parts give the same bytes."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from storage.alias_records import NewAlias
from storage.alias_rows import alias_row
from storage.common_settings import create_with
from storage.creation import FirstIds
from storage.errors import UsageError
from storage.reader import KBReader
from storage.records import NewDocument
from storage.shard_merge import ShardPart, merge_shards
from storage.verify import verify
from tests.storage.cluster_world import AT, COMMON
from tests.storage.small_world import content, make_document


def make_part(path: Path, numbers: range, *, first: int) -> Path:
    """A shard of documents with ids of their own."""
    with create_with(path, COMMON, first=FirstIds(first, 10 * first, 1000 * first)) as writer:
        writer.add([document(number) for number in numbers])
    return path


def document(number: int) -> NewDocument:
    """A document with another name."""
    made = make_document(f"doc {number}", f"amber delta fjord {number}", f"kelp {number} ember")
    return NewDocument(
        made.doc_id, made.title, made.url, {"number": number}, made.passages, (NewAlias(f"the {number}", "document"),)
    )


def checksums(path: Path) -> dict[str, str]:
    """SHA-256 of each file."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_parts_become_one_shard(tmp_path: Path) -> None:
    """Live documents with texts, vectors, names, fields and full text; ids as they were; nothing of dead ones."""
    parts = [
        ShardPart(make_part(tmp_path / "a", range(4), first=1), dead=(2,)),
        ShardPart(make_part(tmp_path / "b", range(4, 6), first=101)),
    ]
    merged = merge_shards(tmp_path / "ab", parts, COMMON, name="0" * 32, created_at=AT)
    assert (merged.documents, merged.passages, merged.first_ordinal, merged.end_ordinal) == (5, 10, 0, 102)
    assert verify(tmp_path / "ab").ok
    assert sorted(content(tmp_path / "ab")) == ["doc 0", "doc 2", "doc 3", "doc 4", "doc 5"]
    with KBReader.open(tmp_path / "ab") as reader:
        snapshot = reader.snapshot()
        assert snapshot.passage_ids.tolist() == [10, 11, 14, 15, 16, 17, 1010, 1011, 1012, 1013]
        assert reader.info().generation == 2


def test_the_same_parts_give_the_same_bytes(tmp_path: Path) -> None:
    """Whenever they were made, and whenever they are put together."""
    for run in ("one", "other"):
        (tmp_path / run).mkdir()
        parts = [
            make_part(tmp_path / run / "a", range(3), first=1),
            make_part(tmp_path / run / "b", range(3, 5), first=9),
        ]
        made = [ShardPart(path) for path in parts]
        merge_shards(tmp_path / run / "ab", made, COMMON, name="1" * 32, created_at=AT)
        time.sleep(0.01)
    assert checksums(tmp_path / "one" / "ab") == checksums(tmp_path / "other" / "ab")


def test_names_counted_from_all_links_take_the_place_of_a_parts_own(tmp_path: Path) -> None:
    """What leads to a document from other shards is known to the build alone."""
    part = make_part(tmp_path / "a", range(2), first=1)
    anchors = [alias_row(1, "that one", "anchor", uses=7)]
    merge_shards(tmp_path / "merged", [ShardPart(part)], COMMON, name="2" * 32, created_at=AT, anchors=anchors)
    assert verify(tmp_path / "merged").ok


def test_nothing_live_makes_no_shard(tmp_path: Path) -> None:
    """The caller leaves such parts out."""
    part = make_part(tmp_path / "a", range(2), first=1)
    with pytest.raises(UsageError, match="no live document"):
        merge_shards(tmp_path / "merged", [ShardPart(part, dead=(1, 2))], COMMON, name="3" * 32, created_at=AT)
    assert not (tmp_path / "merged").exists()


def test_a_knowledge_base_of_several_commits_is_no_part(tmp_path: Path) -> None:
    """Its documents would be born at different commits of a shard that has one."""
    part = make_part(tmp_path / "a", range(2), first=1)
    with create_with(tmp_path / "b", COMMON) as writer:
        writer.add([document(1)])
        writer.add([document(2)])
    with pytest.raises(UsageError, match="not added in its first commit"):
        merge_shards(tmp_path / "m", [ShardPart(tmp_path / "b")], COMMON, name="4" * 32, created_at=AT)
    assert part.exists()
