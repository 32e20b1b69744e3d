"""Merging segments: the kept passages of several files in one new file, rows copied as they are.

Rows are streamed in chunks, so merging needs memory for the passages and postings, not for the vectors. Codes
are never quantised again and token ids stay what they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySource
from storage.errors import StateError, UsageError
from storage.postings import merge_postings
from storage.segment import Segment, SegmentFile, segment_metadata, token_id_range, write_segment_file
from storage.segment_arrays import SegmentForm, SegmentLengths
from storage.sparse_merge import merged_sparse

_PASSAGE_ARRAYS = (
    "passage_ids",
    "document_ids",
    "first_token_ids",
    "token_counts",
    "passage_codes",
    "passage_scales",
)
# Arrays that segments may store in several ways, and what gives the same of each.
_DERIVED = {"token_numbers": "token_numbers", "token_ordinals": "token_ordinals", "filter_logits": "best_logits"}
_CHUNK_ROWS = 1 << 15


def merge_segments(
    directory: Path, segments: Sequence[Segment], keep: Sequence[NDArray[np.bool_]], *, name: str | None = None
) -> SegmentFile | None:
    """Write the kept passages durably to a new segment file; return its record, None when none is kept.

    Args:
        directory: Where the new file goes.
        segments: Adjacent segments in token-id order, of one encoder and with the same common scales.
        keep: For each segment, bool (n_passages): which passages stay.
        name: Of the new segment, 32 hex digits; None draws one.
    """
    if len(segments) != len(keep):
        raise UsageError(f"merge got {len(segments)} segments and {len(keep)} masks, expected one mask each")
    for segment, mask in zip(segments, keep, strict=True):
        if mask.shape != (segment.n_passages,) or mask.dtype != np.bool_:
            raise UsageError(
                f"mask of segment {segment.name} is {mask.dtype} {mask.shape}, expected bool ({segment.n_passages},)"
            )
    if not any(mask.any() for mask in keep):
        return None
    _check_mergeable(segments)
    first = segments[0].arrays
    passages: dict[str, NDArray[Any]] = {
        each: np.concatenate(
            [getattr(segment.arrays, each)[mask] for segment, mask in zip(segments, keep, strict=True)]
        )
        for each in _PASSAGE_ARRAYS
    }
    postings = merge_postings([segment.arrays.postings for segment in segments], keep)
    counts = passages["token_counts"].astype(np.int64)
    n_rows = int(counts.sum())
    sources: dict[str, ArraySource] = {
        **passages,
        "first_rows": np.cumsum(counts) - counts,
        "terms": postings.terms,
        "posting_starts": postings.posting_starts,
        "posting_passages": np.asarray(postings.posting_passages),
        "posting_counts": np.asarray(postings.posting_counts),
        "passage_lengths": postings.passage_lengths,
    }
    form = _merged_form(segments)
    for of_rows in form.row_arrays:
        sources[of_rows] = _kept_rows(of_rows, segments, keep)
    sparse = [segment.arrays.sparse for segment in segments]
    if first.sparse is not None:
        parts = [each for each in sparse if each is not None]  # all: see _check_mergeable
        lengths, of_sparse = merged_sparse(parts, keep, [segment.arrays.first_rows for segment in segments])
        form = replace(form, sparse=lengths)
        sources.update(of_sparse)
    last_number: NDArray[Any] | None = None
    if form.numbering != "rows":
        for part in _kept_rows("token_numbers", segments, keep):  # only the very last number is looked at
            last_number = part[-1:]
    token_range = token_id_range(passages["first_token_ids"], passages["token_counts"], last_number)
    return write_segment_file(
        directory,
        SegmentLengths(
            n_rows=n_rows,
            n_passages=len(counts),
            n_terms=len(postings.terms),
            n_postings=len(postings.posting_passages),
            form=form,
        ),
        sources,
        d=first.d,
        metadata=segment_metadata(first),
        first_token_id=token_range[0],
        end_token_id=token_range[1],
        name=name,
    )


def _check_mergeable(segments: Sequence[Segment]) -> None:
    def facts(segment: Segment) -> tuple[int, float, float, str, str, str | None]:
        arrays = segment.arrays
        sparse = None if arrays.sparse is None else arrays.sparse.model
        return arrays.d, arrays.token_scale, arrays.passage_scale, arrays.encoder, arrays.quantiser, sparse

    for left, right in itertools.pairwise(segments):
        if facts(left) != facts(right):
            raise StateError(
                f"segments {left.name} and {right.name} differ in dimension, scales, encoder, quantiser or sparse "
                f"encoder: {facts(left)} and {facts(right)}; only segments of the same can be merged"
            )
        left_ids, right_ids = left.arrays.passage_ids, right.arrays.passage_ids
        ids_rise = not len(left_ids) or not len(right_ids) or left_ids[-1] < right_ids[0]
        if left.file.end_token_id > right.file.first_token_id or not ids_rise:
            raise UsageError(
                f"segment {left.name} ends at token {left.file.end_token_id}, segment {right.name} begins at "
                f"{right.file.first_token_id}; merge segments in token-id order"
            )


def _kept_rows(name: str, segments: Sequence[Segment], keep: Sequence[NDArray[np.bool_]]) -> Iterator[NDArray[Any]]:
    """Yield the parts of a row array that belong to kept passages, in order, each of bounded size."""
    for segment, mask in zip(segments, keep, strict=True):
        array: NDArray[Any] = getattr(segment if name in _DERIVED else segment.arrays, _DERIVED.get(name, name))
        for start, end in _runs(mask, segment.arrays.first_rows, segment.n_rows):
            for begin in range(start, end, _CHUNK_ROWS):
                yield array[begin : min(begin + _CHUNK_ROWS, end)]


def _merged_form(segments: Sequence[Segment]) -> SegmentForm:
    forms = [segment.arrays.form for segment in segments]
    ordinal_bytes = max(form.ordinal_bytes for form in forms)
    if ordinal_bytes and any(not form.ordinal_bytes for form in forms):
        ordinal_bytes = 4  # those of a segment that stores none follow from its rows
    numbering = forms[0].numbering if len({form.numbering for form in forms}) == 1 else "own"
    number_bytes = 0
    if numbering == "own":
        largest = max(int(np.asarray(segment.token_numbers).max(initial=0)) for segment in segments)
        number_bytes = 2 if largest <= 0xFFFF else 4
    return SegmentForm(ordinal_bytes, 1, numbering, number_bytes, forms[0].quantised_bytes, in_lists=forms[0].in_lists)


def _runs(mask: NDArray[np.bool_], first_rows: NDArray[np.int64], n_rows: int) -> Iterator[tuple[int, int]]:
    """Yield the half-open row ranges of the runs of kept passages."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    bounds = np.append(first_rows, n_rows)
    for start, end in zip(bounds[edges[::2]].tolist(), bounds[edges[1::2]].tolist(), strict=True):
        if end > start:
            yield start, end
