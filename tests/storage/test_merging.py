"""Merging and compaction: planned by size, invisible to readers, respectful of what happens meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.ann_setup import AnnSetup
from storage.catalog import dead_document_ids, live_segments
from storage.errors import InvalidOptionError
from storage.merging import FAN_IN, merge_rows, plan_groups, plan_merge, replace_segments, tier_of
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import content, make_document, make_settings, random_document


def n_segments(path: Path) -> int:
    """How many segments are live."""
    with KBReader.open(path) as reader:
        return reader.info().segments


def test_eight_small_neighbours_are_merged() -> None:
    """Seven are not."""
    assert plan_merge([30] * (FAN_IN - 1)) is None
    assert plan_merge([30] * FAN_IN) == range(FAN_IN)


def test_small_segments_are_merged_before_large_ones_and_never_with_them() -> None:
    """A large segment is not rewritten for the sake of small neighbours."""
    sizes = [100_000, *[30] * FAN_IN, 5000]
    assert plan_merge(sizes) == range(1, FAN_IN + 1)


def test_smaller_segments_between_large_ones_are_swept_along() -> None:
    """Eight of one tier make it full, whatever smaller ones lie between."""
    large = 2000
    sizes = [large, 30] * FAN_IN
    assert plan_merge(sizes) == range(2 * FAN_IN - 1)


def test_merging_stops_at_the_largest_size() -> None:
    """No plan makes a segment larger than asked."""
    assert plan_merge([1000] * 20, max_size=5000) is None
    assert [len(group) for group in plan_groups([1000] * 12, max_size=5000)] == [5, 5, 2]
    assert plan_groups([9000, 10, 9000], max_size=5000) == [range(1), range(1, 2), range(2, 3)]


@pytest.mark.parametrize("largest", [60, 400, 3000])
def test_number_of_segments_stays_logarithmic(largest: int) -> None:
    """A thousand adds, merged whenever due: few segments remain, and a row is rewritten a few times only."""
    adds = np.random.default_rng(largest).integers(20, largest, size=1000).tolist()
    sizes: list[int] = []
    rewritten = 0
    for size in adds:
        sizes.append(size)
        while (due := plan_merge(sizes)) is not None:
            total = sum(sizes[due.start : due.stop])
            rewritten += total
            sizes[due.start : due.stop] = [total]
    tiers = tier_of(sum(adds)) + 1
    assert sum(sizes) == sum(adds)
    assert len(sizes) <= tiers * FAN_IN * 2
    assert rewritten <= sum(adds) * 2 * tiers


@given(st.lists(st.integers(1, 3000), max_size=60))
def test_groups_cover_everything_in_order(sizes: list[int]) -> None:
    """Each position is in exactly one group."""
    groups = plan_groups(sizes, max_size=5000)
    assert [position for group in groups for position in group] == list(range(len(sizes)))


def test_many_single_adds_leave_few_segments(tmp_path: Path) -> None:
    """Background merging keeps up; nothing is lost."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        for number in range(60):
            writer.add([make_document(f"d{number}", "amber basalt cedar")])
        writer.wait_for_merging()
        while writer.merge_small():
            pass
        assert n_segments(tmp_path / "kb") < 2 * FAN_IN
    assert len(content(tmp_path / "kb")) == 60
    assert len(list((tmp_path / "kb" / "segments").iterdir())) == n_segments(tmp_path / "kb")


