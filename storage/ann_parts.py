"""What the search over a segment is made of: read from the index directory, or made anew and written there."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors, DecodedSource, build_codes
from storage.ann_lists import (
    AnnKind,
    AnnLists,
    AnnSource,
    ListSource,
    Progress,
    ann_path,
    build_lists,
    read_lists,
    write_lists,
)
from storage.ann_options import AnnOptions
from storage.codes_file import OpenedCodes, Owner, codes_path, open_codes, read_codes, write_codes
from storage.errors import CorruptError, KBError
from storage.exact import RowVectors
from storage.quantiser import Quantiser
from storage.segment import Segment
from storage.stored_array import Stored
from storage.token_filter import indexed_rows

__all__ = ["AnnParts", "AnnRequest", "SomeRows", "ann_parts", "ann_source", "list_source", "stored_codes"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AnnRequest:
    """Which search over which vectors is wanted.

    Attributes:
        kind: Token vectors or passage vectors.
        options: What index; a kind that needs a quantiser is served as `ivf-sq8` without one.
        quantiser: Of the index; None where the kind needs none, or none has been trained yet, and for passage vectors
            of which each segment has lists of its own.
        stored: What decodes stored vectors that are quantised; None: the index's own quantiser does.
        threshold: Filter logit from which on tokens can be found; None: all can.
        directory: The index directory; None: everything is made in memory.
        progress: Told while something is built.
    """

    kind: AnnKind
    options: AnnOptions
    quantiser: Quantiser | None = None
    stored: Quantiser | None = None
    threshold: float | None = None
    directory: Path | None = None
    progress: Progress | None = None

    def decoder_of(self, segment: Segment) -> Quantiser | None:
        """Return what decodes the segment's stored vectors."""
        is_stored = self.stored is not None and self.stored.name == segment.arrays.quantiser
        return self.stored if is_stored else self.quantiser

    @property
    def needs_quantiser(self) -> bool:
        """Whether the index is made with a quantiser."""
        if self.kind == "passages":
            return self.quantiser is not None and not self.options.is_exact(self.kind)
        return self.options.index_kind.needs_quantiser

    def codes_path(self, segment: Segment) -> Path | None:
        """Return where the segment's vectors lie as the quantiser codes them; None where everything is in memory."""
        if self.directory is None or self.quantiser is None:
            return None
        return codes_path(self.directory, segment.name, self.quantiser.name, self.threshold, kind=self.kind)

    def listed(self, segment: Segment) -> tuple[ListSource, Stored[np.int64] | None]:
        """Return the vectors that can be found, and the rows of these, int64 (m), rising; None for all."""
        rows = indexed_rows(segment, self.threshold) if self.kind == "tokens" else None
        return list_source(segment, self.decoder_of(segment), rows, kind=self.kind), rows


