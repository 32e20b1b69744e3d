"""What a segment holds: its arrays, their layout in the file, and the rules they keep among each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from storage.codes import check_scale
from storage.container import ArraySpec
from storage.errors import UsageError
from storage.postings import Postings
from storage.sparse_rows import CHECKED_SPARSE_NAMES, SPARSE_NAMES, SparseArrays, SparseLengths, sparse_specs
from storage.stored_array import Stored, StoredArray

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
    ("document_frequencies", np.uint32, "t", None),
    ("codes", np.int8, "n", "d"),
    ("passage_codes", np.int8, "p", "d"),
)
ARRAY_NAMES = frozenset(name for name, _, _, _ in _LAYOUT)
# Either the first two are in a segment or the third, with the fourth where its quantiser has lists; the other two are
# where ordinals and token ids follow from nothing else.
OPTIONAL_ARRAY_NAMES = frozenset(
    {"codes", "scales", "quantised", "list_numbers", "token_ordinals", "token_numbers", "document_frequencies"}
)
# All of them or none.
SPARSE_ARRAY_NAMES = frozenset(SPARSE_NAMES)
CHECKED_WHEN_READ = CHECKED_SPARSE_NAMES | {
    "codes",
    "scales",
    "quantised",
    "list_numbers",
    "token_ordinals",
    "token_numbers",
    "filter_logits",
    "passage_codes",
    "posting_passages",
    "posting_counts",
}
"""Arrays that grow with tokens, with postings or with passages times dimensions; the others are small beside them."""
_PLAIN_NAMES = frozenset({"codes", "scales"})

Numbering = Literal["rows", "ordinals", "own"]


@dataclass(frozen=True)
class SegmentForm:
    """How a segment stores what can be stored in several ways; the defaults are those of the first version.

    Attributes:
        ordinal_bytes: Size of an item of `token_ordinals`: 4 or 2; 0 where every token of a passage is stored, so that
            a row's ordinal is its place among them.
        n_logits: Filter logits of a row: start and end, 2, or the larger one, 1.
        numbering: A token's id less its passage's `first_token_id` is its place among the stored rows of the passage,
            its ordinal, or in an array of its own (`token_numbers`).
        number_bytes: Size of an item of that array: 4 or 2; 0 without it.
        quantised_bytes: Size of a row of `quantised`; 0 where `codes` and `scales` are stored.
        in_lists: Whether the quantiser has lists, so that each row's is stored.
        frequencies: Whether document frequencies are stored.
        sparse: Of the sparse rows; None without them.
    """

    ordinal_bytes: int = 4
    n_logits: int = 2
    numbering: Numbering = "rows"
    number_bytes: int = 0
    quantised_bytes: int = 0
    in_lists: bool = True
    frequencies: bool = False
    sparse: SparseLengths | None = None

    @property
    def row_arrays(self) -> tuple[str, ...]:
        """The names of the arrays with an item for each row."""
        vectors: tuple[str, ...] = ("codes", "scales")
        if self.quantised_bytes:
            vectors = ("list_numbers", "quantised") if self.in_lists else ("quantised",)
        numbers = ("token_numbers",) if self.numbering == "own" else ()
        ordinals = ("token_ordinals",) if self.ordinal_bytes else ()
        return (*ordinals, "filter_logits", *vectors, *numbers)


PLAIN_FORM = SegmentForm()
"""What the first version of the format knows."""


@dataclass(frozen=True)
class SegmentLengths:
    """The lengths that the shapes of a segment's arrays follow from."""

    n_rows: int
    n_passages: int
    n_terms: int
    n_postings: int
    form: SegmentForm = PLAIN_FORM


