"""A segment written anew with some of its rows, or with quantised vectors in place of the int8 ones.

All passages stay, and so do the ids of the rows that stay; the ids of the others are never used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySource
from storage.errors import UsageError
from storage.segment import Segment, SegmentFile, segment_metadata, token_id_range, write_segment_file
from storage.segment_arrays import Numbering, SegmentForm, SegmentLengths, narrow
from storage.sparse_merge import thinned_sparse

__all__ = ["QuantisedRows", "rewrite_segment"]

_CHUNK_ROWS = 1 << 15
_PASSAGE_ARRAYS = (
    "passage_ids",
    "document_ids",
    "first_token_ids",
    "passage_codes",
    "passage_scales",
    "terms",
    "posting_starts",
    "posting_passages",
    "posting_counts",
    "passage_lengths",
)


@dataclass(frozen=True)
class QuantisedRows:
    """Token vectors as a quantiser writes them.

    Attributes:
        quantiser: The quantiser's name.
        list_numbers: uint16 (n); None where the quantiser has no lists.
        rows: uint8 (n, bytes).
    """

    quantiser: str
    list_numbers: NDArray[np.uint16] | None
    rows: NDArray[np.uint8]


def rewrite_segment(
    directory: Path,
    segment: Segment,
    keep: NDArray[np.bool_],
    *,
    quantised: QuantisedRows | None = None,
    drop_sparse: bool = False,
) -> SegmentFile:
    """Write the new segment file durably and return its record.

    Args:
        directory: Where it goes.
        segment: What it is made of.
        keep: bool (n_rows), which rows stay.
        quantised: Stored in place of the int8 vectors: a row for each one that stays.
        drop_sparse: Whether the sparse rows are left out.
    """
    n_kept = int(np.count_nonzero(keep))
    if keep.shape != (segment.n_rows,) or keep.dtype != np.bool_:
        raise UsageError(f"mask of rows is {keep.dtype} {keep.shape}, expected bool ({segment.n_rows},)")
    if quantised is not None and len(quantised.rows) != n_kept:
        raise UsageError(f"{len(quantised.rows)} quantised rows for {n_kept} rows that stay, expected one each")
    arrays = segment.arrays
    kept_before = np.concatenate([[0], np.cumsum(keep)])
    first_rows = kept_before[arrays.first_rows].astype(np.int64)
    counts = (kept_before[arrays.first_rows + arrays.token_counts] - first_rows).astype(np.uint32)
    ordinals = narrow(segment.token_ordinals[keep])
    numbers = segment.token_numbers[keep]
    places = np.arange(n_kept) - np.repeat(first_rows, counts)
    numbering = _numbering(numbers, ordinals, places)
    if numbering == "own":
        numbers = narrow(numbers)
    is_whole = arrays.token_ordinals is None and np.array_equal(ordinals, places)
    form = SegmentForm(
        ordinal_bytes=0 if is_whole else ordinals.dtype.itemsize,
        n_logits=1,
        numbering=numbering,
        number_bytes=numbers.dtype.itemsize if numbering == "own" else 0,
        quantised_bytes=arrays.form.quantised_bytes if quantised is None else quantised.rows.shape[1],
        in_lists=arrays.form.in_lists if quantised is None else quantised.list_numbers is not None,
    )
    sources: dict[str, ArraySource] = {name: getattr(arrays, name) for name in _PASSAGE_ARRAYS}
    sources.update(first_rows=first_rows, token_counts=counts, token_ordinals=ordinals, token_numbers=numbers)
    sources.update(filter_logits=segment.best_logits[keep])
    if quantised is not None:
        sources.update(quantised=quantised.rows)
    if quantised is not None and quantised.list_numbers is not None:
        sources.update(list_numbers=quantised.list_numbers)
    if arrays.sparse is not None and not drop_sparse:
        lengths, of_sparse = thinned_sparse(arrays.sparse, keep, arrays.first_rows)
        form = replace(form, sparse=lengths)
        sources.update(of_sparse)
    for name in form.row_arrays:
        if name not in sources:
            sources[name] = _chosen(getattr(arrays, name), keep)
    first, end = token_id_range(arrays.first_token_ids, counts, None if numbering == "rows" else numbers)
    old = arrays.lengths
    return write_segment_file(
        directory,
        SegmentLengths(n_kept, old.n_passages, old.n_terms, old.n_postings, form),
        sources,
        d=segment.d,
        metadata=segment_metadata(
            arrays, quantiser=None if quantised is None else quantised.quantiser, drop_sparse=drop_sparse
        ),
        first_token_id=first,
        end_token_id=end,
    )


def _numbering(numbers: NDArray[Any], ordinals: NDArray[Any], places: NDArray[np.int64]) -> Numbering:
    """Return what the numbers follow from, so that they need not be stored where something stored gives them."""
    if np.array_equal(numbers, places):
        return "rows"
    return "ordinals" if np.array_equal(numbers, ordinals) else "own"


def _chosen(array: NDArray[Any], keep: NDArray[np.bool_]) -> Iterator[NDArray[Any]]:
    for start in range(0, len(array), _CHUNK_ROWS):
        chunk = slice(start, start + _CHUNK_ROWS)
        yield array[chunk][keep[chunk]]
