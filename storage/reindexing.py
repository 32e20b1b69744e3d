"""Reindexing: segments written anew from stored ones with other settings, exchanged for them in one commit.

Until that commit the old segments answer; killed before it, new files are leftovers that the next open removes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, func, select, update

from storage import schema
from storage.ann import load_ann
from storage.catalog import SegmentRow, chunked, dead_document_ids, live_segments
from storage.checksum import check_row, sealed
from storage.errors import CorruptError, InvalidOptionError, StateError
from storage.merging import Replacement, replace_segments
from storage.records import JSON, pack_offsets, unpack_offsets
from storage.segment import Segment, SegmentFile, open_segment, segment_path
from storage.segment_rewrite import rewrite_segment
from storage.session import WriteSession
from storage.settings import KBSettings, write_setting
from storage.token_filter import LogitCounts, kept_rows

__all__ = ["FilterRequest", "Filtered", "Stage", "filter_tokens"]

Stage = Callable[[str, int, int], None]
"""Called with (what is being done, work done, work in all)."""

_SLACK = 0.005


@dataclass(frozen=True)
class FilterRequest:
    """Which of the stored tokens to keep: a share of all, or those whose larger filter logit reaches a threshold.

    Attributes:
        keep_fraction: Of all tokens of the live documents, not of the stored ones.
        threshold: Instead of a share.
    """

    keep_fraction: float | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        if (self.keep_fraction is None) == (self.threshold is None):
            raise InvalidOptionError(
                f"kept fraction {self.keep_fraction}, filter threshold {self.threshold}; wanted one of the two"
            )
        if self.keep_fraction is not None and not 0 < self.keep_fraction <= 1:
            raise InvalidOptionError(f"the kept fraction is {self.keep_fraction}; wanted more than 0 and at most 1")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise InvalidOptionError(f"the filter threshold is {self.threshold}; wanted a finite number")


@dataclass(frozen=True)
class Filtered:
    """What filtering did.

    Attributes:
        threshold: The larger filter logit of a token must reach it; −inf: all were kept.
        rows_before: Stored token vectors before, those of dead documents included.
        rows: Stored token vectors now.
    """

    threshold: float
    rows_before: int
    rows: int


def filter_tokens(
    session: WriteSession,
    settings: KBSettings,
    request: FilterRequest,
    *,
    stored_threshold: float | None,
    source: Path,
    stage: Stage,
) -> tuple[Filtered, KBSettings]:
    """What was done, and the settings as they are now: fewer tokens are stored, in one commit.

    The caller holds the session's mutex and sees to it that no merge runs.

    Args:
        session: Of the knowledge base to be changed.
        settings: Its settings.
        request: What to keep.
        stored_threshold: The threshold by which the stored tokens were chosen; None when all were stored.
        source: Where the segment files are, in another directory while a knowledge base is copied.
        stage: Shown the progress.

    Raises:
        InvalidOptionError: More tokens are asked for than are stored.
    """
    with session.reading() as connection:
        rows = live_segments(connection)
        dead = dead_document_ids(connection)
        n_tokens, n_stored = _token_counts(connection)
    _check_available(request, n_tokens=n_tokens, n_stored=n_stored, stored_threshold=stored_threshold)
    segments = [
        _open(source, row, number, len(rows), stage, "checking segments") for number, row in enumerate(rows, start=1)
    ]
    threshold = _threshold(request, segments, dead, n_tokens)
    after = _changed_settings(settings, request, threshold, n_tokens=n_tokens)
    replacements: list[Replacement] = []
    try:
        for number, (row, segment) in enumerate(zip(rows, segments, strict=True), start=1):
            with session.file_work():
                file = rewrite_segment(session.segment_directory, segment, kept_rows(segment, threshold))
            replacements.append(Replacement((row,), SegmentRow(file, row.first_passage_id, row.end_passage_id)))
            stage("writing segments", number, len(rows))
        del segments
        filtered = list(_reopened(session, replacements))
        _build_ann(session, filtered, after, stage)
        with session.writing() as connection:
            if replace_segments(connection, replacements, operation="reindex", note=_note(request)) is None:
                raise StateError(f"{session.directory} was changed while it was filtered; try again")
            for number, segment in enumerate(filtered, start=1):
                _update_passages(connection, segment)
                stage("changing the passages' token tables", number, len(filtered))
            for name in ("filter", "build"):
                write_setting(connection, name, getattr(after, name))
    except BaseException:
        session.discard([replacement.new.file for replacement in replacements if replacement.new is not None])
        raise
    if source == session.segment_directory:
        session.unlink([row.file.name for row in rows])
    done = Filtered(threshold, sum(row.file.n_rows for row in rows), sum(segment.n_rows for segment in filtered))
    return done, after


def _token_counts(connection: Connection) -> tuple[int, int]:
    """Tokens of the live documents before filtering, and those that are stored."""
    documents, passages = schema.documents, schema.passages
    live = select(documents.c.document_id).where(documents.c.dead_generation.is_(None))
    row = connection.execute(
        select(
            func.coalesce(func.sum(passages.c.encoded_token_count), 0),
            func.coalesce(func.sum(passages.c.token_count), 0),
        ).where(passages.c.document_id.in_(live))
    ).one()
    return int(row[0]), int(row[1])


def _check_available(request: FilterRequest, *, n_tokens: int, n_stored: int, stored_threshold: float | None) -> None:
    share = n_stored / n_tokens if n_tokens else 1.0
    if request.keep_fraction is not None and request.keep_fraction > share + _SLACK:
        raise InvalidOptionError(
            f"a kept fraction of {request.keep_fraction} was asked for, only {share:.4f} of the tokens are stored; "
            "vectors that were not stored must be encoded: build anew from the corpus ('kbengine export' writes one) "
            f"with --keep-fraction {request.keep_fraction}"
        )
    if request.threshold is not None and stored_threshold is not None and request.threshold < stored_threshold:
        raise InvalidOptionError(
            f"a filter threshold of {request.threshold} was asked for, tokens below {stored_threshold:.4f} are not "
            "stored; vectors that were not stored must be encoded: build anew from the corpus ('kbengine export' "
            f"writes one) with --filter-threshold {request.threshold}"
        )


def _threshold(request: FilterRequest, segments: Sequence[Segment], dead: NDArray[np.int64], n_tokens: int) -> float:
    if request.threshold is not None:
        return request.threshold
    assert request.keep_fraction is not None
    counts = LogitCounts()
    for segment in segments:
        counts.add(segment, ~np.isin(segment.arrays.document_ids, dead))
    return counts.threshold_for(request.keep_fraction * n_tokens)


def _changed_settings(settings: KBSettings, request: FilterRequest, threshold: float, *, n_tokens: int) -> KBSettings:
    """The settings with the new filter, and with the threshold that later additions are to use."""
    filter_: dict[str, JSON] = {"threshold": request.threshold, "keep_fraction": request.keep_fraction}
    position: dict[str, JSON] = dict(settings.build_position)
    if math.isfinite(threshold):
        position |= {"threshold_sum": threshold * n_tokens, "threshold_tokens": n_tokens}
    return dataclasses.replace(settings, filter=filter_, build={"state": settings.build_state, "position": position})


def _note(request: FilterRequest) -> str:
    if request.threshold is not None:
        return f"filter threshold {request.threshold}"
    return f"kept fraction {request.keep_fraction}"


def _open(directory: Path, row: SegmentRow, number: int, total: int, stage: Stage, what: str) -> Segment:
    try:
        segment = open_segment(segment_path(directory, row.file.name), row.file)
    except CorruptError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise StateError(
                f"segment {row.file.name} of {directory.parent} is gone; if another process writes to it, wait until "
                "it has finished, else run 'kbengine verify'"
            ) from error
        raise
    stage(what, number, total)
    return segment


def _reopened(session: WriteSession, replacements: Sequence[Replacement]) -> Iterator[Segment]:
    for replacement in replacements:
        assert replacement.new is not None
        file: SegmentFile = replacement.new.file
        yield open_segment(segment_path(session.segment_directory, file.name), file)


def _build_ann(session: WriteSession, segments: Sequence[Segment], settings: KBSettings, stage: Stage) -> None:
    for number, segment in enumerate(segments, start=1):
        what = f"clustering segment {number} of {len(segments)}"
        load_ann(
            session.index_directory,
            segment,
            "tokens",
            settings.ann_options,
            progress=lambda done, total, what=what: stage(what, done, total),  # type: ignore[misc]
        )
        load_ann(session.index_directory, segment, "passages", settings.ann_options)


def _update_passages(connection: Connection, segment: Segment) -> None:
    """Nothing; the rows of the segment's passages name its tokens only, in the caller's transaction."""
    table = schema.passages
    arrays = segment.arrays
    numbers = segment.token_numbers
    statement = (
        update(table)
        .where(table.c.passage_id == bindparam("key_"))
        .values(token_count=bindparam("count_"), offsets=bindparam("offsets_"), checksum=bindparam("checksum_"))
    )
    for chunk in chunked(range(segment.n_passages)):
        first = int(arrays.passage_ids[chunk[0]])
        last = int(arrays.passage_ids[chunk[-1]])
        index_of = {int(arrays.passage_ids[index]): index for index in chunk}
        chosen = select(table).where(table.c.passage_id >= first, table.c.passage_id <= last)
        changes: list[dict[str, Any]] = []
        for row in connection.execute(chosen).mappings():
            check_row("passages", row)
            index = index_of.get(row["passage_id"])
            if index is None:
                continue
            start = int(arrays.first_rows[index])
            kept = numbers[start : start + int(arrays.token_counts[index])]
            if len(kept) == row["token_count"]:
                continue
            changed = sealed({**row, "token_count": len(kept), "offsets": _kept_offsets(row, kept)})
            changes.append(
                {
                    "key_": row["passage_id"],
                    "count_": changed["token_count"],
                    "offsets_": changed["offsets"],
                    "checksum_": changed["checksum"],
                }
            )
        if changes:
            connection.execute(statement, changes)


def _kept_offsets(row: Mapping[Any, Any], kept: NDArray[Any]) -> bytes:
    offsets = unpack_offsets(row["offsets"], passage_id=row["passage_id"])
    at = np.searchsorted(offsets.numbers, kept)
    if len(offsets.numbers) < len(kept) or (at >= len(offsets.numbers)).any() or (offsets.numbers[at] != kept).any():
        raise CorruptError(
            f"kb.sqlite and the segments differ about the tokens of passage {row['passage_id']}; "
            "run 'kbengine verify --deep'"
        )
    return pack_offsets(offsets.ordinals[at], offsets.starts[at], offsets.ends[at], offsets.numbers[at])
