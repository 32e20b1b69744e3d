"""Merging segments while adds and deletes go on: planned without the lock, committed with it.

Many adds leave many small segments. Eight adjacent ones of one size tier become one, so a row is rewritten a
number of times that grows with the logarithm of the knowledge base.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from storage.ann_setup import AnnSetup
from storage.catalog import (
    Generation,
    SegmentRow,
    dead_document_ids,
    insert_generation,
    insert_segment,
    live_segments,
    newest_generation,
    retire_segments,
)
from storage.records import Commit
from storage.segment import Segment, SegmentFile, open_segment, segment_path
from storage.segment_merge import merge_segments
from storage.session import WriteSession

__all__ = [
    "FAN_IN",
    "MAX_ROWS",
    "Replacement",
    "merge_and_commit",
    "merge_rows",
    "plan_groups",
    "plan_merge",
    "replace_segments",
    "segment_size",
]

FAN_IN = 8
"""Segments of one tier that become one; also the factor between tiers."""

MAX_ROWS = 4_000_000
"""Largest segment that merging makes, in stored tokens."""

_TIER_ZERO_SIZE = 512


@dataclass(frozen=True)
class Replacement:
    """Segments to be replaced and what replaces them: None when none of their passages is kept."""

    old: tuple[SegmentRow, ...]
    new: SegmentRow | None


def segment_size(row: SegmentRow) -> int:
    """Return what a segment costs to rewrite, in rows; a passage vector counts as a row."""
    return row.file.n_rows + row.file.n_passages


def tier_of(size: int, fan_in: int = FAN_IN) -> int:
    """0 for a segment of one add, one more for each factor of `fan_in`."""
    tier = 0
    while size > _TIER_ZERO_SIZE * fan_in**tier:
        tier += 1
    return tier


def plan_merge(sizes: Sequence[int], *, max_size: int = MAX_ROWS, fan_in: int = FAN_IN) -> range | None:
    """Return the positions of adjacent segments to merge next, None when no tier is full.

    A tier is full when a run of segments of this tier or below holds `fan_in` of this tier; smaller ones lying
    between are swept along. The smallest full tier goes first: it is the cheapest.

    Args:
        sizes: Size of each segment in order.
        max_size: Segments are not merged into one larger than this.
        fan_in: How many fill a tier, and the factor between tiers.
    """
    tiers = [tier_of(size, fan_in) for size in sizes]
    for tier in sorted(set(tiers)):
        start = 0
        while start < len(tiers):
            if tiers[start] > tier:
                start += 1
                continue
            end, count, total = start, 0, 0
            while end < len(tiers) and tiers[end] <= tier and total + sizes[end] <= max_size:
                total += sizes[end]
                count += tiers[end] == tier
                end += 1
                if count == fan_in:
                    return range(start, end)
            start = max(end, start + 1)
    return None


def plan_groups(sizes: Sequence[int], *, max_size: int) -> list[range]:
    """Runs of adjacent segments, covering all positions, each of at most `max_size` unless it is one segment."""
    groups: list[range] = []
    start, total = 0, 0
    for position, size in enumerate(sizes):
        if position > start and total + size > max_size:
            groups.append(range(start, position))
            start, total = position, 0
        total += size
    if start < len(sizes):
        groups.append(range(start, len(sizes)))
    return groups


def merge_rows(
    session: WriteSession, rows: Sequence[SegmentRow], dead: NDArray[np.int64], *, ann: AnnSetup
) -> Replacement:
    """Return what replaces these adjacent segments: one new, durable file without the passages of dead documents.

    Its ANN files are built, too, so that readers need only load them.

    Nothing refers to the file yet; it is a leftover until `replace_segments` commits it.
    """
    opened: list[Segment] = [
        open_segment(segment_path(session.segment_directory, row.file.name), row.file) for row in rows
    ]
    keep = [~np.isin(segment.arrays.document_ids, dead) for segment in opened]
    with session.file_work():
        file = merge_segments(session.segment_directory, opened, keep)
    if file is None:
        return Replacement(tuple(rows), None)
    passage_ids = np.concatenate([segment.arrays.passage_ids[mask] for segment, mask in zip(opened, keep, strict=True)])
    segment = open_segment(segment_path(session.segment_directory, file.name), file)
    ann.prepare(session.index_directory, segment)
    return Replacement(tuple(rows), SegmentRow(file, int(passage_ids[0]), int(passage_ids[-1]) + 1))


def replace_segments(
    connection: Connection, replacements: Sequence[Replacement], *, operation: str, note: str | None = None
) -> Generation | None:
    """Return the new generation, in the caller's transaction; None, and nothing changed, when an old segment is gone.

    Tombstones born since the new files were made stay respected: they are kept by document, not by segment.
    """
    live = {row.file.name for row in live_segments(connection)}
    old = [row.file.name for replacement in replacements for row in replacement.old]
    if not live.issuperset(old):
        return None
    before = newest_generation(connection)
    after = Generation(before.number + 1, before.next_document_id, before.next_passage_id, before.next_token_id)
    insert_generation(connection, Commit(after.number, None, 0, 0, 0), operation=operation, after=after, note=note)
    retire_segments(connection, old, generation=after.number)
    for replacement in replacements:
        if replacement.new is not None:
            insert_segment(connection, replacement.new, generation=after.number)
    return after


def merge_and_commit(session: WriteSession, rows: Sequence[SegmentRow], *, ann: AnnSetup) -> bool:
    """Return whether these segments were replaced by one; False when a compaction replaced them meanwhile.

    The caller sees to it that no two merges run at once.
    """
    with session.reading() as connection:
        dead = dead_document_ids(connection)
    replacement = merge_rows(session, rows, dead, ann=ann)
    new_files: list[SegmentFile] = [] if replacement.new is None else [replacement.new.file]
    try:
        with session.writing() as connection:
            after = replace_segments(connection, [replacement], operation="merge", note=f"{len(rows)} segments")
    except BaseException:
        session.discard(new_files)
        raise
    if after is None:
        session.discard(new_files)
        return False
    session.unlink([row.file.name for row in rows])
    return True