@dataclass(frozen=True)
class SegmentArrays:
    """The content of a segment: n rows (stored tokens in token-id order), p passages (in id order), t terms.

    Attributes:
        codes: int8 (n, d), token vectors, see `storage.codes`; None where only quantised ones are stored.
        scales: float16 (n), scale of each row; None likewise.
        token_ordinals: uint32 or uint16 (n), position among all tokens of the passage, before filtering; None where
            all of them are stored.
        filter_logits: float16 (n), the larger one of the filter head's start and end logits, or (n, 2), both.
        passage_ids: int64 (p), strictly rising.
        document_ids: int64 (p), each passage's document.
        first_token_ids: int64 (p), token id of the passage's first row, or below it when rows were filtered out.
        first_rows: int64 (p), the passage's first row.
        token_counts: uint32 (p), rows of the passage; 0 is allowed.
        passage_codes: int8 (p, d), passage vectors.
        passage_scales: float16 (p), scale of each passage vector.
        terms: uint64 (t), see `storage.postings` for this and the next four.
        posting_starts: int64 (t + 1).
        posting_passages: uint32 (q).
        posting_counts: uint8 (q).
        passage_lengths: uint32 (p).
        document_frequencies: uint32 (t), documents that have each term; None in what earlier versions wrote.
        d: Dimension of the vectors.
        token_scale: Common scale of the token vectors.
        passage_scale: Common scale of the passage vectors.
        encoder: Fingerprint of the encoder that made the vectors.
        numbering: What token ids follow from, see `SegmentForm`.
        token_numbers: uint32 or uint16 (n), token id of each row less its passage's `first_token_id`, rising within a
            passage; None unless `numbering` is "own".
        list_numbers: uint16 (n), see `storage.quantiser`; None where `codes` are stored, and where there is one list.
        quantised: uint8 (n, bytes), see there; None where `codes` are stored.
        quantiser: Name of the quantiser that these two are to be decoded with.
        sparse: Sparse vectors of the tokens; None where the encoder makes none.
    """

    codes: Stored[np.int8] | None
    scales: Stored[np.float16] | None
    token_ordinals: Stored[Any] | None
    filter_logits: Stored[np.float16]
    passage_ids: NDArray[np.int64]
    document_ids: NDArray[np.int64]
    first_token_ids: NDArray[np.int64]
    first_rows: NDArray[np.int64]
    token_counts: NDArray[np.uint32]
    passage_codes: Stored[np.int8]
    passage_scales: NDArray[np.float16]
    terms: NDArray[np.uint64]
    posting_starts: NDArray[np.int64]
    posting_passages: Stored[np.uint32]
    posting_counts: Stored[np.uint8]
    passage_lengths: NDArray[np.uint32]
    d: int
    token_scale: float
    passage_scale: float
    encoder: str
    numbering: Numbering = "rows"
    token_numbers: Stored[Any] | None = None
    list_numbers: Stored[np.uint16] | None = None
    quantised: Stored[np.uint8] | None = None
    quantiser: str = ""
    sparse: SparseArrays | None = None
    document_frequencies: NDArray[np.uint32] | None = None

    def __post_init__(self) -> None:
        if self.d < 1 or len(self.passage_ids) < 1:
            raise UsageError(
                f"segment has dimension {self.d} and {len(self.passage_ids)} passages, expected at least 1 of each"
            )
        specs = array_specs(self.lengths, d=self.d)
        for spec in specs:
            if spec.name in SPARSE_ARRAY_NAMES:
                continue  # they are checked together
            array: Stored[Any] | None = getattr(self, spec.name)
            if array is None or array.dtype != spec.dtype or array.shape != spec.shape:
                seen = "missing" if array is None else f"{array.dtype} {array.shape}"
                raise UsageError(f"segment array {spec.name!r} is {seen}, expected {spec.dtype} {spec.shape}")
        surplus = [
            name
            for name in sorted(OPTIONAL_ARRAY_NAMES - {spec.name for spec in specs})
            if getattr(self, name) is not None
        ]
        if surplus or bool(self.quantiser) != (self.quantised is not None):
            raise UsageError(
                f"segment has arrays {surplus} too many, or quantised rows without the name of their quantiser "
                f"({self.quantiser!r}); expected codes and scales, or quantised rows"
            )
        for name in ("token_scale", "passage_scale"):
            check_scale(getattr(self, name))
        for problem, holds in _contradictions(self).items():
            if holds:
                raise UsageError(f"segment arrays contradict each other: {problem}; expected a consistent segment")
        if self.sparse is not None and not isinstance(self.sparse.grams, StoredArray):
            self.sparse.check(self.token_counts)

    @property
    def n_rows(self) -> int:
        """Stored tokens."""
        return len(self.filter_logits)

    @property
    def form(self) -> SegmentForm:
        """How it is stored."""
        numbers, quantised = self.token_numbers, self.quantised
        return SegmentForm(
            ordinal_bytes=0 if self.token_ordinals is None else self.token_ordinals.dtype.itemsize,
            n_logits=2 if self.filter_logits.ndim > 1 else 1,
            numbering=self.numbering,
            number_bytes=0 if numbers is None else numbers.dtype.itemsize,
            quantised_bytes=0 if quantised is None else quantised.shape[-1],
            in_lists=quantised is None or self.list_numbers is not None,
            frequencies=self.document_frequencies is not None,
            sparse=None if self.sparse is None else self.sparse.lengths,
        )

    @property
    def lengths(self) -> SegmentLengths:
        """How many rows, passages, terms and postings the arrays have."""
        return SegmentLengths(
            n_rows=self.n_rows,
            n_passages=len(self.passage_ids),
            n_terms=len(self.terms),
            n_postings=len(self.posting_passages),
            form=self.form,
        )

    @property
    def postings(self) -> Postings:
        """The lexical arrays, as `storage.postings` wants them."""
        return Postings(
            terms=self.terms,
            posting_starts=self.posting_starts,
            posting_passages=self.posting_passages,
            posting_counts=self.posting_counts,
            passage_lengths=self.passage_lengths,
            document_frequencies=self.document_frequencies,
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
    form = lengths.form
    specs: list[ArraySpec] = []
    for name, dtype, rows, columns in _LAYOUT:
        if (form.quantised_bytes and name in _PLAIN_NAMES) or (not form.ordinal_bytes and name == "token_ordinals"):
            continue
        if name == "document_frequencies" and not form.frequencies:
            continue
        kind = np.dtype(f"u{form.ordinal_bytes}") if name == "token_ordinals" else np.dtype(dtype)
        if name == "filter_logits" and form.n_logits == 1:
            columns = None
        specs.append(ArraySpec(name, kind, (size[rows],) if columns is None else (size[rows], size[columns])))
    if form.numbering == "own":
        specs.append(ArraySpec("token_numbers", np.dtype(f"u{form.number_bytes}"), (lengths.n_rows,)))
    if form.quantised_bytes:
        if form.in_lists:
            specs.append(ArraySpec("list_numbers", np.dtype(np.uint16), (lengths.n_rows,)))
        specs.append(ArraySpec("quantised", np.dtype(np.uint8), (lengths.n_rows, form.quantised_bytes)))
    if form.sparse is not None:
        specs += sparse_specs(form.sparse, n_rows=lengths.n_rows, n_passages=lengths.n_passages)
    return specs


def narrow(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return the numbers, none of them negative, as uint16 where they fit, else as uint32."""
    return numbers.astype(np.uint16 if int(numbers.max(initial=0)) <= 0xFFFF else np.uint32)


def _contradictions(arrays: SegmentArrays) -> Mapping[str, bool]:
    """Return for each way in which the arrays could contradict each other: whether they do.

    What is checked when it is read is not read for this: it was looked at before it was written, and is the same still.
    """
    counts = arrays.token_counts.astype(np.int64)
    ends = np.cumsum(counts)
    token_ends = arrays.first_token_ids + counts
    starts = arrays.posting_starts
    n_postings, n_passages = len(arrays.posting_passages), len(arrays.passage_ids)
    return {
        "token_counts do not add up to the rows": int(ends[-1]) != arrays.n_rows,
        "first_rows are not the running sum of token_counts": bool((arrays.first_rows != ends - counts).any()),
        "passage_ids do not rise": bool((np.diff(arrays.passage_ids) <= 0).any()),
        "token ids of passages overlap": bool((arrays.first_token_ids[1:] < token_ends[:-1]).any()),
        "token ids do not rise": int(ends[-1]) == arrays.n_rows and _ids_do_not_rise(arrays, counts),
        "scales are not positive and finite": _bad_scales(arrays.passage_scales)
        or (isinstance(arrays.scales, np.ndarray) and _bad_scales(arrays.scales)),
        "terms do not rise": bool((arrays.terms[1:] <= arrays.terms[:-1]).any()),
        "posting_starts do not divide the postings": int(starts[0]) != 0
        or int(starts[-1]) != n_postings
        or bool((np.diff(starts) < 0).any()),
        "document_frequencies do not fit the postings": _bad_frequencies(arrays),
        "posting_passages name unknown passages": isinstance(arrays.posting_passages, np.ndarray)
        and int(arrays.posting_passages.max(initial=0)) >= n_passages,
    }


def _ids_do_not_rise(arrays: SegmentArrays, counts: NDArray[np.int64]) -> bool:
    numbers = arrays.token_ordinals if arrays.token_numbers is None else arrays.token_numbers
    if arrays.numbering == "rows" or numbers is None:
        return arrays.numbering != "rows"
    if isinstance(numbers, StoredArray):
        return False
    return bool((np.diff(np.repeat(arrays.first_token_ids, counts) + numbers) <= 0).any())


def _bad_frequencies(arrays: SegmentArrays) -> bool:
    if arrays.document_frequencies is None or not (np.diff(arrays.posting_starts) > 0).all():
        return False
    seen = arrays.document_frequencies.astype(np.int64)
    return bool(((seen < 1) | (seen > np.diff(arrays.posting_starts))).any())


def _bad_scales(scales: NDArray[np.float16]) -> bool:
    # As integers: positive, finite float16 patterns are 1 … 0x7BFF. Half floats have no fast comparison.
    patterns = scales.view(np.uint16)
    return bool(((patterns - np.uint16(1)) >= np.uint16(0x7BFF)).any())
