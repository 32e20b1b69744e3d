"""Compaction: segments rewritten without the rows of dead documents, whose texts are then deleted too."""

from __future__ import annotations

import logging

import numpy as np

from storage.ann_setup import AnnSetup
from storage.catalog import SegmentRow, dead_document_ids, forget_dead, live_segments, newest_generation_number
from storage.merging import Replacement, merge_rows, plan_groups, replace_segments, segment_size
from storage.schema import FTS_TABLE
from storage.segment import SegmentFile, open_segment, segment_path
from storage.session import WriteSession

__all__ = ["compact"]

_log = logging.getLogger(__name__)


def compact(session: WriteSession, *, purge: bool, max_rows: int, ann: AnnSetup) -> int:
    """Drop the rows of dead documents and their texts; return the number of documents forgotten.

    Adds and deletes may go on: what dies meanwhile stays a tombstone until the next compaction.

    Args:
        session: The writing session; the caller sees to it that no merge runs.
        purge: Also overwrite what was deleted, so that its bytes are in no file any more (VACUUM: the database is
            written anew, which takes its size again in free space).
        max_rows: Largest segment to make.
        ann: The ANN index of new segments.
    """
    with session.reading() as connection:
        generation = newest_generation_number(connection)
        dead = dead_document_ids(connection)
        rows = live_segments(connection)
    replacements: list[Replacement] = []
    try:
        for group in plan_groups([segment_size(row) for row in rows], max_size=max_rows):
            members = [rows[position] for position in group]
            if len(members) > 1 or _holds(session, members[0], dead):
                replacements.append(merge_rows(session, members, dead, ann=ann))
        with session.writing() as connection:
            if purge:
                connection.exec_driver_sql("PRAGMA secure_delete=ON")
            after = replace_segments(connection, replacements, operation="compact", note="purge" if purge else None)
            n_forgotten = forget_dead(connection, up_to=generation) if after is not None else 0
            if purge:
                # Deleted passages' terms stay in the full-text index until its parts are merged.
                connection.exec_driver_sql(f"INSERT INTO {FTS_TABLE}({FTS_TABLE}) VALUES ('optimize')")
    except BaseException:
        session.discard(_new_files(replacements))
        raise
    session.unlink([row.file.name for replacement in replacements for row in replacement.old])
    if purge:
        session.sync_names()
        session.run_outside_transaction("VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA secure_delete=OFF")
    _log.info("%s: compacted, %d dead documents forgotten", session.directory, n_forgotten)
    return n_forgotten


def _holds(session: WriteSession, row: SegmentRow, dead: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bool:
    if not len(dead):
        return False
    segment = open_segment(segment_path(session.segment_directory, row.file.name), row.file)
    return bool(np.isin(segment.arrays.document_ids, dead).any())


def _new_files(replacements: list[Replacement]) -> list[SegmentFile]:
    return [replacement.new.file for replacement in replacements if replacement.new is not None]