def test_merge_all_leaves_one_segment_per_size_limit(tmp_path: Path) -> None:
    """At the end of a build; live passages and their token ids stay what they were."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber basalt cedar")])
        writer.add([make_document("b", "delta ember fjord")])
        writer.delete(["a"])
        writer.add([make_document("c", "glacier harbor island")])
        assert writer.merge_all() == 1
        assert writer.merge_all() == 0
        with pytest.raises(InvalidOptionError):
            writer.merge_all(max_rows=0)
    with KBReader.open(tmp_path / "kb") as reader:
        snapshot = reader.snapshot()
        assert len(snapshot.segments) == 1
        assert snapshot.passage_ids.tolist() == [2, 3]
        assert snapshot.token_ids_of_rows(np.arange(snapshot.n_rows)).tolist() == [3, 4, 5, 6]
    assert verify(tmp_path / "kb", deep=True).clean


def test_segment_of_dead_documents_only_is_dropped(tmp_path: Path) -> None:
    """Merging and compacting to nothing leaves a knowledge base that works."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document("a", "amber")])
        writer.add([make_document("b", "basalt")])
        writer.delete(["a", "b"])
        writer.merge_all()
        assert n_segments(tmp_path / "kb") == 0
        assert writer.compact() == 2
        writer.add([make_document("a", "cedar")])
    assert content(tmp_path / "kb") == {"a": ("cedar",)}
    assert verify(tmp_path / "kb", deep=True).clean


def test_document_deleted_while_its_segment_is_merged_stays_deleted(tmp_path: Path) -> None:
    """The tombstone is born after the merge read its snapshot and before it commits."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        for name in "abc":
            writer.add([make_document(name, "amber basalt")])
        session = writer._session
        with session.reading() as connection:
            rows = live_segments(connection)
            dead = dead_document_ids(connection)
        replacement = merge_rows(session, rows, dead, ann=AnnSetup(writer.settings.ann_options))
        writer.delete(["b"])
        writer.add([make_document("d", "delta")])
        with session.writing() as connection:
            assert replace_segments(connection, [replacement], operation="merge") is not None
        session.unlink([row.file.name for row in rows])
    assert content(tmp_path / "kb") == {"a": ("amber basalt",), "c": ("amber basalt",), "d": ("delta",)}
    assert verify(tmp_path / "kb", deep=True).clean


def test_merge_of_segments_that_are_gone_changes_nothing(tmp_path: Path) -> None:
    """A compaction came first: the late merge is thrown away."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        for name in "ab":
            writer.add([make_document(name, "amber")])
        with writer._session.reading() as connection:
            rows = live_segments(connection)
        replacement = merge_rows(
            writer._session, rows, np.empty(0, dtype=np.int64), ann=AnnSetup(writer.settings.ann_options)
        )
        writer.merge_all()
        with writer._session.writing() as connection:
            assert replace_segments(connection, [replacement], operation="merge") is None
    assert set(content(tmp_path / "kb")) == {"a", "b"}


def test_adds_and_deletes_from_several_threads_while_merging(tmp_path: Path) -> None:
    """Everything acknowledged is there; every snapshot on the way agrees with itself."""
    problems: list[BaseException] = []
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer, KBReader.open(tmp_path / "kb") as reader:

        def work(name: str) -> None:
            rng = np.random.default_rng(len(name))
            try:
                for number in range(15):
                    writer.add([random_document(f"{name}{number}", rng, passages=2)])
                    if number % 3 == 2:
                        writer.delete([f"{name}{number - 1}"])
                    snapshot = reader.snapshot()
                    live = snapshot.passage_ids[snapshot.live_passages]
                    assert reader.passages(live).keys() == set(live.tolist())
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in ("x", "yy", "zzz")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
    assert len(content(tmp_path / "kb")) == 3 * (15 - 5)
    assert verify(tmp_path / "kb", deep=True).clean


def test_compaction_forgets_the_dead_and_keeps_their_ids_unused(tmp_path: Path) -> None:
    """Rows of dead documents leave segments and tables; a second compaction has nothing to do."""
    with KBWriter.create(tmp_path / "kb", make_settings()) as writer:
        writer.add([make_document(name, "amber basalt") for name in "abcd"])
        writer.delete(["a", "b"])
        writer.add([make_document("c", "cedar")])
        assert writer.compact() == 3
        assert writer.compact() == 0
    with KBReader.open(tmp_path / "kb") as reader:
        info = reader.info()
        assert (info.documents, info.tombstones, info.passages, info.segment_rows) == (2, 0, 2, 2)
        assert reader.snapshot().live_passages.all()
        assert sorted(reader.documents(range(10))) == [4, 5]
    assert verify(tmp_path / "kb", deep=True).clean
