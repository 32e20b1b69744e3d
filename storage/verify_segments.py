"""The part of verification that looks at segment files and what is derived from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from storage.ann import ann_path, ann_source
from storage.ann_lists import AnnKind, AnnOptions, read_lists
from storage.catalog import SegmentRow, chunked
from storage.errors import CorruptError, KBError
from storage.findings import Findings
from storage.records import NewPassage, StoredPassage, unpack_offsets
from storage.segment import Segment, open_segment, segment_path
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY
from storage.settings import KBSettings
from storage.verify_database import DatabaseFacts

__all__ = ["Reencode", "check_ann", "check_reencoded", "check_segments", "load_stored"]

Reencode = Callable[[Sequence[StoredPassage]], Sequence[NewPassage]]
"""Encodes stored passages again, in order, keeping exactly the tokens at the given ordinals."""

_KINDS: tuple[AnnKind, ...] = ("tokens", "passages")
_BATCH = 64


def check_segments(
    rows: Sequence[SegmentRow],
    facts: DatabaseFacts,
    findings: Findings,
    *,
    settings: KBSettings | None,
    still_live: Callable[[str], bool],
    deep: bool,
) -> None:
    """Nothing; damaged files, and ids that segments and database do not share, are in `findings`.

    Args:
        rows: The live segments in order.
        facts: What the database holds.
        findings: Where to note what is wrong.
        settings: Of the knowledge base; None when they could not be read.
        still_live: Whether a segment is live by now: a merge may have replaced it meanwhile.
        deep: Also compare the positions of all kept tokens.
    """
    covered: list[NDArray[np.int64]] = []
    previous_end = 0
    for row in rows:
        where = f"{SEGMENT_DIRECTORY}/{row.file.name}.seg"
        if row.first_passage_id < previous_end:
            findings.add(
                where, f"begins at passage {row.first_passage_id}, the one before ends at {previous_end}", "error"
            )
        previous_end = row.end_passage_id
        try:
            segment = open_segment(segment_path(findings.directory / SEGMENT_DIRECTORY, row.file.name), row.file)
        except CorruptError as error:
            # Its passages are named once, by the file, not once more as covered by nothing.
            covered.append(np.arange(row.first_passage_id, row.end_passage_id))
            if not isinstance(error.__cause__, FileNotFoundError) or still_live(row.file.name):
                findings.add(where, error.message, "repairable")
            continue
        covered.append(segment.arrays.passage_ids)
        if facts.complete:
            _compare(segment, row, facts, findings, where=where, deep=deep)
        if settings is not None:
            if segment.arrays.encoder != settings.encoder_fingerprint:
                findings.add(where, f"made by encoder {segment.arrays.encoder}, not the knowledge base's", "repairable")
            check_ann(segment, settings.ann_options, findings)
    if not facts.complete or not facts.segments_known:
        return
    uncovered = np.setdiff1d(facts.passage_ids[facts.live], np.concatenate([np.empty(0, dtype=np.int64), *covered]))
    if len(uncovered):
        findings.add(
            SEGMENT_DIRECTORY, f"{len(uncovered)} live passages are in no segment, the first is {uncovered[0]}", "error"
        )


def _compare(
    segment: Segment, row: SegmentRow, facts: DatabaseFacts, findings: Findings, *, where: str, deep: bool
) -> None:
    arrays = segment.arrays
    ids = arrays.passage_ids
    if int(ids[0]) < row.first_passage_id or int(ids[-1]) >= row.end_passage_id:
        findings.add(
            where, f"passages {ids[0]} to {ids[-1]} lie outside {row.first_passage_id} to {row.end_passage_id}", "error"
        )
    at = np.searchsorted(facts.passage_ids, ids)
    known = at < len(facts.passage_ids)
    known[known] = facts.passage_ids[at[known]] == ids[known]
    if not known.all():
        findings.add(
            where, f"{(~known).sum()} passages are not in kb.sqlite, the first is {ids[~known][0]}", "repairable"
        )
    at = at[known]
    wrong = (
        (facts.document_ids[at] != arrays.document_ids[known])
        | (facts.first_token_ids[at] != arrays.first_token_ids[known])
        | (facts.token_counts[at] != arrays.token_counts[known])
    )
    if wrong.any():
        passage = int(ids[known][wrong][0])
        findings.add(
            where,
            f"document or token ids of {wrong.sum()} passages differ from kb.sqlite, first {passage}",
            "repairable",
        )
    elif deep and len(facts.ordinals) == int(facts.token_counts.sum()):
        starts = np.cumsum(facts.token_counts) - facts.token_counts
        counts = facts.token_counts[at]
        # The database's positions of the segment's tokens, passage by passage, as one array.
        shifts = np.repeat(starts[at] - (np.cumsum(counts) - counts), counts)
        stored = facts.ordinals[np.arange(int(counts.sum())) + shifts]
        kept = np.repeat(known, arrays.token_counts)
        numbers = facts.numbers[np.arange(int(counts.sum())) + shifts]
        same = np.array_equal(stored, arrays.token_ordinals[kept])
        if not (same and np.array_equal(numbers, segment.token_numbers[kept])):
            findings.add(where, "token positions differ from those in kb.sqlite", "repairable")


def check_ann(segment: Segment, options: AnnOptions, findings: Findings) -> None:
    """Nothing; damaged ANN files of a segment are in `findings`. A missing one is none: it is made when wanted."""
    for kind in _KINDS:
        path = ann_path(findings.directory / INDEX_DIRECTORY, segment.name, kind)
        if not path.exists():
            continue
        try:
            read_lists(path, ann_source(segment, kind), options)
        except KBError as error:
            findings.add(f"{INDEX_DIRECTORY}/{path.name}", error.message, "derived")


def check_reencoded(
    connection: Connection,
    rows: Sequence[SegmentRow],
    findings: Findings,
    *,
    reencode: Reencode,
    sample: int,
    min_cosine: float,
) -> int:
    """The number of passages encoded again; vectors that are not what the text gives are in `findings`."""
    total = sum(row.file.n_passages for row in rows)
    # Spread over all segments, and the same ones each time.
    chosen = np.sort(np.random.default_rng(0).choice(total, size=min(sample, total), replace=False))
    first = 0
    n_checked = 0
    for row in rows:
        mine = chosen[(chosen >= first) & (chosen < first + row.file.n_passages)] - first
        first += row.file.n_passages
        if not len(mine):
            continue
        where = f"{SEGMENT_DIRECTORY}/{row.file.name}.seg"
        try:
            segment = open_segment(segment_path(findings.directory / SEGMENT_DIRECTORY, row.file.name), row.file)
        except CorruptError:
            continue  # named by check_segments
        index_of = {int(segment.arrays.passage_ids[index]): int(index) for index in mine}
        for batch in chunked(load_stored(connection, list(index_of)), _BATCH):
            for stored, new in zip(batch, reencode(batch), strict=True):
                n_checked += 1
                least = _least_cosine(segment, index_of[stored.passage_id], new)
                if least < min_cosine:
                    findings.add(
                        where,
                        f"a vector of passage {stored.passage_id} has cosine {least:.4f} with the newly encoded one, "
                        f"wanted {min_cosine} or more",
                        "repairable",
                    )
    return n_checked


def load_stored(connection: Connection, passage_ids: Sequence[int]) -> list[StoredPassage]:
    """The stored text and kept tokens of those of these passages that kb.sqlite has, in id order."""
    stored: list[StoredPassage] = []
    for chunk in chunked(passage_ids):
        marks = ",".join("?" * len(chunk))
        rows: Any = connection.exec_driver_sql(
            "SELECT p.passage_id, p.document_id, p.ordinal, d.title, p.text, p.offsets, p.first_token_id "
            f"FROM passages AS p JOIN documents AS d USING (document_id) WHERE p.passage_id IN ({marks}) "
            "ORDER BY p.passage_id",
            chunk,
        )
        for passage_id, document_id, ordinal, title, text, offsets, first_token_id in rows:
            kept = unpack_offsets(offsets, passage_id=passage_id)
            stored.append(
                StoredPassage(
                    passage_id, document_id, ordinal, title, text, first_token_id, kept.ordinals, kept.numbers
                )
            )
    return stored


def _least_cosine(segment: Segment, index: int, new: NewPassage) -> float:
    arrays = segment.arrays
    start = int(arrays.first_rows[index])
    end = start + int(arrays.token_counts[index])
    old = np.concatenate([segment.vectors(slice(start, end)), segment.passage_vectors(slice(index, index + 1))])
    fresh = np.concatenate([new.vectors, new.passage_vector[None, :]])
    if old.shape != fresh.shape:
        return -1.0
    norms = np.linalg.norm(old, axis=1) * np.linalg.norm(fresh, axis=1)
    # A zero vector is only like another zero vector.
    return float(
        np.where(norms > 0, (old * fresh).sum(axis=1) / np.maximum(norms, 1e-30), (old == fresh).all(axis=1)).min()
    )