@dataclass(frozen=True)
class SomeRows:
    """Some rows of vectors, numbered from 0."""

    whole: RowVectors
    rows: Stored[np.int64]

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.rows)

    @property
    def d(self) -> int:
        """Their dimension."""
        return self.whole.d

    def vectors(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the vectors of rows, float32 (rows, d)."""
        return self.whole.vectors(self.rows[rows])

    def inner_products(self, rows: NDArray[np.int64], targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products float32 (rows, t) with targets float32 (d, t)."""
        return self.whole.inner_products(self.rows[rows], targets)


@dataclass(frozen=True)
class AnnParts:
    """What a search is made of.

    Attributes:
        source: The vectors that scores come from.
        found_in: What candidates are sought in; None where all are scanned.
        rows: int64 (m), rising, the rows that can be found; None for all.
        listed: What the lists are made of; None without lists.
        plain: The vectors that can be found, of which int8 codes can be had; None where there are no such codes.
        is_all_there_is: Whether the index has the very codes that scores come from.
    """

    source: AnnSource | CodedVectors
    found_in: AnnLists | CodedVectors | None = None
    rows: Stored[np.int64] | None = None
    listed: ListSource | None = None
    plain: AnnSource | DecodedSource | None = None
    is_all_there_is: bool = False


def ann_source(segment: Segment, kind: AnnKind) -> AnnSource | None:
    """Return the int8 vectors of a segment that a search of this kind looks at; None where it has codes only."""
    arrays = segment.arrays
    if kind == "passages":
        return AnnSource(segment.file.sha256, kind, arrays.passage_codes, arrays.passage_scales, arrays.passage_scale)
    if arrays.codes is None or arrays.scales is None:
        return None
    return AnnSource(segment.file.sha256, kind, arrays.codes, arrays.scales, arrays.token_scale)


def stored_codes(segment: Segment, quantiser: Quantiser | None) -> CodedVectors:
    """Return the quantised vectors that a segment stores in place of int8 ones; CorruptError without a quantiser."""
    arrays = segment.arrays
    if quantiser is None or quantiser.name != arrays.quantiser:
        raise CorruptError(
            f"{segment.path} is coded with quantiser {arrays.quantiser!r}, the knowledge base has "
            f"{None if quantiser is None else quantiser.name!r}; restore kb.sqlite and segments/ from one backup"
        )
    assert arrays.quantised is not None
    fits = arrays.quantised.shape[1] == quantiser.code_bytes and segment.d == quantiser.d
    # Numbers that are checked when they are read were looked at before they were written.
    numbers = arrays.list_numbers
    largest = int(numbers.max(initial=0)) if isinstance(numbers, np.ndarray) else 0
    if not fits or largest >= quantiser.nlist:
        raise CorruptError(f"{segment.path}: codes do not fit quantiser {quantiser.name}; restore it from a backup")
    return CodedVectors.of(quantiser, arrays.list_numbers, arrays.quantised)


def list_source(
    segment: Segment, stored: Quantiser | None, rows: NDArray[np.int64] | None, *, kind: AnnKind = "tokens"
) -> AnnSource | DecodedSource:
    """Return the vectors that an index is made of: those of some rows, decoded where they are quantised."""
    source = ann_source(segment, kind)
    if source is not None:
        return source.some(rows)
    coded = stored_codes(segment, stored)
    return DecodedSource(segment.file.sha256, coded, rows, segment.arrays.token_scale)


def ann_parts(segment: Segment, asked: AnnRequest) -> AnnParts:
    """Return what the wanted search over a segment is made of."""
    of_tokens = asked.kind == "tokens"
    opened = _opened(segment, asked) if asked.needs_quantiser else None
    rows: Stored[np.int64] | None = None
    if opened is not None:
        rows = opened.rows
    elif of_tokens:
        rows = indexed_rows(segment, asked.threshold)
    n_all = segment.n_rows if of_tokens else segment.n_passages
    is_small = (n_all if rows is None else len(rows)) < max(asked.options.exact_below_rows, 1)
    source: AnnSource | CodedVectors | None = ann_source(segment, asked.kind)
    if source is None:
        decoder = asked.decoder_of(segment)
        source = stored_codes(segment, decoder)
        if is_small:
            # Decoded once: scanned with the other small segments as if it had int8 vectors.
            whole = DecodedSource(segment.file.sha256, source, None, segment.arrays.token_scale)
            source = whole.some(slice(None))
        elif decoder is asked.quantiser:
            chosen = slice(None) if rows is None else rows
            found_in = CodedVectors(source.quantiser, source.list_numbers[chosen], source.codes[chosen])
            return AnnParts(source, found_in, rows, is_all_there_is=True)
    if isinstance(source, AnnSource) and is_small:
        return AnnParts(source, rows=rows, plain=source.some(None if rows is None else np.asarray(rows)))
    listed: AnnSource | DecodedSource
    if isinstance(source, AnnSource):
        listed = source.some(None if rows is None else np.asarray(rows))
    else:
        listed = DecodedSource(segment.file.sha256, source, rows, segment.arrays.token_scale)
    # int8 codes of some rows would be a copy of them in memory.
    plain = listed if rows is None or isinstance(listed, DecodedSource) else None
    if asked.options.is_exact(asked.kind):
        return AnnParts(source, _one_list(listed), rows, listed, plain)
    if asked.needs_quantiser and asked.quantiser is not None:
        found_in = opened.coded if opened is not None else _codes(segment, listed, rows, asked.quantiser, asked)
        return AnnParts(source, found_in, rows, listed, plain)
    return AnnParts(source, _lists(segment, listed, asked), rows, listed, plain)


def _one_list(source: ListSource) -> AnnLists:
    """Return all rows in one list, which every search scans."""
    n = source.n_rows
    return AnnLists(np.zeros((1, source.d), np.float32), np.arange(n, dtype=np.uint32), np.array([0, n]))


def _lists(segment: Segment, source: ListSource, asked: AnnRequest) -> AnnLists:
    options, progress = asked.options, asked.progress
    if asked.directory is None:
        return build_lists(source, options, progress=progress)
    path = ann_path(asked.directory, segment.name, source.kind, asked.threshold)
    try:
        return read_lists(path, source, options)
    except KBError as error:
        _tell(path, error)
    lists = build_lists(source, options, progress=progress)
    try:
        write_lists(path, lists, source, options)
    except KBError as error:
        _log.warning("%s will be built again at the next start: %s", path, error)
    return lists


def _opened(segment: Segment, asked: AnnRequest) -> OpenedCodes | None:
    """Return what the file with the codes of a segment's vectors holds, unread; None where there is none to be used."""
    quantiser, path = asked.quantiser, asked.codes_path(segment)
    if quantiser is None or path is None or segment.arrays.quantiser == quantiser.name:
        return None
    owner = Owner(segment.file.sha256, quantiser)

    def mend() -> OpenedCodes:
        listed, rows = asked.listed(segment)
        made = OpenedCodes(build_codes(listed, quantiser), rows)
        _keep(path, made, owner)
        return made

    try:
        return open_codes(path, owner, mend)
    except KBError:
        return None  # it is read whole, or made anew


def _codes(
    segment: Segment, source: ListSource, rows: Stored[np.int64] | None, quantiser: Quantiser, asked: AnnRequest
) -> CodedVectors:
    progress, path = asked.progress, asked.codes_path(segment)
    if path is None:
        return build_codes(source, quantiser, progress=progress)
    owner = Owner(segment.file.sha256, quantiser)
    try:
        coded = read_codes(path, owner, source.n_rows)
    except KBError as error:
        _tell(path, error)
        coded = build_codes(source, quantiser, progress=progress)
    _keep(path, OpenedCodes(coded, rows), owner)  # also what an earlier version wrote, which opens slowly
    return coded


def _keep(path: Path, made: OpenedCodes, owner: Owner) -> None:
    """Write what was made, if that is possible."""
    try:
        write_codes(path, made, owner)
    except KBError as error:
        _log.warning("%s will be built again at the next start: %s", path, error)


def _tell(path: Path, error: KBError) -> None:
    """Log why a file is built again, unless it was just not there yet."""
    if not isinstance(error, CorruptError):
        _log.warning("rebuilding %s in memory: %s", path, error)
    elif not isinstance(error.__cause__, FileNotFoundError):
        _log.warning("rebuilding %s: %s", path, error)
