"""What a segment holds: its arrays, their layout in the file, and the rules they keep among each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.codes import check_scale
from storage.container import ArraySpec
from storage.errors import UsageError
from storage.postings import Postings

# (name, dtype, length symbol, has a second axis of this symbol or number)
_LAYOUT: tuple[tuple[str, type[np.generic], str, str | int | None], ...] = (
    ("passage_ids", np.int64, "p", None),
    ("document_ids", np.int64, "p", None),
    ("first_token_ids", np.int64, "p", None),
    ("first_rows", np.int64, "p", None),
    ("terms", np.uint64, "t", None),
    ("posting_starts", np.int64, "t+1", None),
    ("token_counts", np.uint32, "p", None),
    ("passage_lengths", np.uint32, "p", None),
    ("posting_passages", np.uint32, "q", None),
    ("token_ordinals", np.uint32, "n", None),
    ("scales", np.float16, "n", None),
    ("filter_logits", np.float16, "n", 2),
    ("passage_scales", np.float16, "p", None),
    ("posting_counts", np.uint8, "q", None),
    ("codes", np.int8, "n", "d"),
    ("passage_codes", np.int8, "p", "d"),
)
ARRAY_NAMES = frozenset(name for name, _, _, _ in _LAYOUT)
# Only in segments that need them, see `SegmentArrays`.
OPTIONAL_ARRAY_NAMES = frozenset({"token_numbers"})


@dataclass(frozen=True)
class SegmentLengths:
    """The lengths that the shapes of a segment's arrays follow from.

    Attributes:
        n_rows: Stored tokens.
        n_passages: Passages.
        n_terms: Distinct terms.
        n_postings: Postings of all terms.
        number_bytes: Size of an item of `token_numbers`: 2, 4, or 0 without that array.
    """

    n_rows: int
    n_passages: int
    n_terms: int
    n_postings: int
    number_bytes: int = 0


@dataclass(frozen=True)
class SegmentArrays:
    """The content of a segment: n rows (stored tokens in token-id order), p passages (in id order), t terms.

    Attributes:
        codes: int8 (n, d), token vectors, see `storage.codes`.
        scales: float16 (n), scale of each row.
        token_ordinals: uint32 (n), position among all tokens of the passage, before filtering.
        filter_logits: float16 (n, 2), start and end logit of the filter head.
        passage_ids: int64 (p), strictly rising.
        document_ids: int64 (p), each passage's document.
        first_token_ids: int64 (p), token id of the passage's first row.
        first_rows: int64 (p), the passage's first row.
        token_counts: uint32 (p), rows of the passage; 0 is allowed.
        passage_codes: int8 (p, d), passage vectors.
        passage_scales: float16 (p), scale of each passage vector.
        terms: uint64 (t), see `storage.postings` for this and the next four.
        posting_starts: int64 (t + 1).
        posting_passages: uint32 (q).
        posting_counts: uint8 (q).
        passage_lengths: uint32 (p).
        d: Dimension of the vectors.
        token_scale: Common scale of the token vectors.
        passage_scale: Common scale of the passage vectors.
        encoder: Fingerprint of the encoder that made the vectors.
        token_numbers: uint16 or uint32 (n), token id of each row less its passage's `first_token_id`, rising within a
            passage; None where the tokens of every passage are numbered 0, 1, 2, … (nothing was filtered out later).
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float16]
    token_ordinals: NDArray[np.uint32]
    filter_logits: NDArray[np.float16]
    passage_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    first_token_ids: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    token_counts: NDArray[np.uint32]
    passage_codes: NDArray[np.int8]
    passage_scales: NDArray[np.float16]
    terms: NDArray[np.uint64]
    posting_starts: NDArray[np.int64]
    posting_passages: NDArray[np.uint32]
    posting_counts: NDArray[np.uint8]
    passage_lengths: NDArray[np.uint32]
    d: int
    token_scale: float
    passage_scale: float
    encoder: str
    token_numbers: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        if self.d < 1 or len(self.passage_ids) < 1:
            raise UsageError(
                f"segment has dimension {self.d} and {len(self.passage_ids)} passages, expected at least 1 of each"
            )
        for spec in array_specs(self.lengths, d=self.d):
            array: NDArray[Any] = getattr(self, spec.name)
            if array.dtype != spec.dtype or array.shape != spec.shape:
                raise UsageError(
                    f"segment array {spec.name!r} is {array.dtype} {array.shape}, expected {spec.dtype} {spec.shape}"
                )
        for name in ("token_scale", "passage_scale"):
            check_scale(getattr(self, name))
        for problem, holds in _contradictions(self).items():
            if holds:
                raise UsageError(f"segment arrays contradict each other: {problem}; expected a consistent segment")

    @property
    def lengths(self) -> SegmentLengths:
        """How many rows, passages, terms and postings the arrays have."""
        return SegmentLengths(
            n_rows=len(self.codes),
            n_passages=len(self.passage_ids),
            n_terms=len(self.terms),
            n_postings=len(self.posting_passages),
            number_bytes=0 if self.token_numbers is None else self.token_numbers.dtype.itemsize,
        )

    @property
    def postings(self) -> Postings:
        """The five lexical arrays, as `storage.postings` wants them."""
        return Postings(
            terms=self.terms,
            posting_starts=self.posting_starts,
            posting_passages=self.posting_passages,
            posting_counts=self.posting_counts,
            passage_lengths=self.passage_lengths,
        )


