"""Segments written anew by a reindexing: opened, sampled, coded, and their vectors however they are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors, encode_rows
from storage.ann_parts import list_source
from storage.ann_setup import AnnSetup
from storage.catalog import SegmentRow
from storage.codes_file import Owner, codes_path, read_codes
from storage.errors import CorruptError, InvalidOptionError, KBError, StateError
from storage.merging import Replacement
from storage.quantiser import Quantiser
from storage.reindex_filter import Masks
from storage.segment import Segment, open_segment, segment_path
from storage.segment_rewrite import QuantisedRows, rewrite_segment
from storage.session import INDEX_DIRECTORY, WriteSession
from storage.stored_code import MEASURED_ROWS, measure_stored_code

Stage = Callable[[str, int, int], None]
"""Called with (what is being done, work done, work in all)."""


@dataclass(frozen=True)
class Vectors:
    """Stored token vectors, whatever they are stored as."""

    setup: AnnSetup

    def of(self, segment: Segment, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of rows, float32 (rows, d)."""
        return list_source(segment, self.setup.decoder_of(segment), rows).vectors(slice(None))


def stored_code(segments: Sequence[Segment], keep: Masks, vectors: Vectors, stage: Stage) -> Quantiser:
    """Return the code for vectors like the kept ones, to be stored in."""
    n_rows = sum(int(np.count_nonzero(mask)) for mask in keep)
    if not n_rows:
        raise InvalidOptionError("there is no token vector that could be stored in 4 bits; add documents first")
    return measure_stored_code(sample_of(segments, keep, vectors, min(n_rows, MEASURED_ROWS), 1, stage))


def sample_of(
    segments: Sequence[Segment], keep: Masks, vectors: Vectors, n_sample: int, seed: int, stage: Stage
) -> NDArray[np.float32]:
    """So many of the kept vectors, drawn at random, in random order, float32 (n, d)."""
    generator = np.random.default_rng(seed)
    kept = [np.flatnonzero(mask) for mask in keep]
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in kept])])
    chosen = np.sort(generator.choice(int(starts[-1]), size=n_sample, replace=False))
    parts: list[NDArray[np.float32]] = []
    for number, (segment, rows) in enumerate(zip(segments, kept, strict=True)):
        mine = chosen[(chosen >= starts[number]) & (chosen < starts[number + 1])] - starts[number]
        parts.append(vectors.of(segment, rows[mine]))
        stage("drawing a sample", number + 1, len(segments))
    d = segments[0].d if segments else 1
    sample = np.concatenate([np.empty((0, d), dtype=np.float32), *parts])
    shuffled: NDArray[np.float32] = sample[generator.permutation(len(sample))]
    return shuffled


@dataclass(frozen=True)
class Rewriting:
    """How a segment is written anew; without a coder its vectors stay, `which` one it is is for people."""

    coder: Quantiser | None
    vectors: Vectors
    drop_sparse: bool
    which: str


def rewritten(
    session: WriteSession,
    row: SegmentRow,
    segment: Segment,
    keep: NDArray[np.bool_],
    rewriting: Rewriting,
    stage: Stage,
) -> Replacement:
    """Return the segment that takes the place of another, written and not yet committed."""
    quantised: QuantisedRows | None = None
    coder, which = rewriting.coder, rewriting.which
    if coder is not None:
        progress = staged(stage, f"coding segment {which}")
        coded = _coded(segment, np.flatnonzero(keep), coder, rewriting.vectors, progress)
        quantised = QuantisedRows(coder.name, coded.stored_lists, np.asarray(coded.codes))
    stage(f"writing segment {which}", 0, 1)
    with session.file_work():
        file = rewrite_segment(
            session.segment_directory, segment, keep, quantised=quantised, drop_sparse=rewriting.drop_sparse
        )
    stage(f"writing segment {which}", 1, 1)
    return Replacement((row,), SegmentRow(file, row.first_passage_id, row.end_passage_id))


def _coded(
    segment: Segment,
    rows: NDArray[np.int64],
    coder: Quantiser,
    vectors: Vectors,
    progress: Callable[[int, int], None],
) -> CodedVectors:
    """Return the quantised vectors of rows: from the index file beside the segment, or made now."""
    source = list_source(segment, vectors.setup.decoder_of(segment), None)
    path = codes_path(segment.path.parent.parent / INDEX_DIRECTORY, segment.name, coder.name)
    try:
        there = read_codes(path, Owner(segment.file.sha256, coder), source.n_rows)
    except KBError:
        return encode_rows(len(rows), lambda block: source.vectors(rows[block]), coder, progress=progress)
    return CodedVectors(coder, there.list_numbers[rows], there.codes[rows])


def new_row(replacement: Replacement) -> SegmentRow:
    """Return the row of the segment that takes the place of another."""
    assert replacement.new is not None  # every passage is kept
    return replacement.new


def open_all(directory: Path, rows: Sequence[SegmentRow], stage: Stage) -> list[Segment]:
    """Return the segments of a folder, opened.

    Raises:
        StateError: one is gone.
        CorruptError: one is not what was written.
    """
    segments: list[Segment] = []
    for number, row in enumerate(rows, start=1):
        try:
            segments.append(open_segment(segment_path(directory, row.file.name), row.file))
        except CorruptError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise StateError(
                    f"segment {row.file.name} of {directory.parent} is gone; if another process writes to it, wait "
                    "until it has finished, else run 'kbengine verify'"
                ) from error
            raise
        stage("checking segments", number, len(rows))
    return segments


def staged(stage: Stage, what: str) -> Callable[[int, int], None]:
    """Return what tells the progress of one piece of work."""
    return lambda done, total: stage(what, done, total)
