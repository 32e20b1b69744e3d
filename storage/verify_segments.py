"""The part of verification that looks at segment files and what is derived from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from storage.ann import ann_path, ann_source, stored_codes
from storage.ann_lists import AnnKind, read_lists
from storage.ann_setup import AnnSetup
from storage.catalog import SegmentRow, chunked
from storage.codes_file import Owner, read_codes
from storage.errors import CorruptError, KBError
from storage.findings import Findings, Severity
from storage.languages import language_of
from storage.quantiser import Quantiser
from storage.quantiser_file import QuantiserFile, quantiser_path, read_quantiser
from storage.records import NewPassage, StoredPassage, unpack_offsets
from storage.segment import Segment, open_segment, segment_path
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY
from storage.settings import KBSettings
from storage.verify_database import DatabaseFacts

__all__ = ["Reencode", "check_ann", "check_quantiser", "check_reencoded", "check_segments", "load_stored"]

Reencode = Callable[[Sequence[StoredPassage]], Sequence[NewPassage]]
"""Encodes stored passages again, in order, keeping exactly the tokens at the given ordinals."""

_KINDS: tuple[AnnKind, ...] = ("tokens", "passages")
_BATCH = 64
_MIN_CODED_COSINE = 0.95


def check_segments(
    rows: Sequence[SegmentRow],
    facts: DatabaseFacts,
    findings: Findings,
    *,
    settings: KBSettings | None,
    still_live: Callable[[str], bool],
    deep: bool,
) -> None:
    """Note in `findings` damaged files, and ids that segments and database do not share.

    Args:
        rows: The live segments in order.
        facts: What the database holds.
        findings: Where to note what is wrong.
        settings: Of the knowledge base; None when they could not be read.
        still_live: Whether a segment is live by now: a merge may have replaced it meanwhile.
        deep: Also compare the positions of all kept tokens.
    """
    covered: list[NDArray[np.int64]] = []
    setup = None if settings is None else check_quantiser(settings, findings)
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
            assert setup is not None
            check_ann(segment, setup, findings)
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
        same = np.array_equal(stored, segment.token_ordinals[kept])
        if not (same and np.array_equal(numbers, segment.token_numbers[kept])):
            findings.add(where, "token positions differ from those in kb.sqlite", "repairable")


def check_ann(segment: Segment, setup: AnnSetup, findings: Findings) -> None:
    """Note damaged ANN files of a segment in `findings`. A missing one is none: it is made when wanted."""
    directory = findings.directory / INDEX_DIRECTORY
    for kind in _KINDS:
        source = ann_source(segment, kind)
        decoder = setup.decoder_of(segment)
        if source is None:
            with findings.checking(f"{SEGMENT_DIRECTORY}/{segment.name}.seg"):
                stored_codes(segment, decoder)
            if decoder is None or decoder is setup.quantiser:
                continue
        asked = setup.request(kind, directory)
        listed, _ = asked.listed(segment)
        path = asked.codes_path(segment) or ann_path(directory, segment.name, kind, asked.threshold)
        if not path.exists():
            continue
        try:
            if asked.quantiser is not None:
                read_codes(path, Owner(segment.file.sha256, asked.quantiser), listed.n_rows)
            else:
                read_lists(path, listed, setup.options)
        except KBError as error:
            findings.add(f"{INDEX_DIRECTORY}/{path.name}", error.message, "derived")


def check_quantiser(settings: KBSettings, findings: Findings) -> AnnSetup:
    """Return how segments are searched; note a damaged quantiser in `findings`."""
    of_index = _checked(settings.quantiser_file, findings, "error" if settings.drops_vectors else "derived")
    of_store = _checked(settings.store_file, findings, "error")
    of_passages = _checked(settings.passage_quantiser_file, findings, "error")
    return AnnSetup(
        settings.ann_options, of_index, stored=of_store, threshold=settings.indexed_from, passages=of_passages
    )


def _checked(expected: QuantiserFile | None, findings: Findings, severity: Severity) -> Quantiser | None:
    if expected is None:
        return None
    directory = findings.directory / SEGMENT_DIRECTORY
    try:
        return read_quantiser(directory, expected)
    except KBError as error:
        where = f"{SEGMENT_DIRECTORY}/{quantiser_path(directory, expected.name).name}"
        findings.add(where, error.message, severity)
        return None


def check_reencoded(
    connection: Connection,
    rows: Sequence[SegmentRow],
    findings: Findings,
    *,
    reencode: Reencode,
    sample: int,
    min_cosine: float,
    setup: AnnSetup | None = None,
) -> int:
    """Encode passages again and return how many; note vectors that are not what the text gives in `findings`."""
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
                decoder = None if setup is None else setup.decoder_of(segment)
                least = _least_cosine(segment, index_of[stored.passage_id], new, decoder)
                # Codes are coarse: a last digit that differs may change one of them.
                wanted = min_cosine if segment.arrays.quantised is None else min(min_cosine, _MIN_CODED_COSINE)
                if least < wanted:
                    findings.add(
                        where,
                        f"a vector of passage {stored.passage_id} has cosine {least:.4f} with the newly encoded one, "
                        f"wanted {wanted} or more",
                        "repairable",
                    )
    return n_checked


def load_stored(connection: Connection, passage_ids: Sequence[int]) -> list[StoredPassage]:
    """Return the stored text and kept tokens of those of these passages that kb.sqlite has, in id order."""
    stored: list[StoredPassage] = []
    for chunk in chunked(passage_ids):
        marks = ",".join("?" * len(chunk))
        rows: Any = connection.exec_driver_sql(
            "SELECT p.passage_id, p.document_id, p.ordinal, d.title, d.meta, p.text, p.offsets, p.first_token_id "
            f"FROM passages AS p JOIN documents AS d USING (document_id) WHERE p.passage_id IN ({marks}) "
            "ORDER BY p.passage_id",
            chunk,
        )
        for passage_id, document_id, ordinal, title, meta, text, offsets, first_token_id in rows:
            kept = unpack_offsets(offsets, passage_id=passage_id)
            stored.append(
                StoredPassage(
                    passage_id,
                    document_id,
                    ordinal,
                    title,
                    language_of(json.loads(meta)),
                    text,
                    first_token_id,
                    kept.ordinals,
                    kept.numbers,
                )
            )
    return stored


def _least_cosine(segment: Segment, index: int, new: NewPassage, quantiser: Quantiser | None) -> float:
    """Return the least cosine between stored and new vectors of a passage, −1 where their numbers differ.

    Quantised vectors are compared with the new ones after these, too, were coded and decoded.
    """
    arrays = segment.arrays
    start = int(arrays.first_rows[index])
    rows = slice(start, start + int(arrays.token_counts[index]))
    fresh = new.vectors
    if arrays.quantised is None:
        old = segment.vectors(rows)
    else:
        coded = stored_codes(segment, quantiser)
        old = coded.vectors(rows)
        if old.shape == fresh.shape:
            # An encoder's last digits may move a vector over a border; in the list and codes of before it is the same.
            lists = coded.list_numbers[rows]
            fresh = coded.quantiser.decode(lists, coded.quantiser.encode(fresh, lists))
    old = np.concatenate([old, segment.passage_vectors(slice(index, index + 1))])
    fresh = np.concatenate([fresh, new.passage_vector[None, :]])
    if old.shape != fresh.shape:
        return -1.0
    norms = np.linalg.norm(old, axis=1) * np.linalg.norm(fresh, axis=1)
    # A zero vector is only like another zero vector.
    return float(
        np.where(norms > 0, (old * fresh).sum(axis=1) / np.maximum(norms, 1e-30), (old == fresh).all(axis=1)).min()
    )