def array_specs(lengths: SegmentLengths, *, d: int) -> list[ArraySpec]:
    """Name, dtype and shape of each array of a segment of these lengths, in file order."""
    size: dict[str | int, int] = {
        "n": lengths.n_rows,
        "p": lengths.n_passages,
        "t": lengths.n_terms,
        "t+1": lengths.n_terms + 1,
        "q": lengths.n_postings,
        "d": d,
        2: 2,
    }
    specs = [
        ArraySpec(name, np.dtype(dtype), (size[rows],) if columns is None else (size[rows], size[columns]))
        for name, dtype, rows, columns in _LAYOUT
    ]
    if lengths.number_bytes:
        specs.append(ArraySpec("token_numbers", np.dtype(f"u{lengths.number_bytes}"), (lengths.n_rows,)))
    return specs


def narrow_numbers(numbers: NDArray[Any]) -> NDArray[Any]:
    """The token numbers as uint16 where they fit, else as uint32."""
    return numbers.astype(np.uint16 if int(numbers.max(initial=0)) <= 0xFFFF else np.uint32)


def _contradictions(arrays: SegmentArrays) -> Mapping[str, bool]:
    """For each way in which the arrays could contradict each other: whether they do."""
    counts = arrays.token_counts.astype(np.int64)
    ends = np.cumsum(counts)
    token_ends = arrays.first_token_ids + counts
    starts = arrays.posting_starts
    n_postings, n_passages = len(arrays.posting_passages), len(arrays.passage_ids)
    return {
        "token_counts do not add up to the rows": int(ends[-1]) != len(arrays.codes),
        "first_rows are not the running sum of token_counts": bool((arrays.first_rows != ends - counts).any()),
        "passage_ids do not rise": bool((np.diff(arrays.passage_ids) <= 0).any()),
        "token ids of passages overlap": bool((arrays.first_token_ids[1:] < token_ends[:-1]).any()),
        "token_numbers do not rise": arrays.token_numbers is not None
        and int(ends[-1]) == len(arrays.codes) == len(arrays.token_numbers)
        and bool((np.diff(np.repeat(arrays.first_token_ids, counts) + arrays.token_numbers) <= 0).any()),
        "scales are not positive and finite": _bad_scales(arrays.scales) or _bad_scales(arrays.passage_scales),
        "terms do not rise": bool((arrays.terms[1:] <= arrays.terms[:-1]).any()),
        "posting_starts do not divide the postings": int(starts[0]) != 0
        or int(starts[-1]) != n_postings
        or bool((np.diff(starts) < 0).any()),
        "posting_passages name unknown passages": n_postings > 0 and int(arrays.posting_passages.max()) >= n_passages,
    }


def _bad_scales(scales: NDArray[np.float16]) -> bool:
    # As integers: positive, finite float16 patterns are 1 … 0x7BFF. Half floats have no fast comparison.
    patterns = scales.view(np.uint16)
    return bool(((patterns - np.uint16(1)) >= np.uint16(0x7BFF)).any())
