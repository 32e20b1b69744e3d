"""What goes into a knowledge base and what comes out of it: plain frozen records.

`New…` objects carry an encoder's arrays in; `…Record` objects are rows of `kb.sqlite`; `Commit` says what a
write did. Spans are half-open character offsets into the passage's stored text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.alias_records import NewAlias, NewLink
from storage.errors import CorruptError, InvalidOptionError
from storage.json_value import JSON
from storage.sparse_rows import SparsePassage

__all__ = [
    "JSON",
    "Commit",
    "DocumentRecord",
    "NewDocument",
    "NewPassage",
    "PassageRecord",
    "StoredPassage",
    "TokenOffsets",
    "pack_offsets",
    "to_json",
    "unpack_offsets",
]

_MAX_DEPTH = 100
_NESTED = (Mapping, list, tuple)
_NUMBERED = 16
_NUMBERED_BY_ORDINAL = 32
_WHOLE = 64


class TokenOffsets(NamedTuple):
    """Where a passage's kept tokens are; arrays of the same length t.

    Attributes:
        ordinals: uint32 (t), position among all tokens of the passage, rising.
        starts: int32 (t), first character in the passage's text.
        ends: int32 (t), character after the last one.
        numbers: uint32 (t), token id less the passage's `first_token_id`, rising: 0, 1, 2, … unless tokens between
            them were filtered out after they were stored.
    """

    ordinals: NDArray[np.uint32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    numbers: NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class NewPassage:
    """A passage with the vectors an encoder made of it, ready to be stored.

    Attributes:
        ordinal: Paragraph number in the user's document.
        text: What is stored and cited.
        vectors: float32 (t, d), the kept tokens, not normalised.
        token_ordinals: uint32 (t), each kept token's position among all tokens of the passage, rising.
        starts: int32 (t), first character of each kept token in `text`.
        ends: int32 (t), character after each kept token.
        filter_logits: float32 (t, 2), start and end.
        passage_vector: float32 (d), L2-normalised.
        n_tokens: Tokens before filtering; None when unknown (then the last kept ordinal + 1).
        section: The heading the passage stands under, None without one.
        char_offset: Where `text` begins in its paragraph: 0 unless a very long paragraph is stored in parts.
        sparse: Sparse vectors of the kept tokens; None where the encoder makes none.
    """

    ordinal: int
    text: str
    vectors: NDArray[np.float32]
    token_ordinals: NDArray[np.uint32]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    filter_logits: NDArray[np.float32]
    passage_vector: NDArray[np.float32]
    n_tokens: int | None = None
    section: str | None = None
    char_offset: int = 0
    sparse: SparsePassage | None = None

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or self.passage_vector.ndim != 1:
            raise InvalidOptionError(
                f"{self._name}: vectors {self.vectors.shape} and passage vector {self.passage_vector.shape}; "
                "wanted (t, d) and (d,)"
            )
        t, d = self.vectors.shape
        shapes = {
            "token_ordinals": (self.token_ordinals.shape, (t,)),
            "starts": (self.starts.shape, (t,)),
            "ends": (self.ends.shape, (t,)),
            "filter_logits": (self.filter_logits.shape, (t, 2)),
            "passage_vector": (self.passage_vector.shape, (d,)),
        }
        for name, (seen, wanted) in shapes.items():
            if seen != wanted:
                raise InvalidOptionError(f"{self._name}: {name} has shape {seen}, wanted {wanted} for vectors {(t, d)}")
        if self.sparse is not None and not self.sparse.start.counts.shape == self.sparse.end.counts.shape == (t,):
            raise InvalidOptionError(
                f"{self._name}: sparse rows of {len(self.sparse.start.counts)} and {len(self.sparse.end.counts)} "
                f"tokens, wanted {t}"
            )
        if self.ordinal < 0 or self.char_offset < 0:
            raise InvalidOptionError(f"{self._name}: a paragraph number and a character offset are 0 or more")
        if not (np.isfinite(self.vectors).all() and np.isfinite(self.passage_vector).all()):
            raise InvalidOptionError(f"{self._name}: a vector holds NaN or infinity; the encoder is at fault")
        if not t:
            return
        if not (self.token_ordinals[1:] > self.token_ordinals[:-1]).all():
            raise InvalidOptionError(f"{self._name}: token ordinals must rise, each token once")
        if self.starts[0] < 0 or (self.ends < self.starts).any() or int(self.ends.max()) > len(self.text):
            raise InvalidOptionError(
                f"{self._name}: token offsets must lie within the text of {len(self.text)} characters and not end "
                f"before they start; seen {int(self.starts.min())} to {int(self.ends.max())}"
            )

    @property
    def _name(self) -> str:
        return f"passage {self.ordinal} ({self.text[:40]!r})"

    @property
    def encoded_token_count(self) -> int:
        """Tokens before filtering, as far as known."""
        seen = int(self.token_ordinals[-1]) + 1 if len(self.token_ordinals) else 0
        return seen if self.n_tokens is None else max(self.n_tokens, seen)


@dataclass(frozen=True)
class NewDocument:
    """A document to store: the user's id, its title, where it is from, its passages, other names and links."""

    doc_id: str
    title: str
    url: str | None = None
    meta: Mapping[str, JSON] = field(default_factory=dict)
    passages: tuple[NewPassage, ...] = ()
    aliases: tuple[NewAlias, ...] = ()
    links: tuple[NewLink, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.doc_id, str) or not self.doc_id:
            raise InvalidOptionError(f"doc_id is {self.doc_id!r}; wanted a non-empty string")
        for name, value in (("doc_id", self.doc_id), ("title", self.title), ("url", self.url or "")):
            check_text(value, f"{name} of document {self.doc_id!r}")
        for passage in self.passages:
            check_text(passage.text, f"passage {passage.ordinal} of document {self.doc_id!r}")
            check_text(passage.section or "", f"the section of passage {passage.ordinal} of document {self.doc_id!r}")
        to_json(self.meta, f"meta of document {self.doc_id!r}")


@dataclass(frozen=True)
class DocumentRecord:
    """A stored document, without its text. `live` is False once it was deleted or replaced."""

    document_id: int
    doc_id: str
    title: str
    url: str | None
    meta: Mapping[str, JSON]
    passage_count: int
    born_generation: int
    dead_generation: int | None

    @property
    def live(self) -> bool:
        """Whether the document still counts."""
        return self.dead_generation is None


@dataclass(frozen=True)
class PassageRecord:
    """A stored passage: its text, and which token ids are its kept tokens."""

    passage_id: int
    document_id: int
    ordinal: int
    text: str
    first_token_id: int
    token_count: int
    encoded_token_count: int
    packed_offsets: bytes = field(repr=False)
    section: str | None = None
    char_offset: int = 0

    @cached_property
    def offsets(self) -> TokenOffsets:
        """Ordinals, character offsets and numbers of the kept tokens; unpacked once, as many hits share a passage."""
        return unpack_offsets(self.packed_offsets, passage_id=self.passage_id)

    @cached_property
    def _has_all_numbers(self) -> bool:
        """Whether the numbers of the kept tokens are 0, 1, 2, …, as they are of nearly every passage."""
        numbers = self.offsets.numbers
        return not len(numbers) or int(numbers[-1]) == len(numbers) - 1

    def characters(self, first_token_id: int, last_token_id: int) -> tuple[int, int] | None:
        """Return the half-open character range from the one token to the other, None unless both are stored."""
        first, last = self._place(first_token_id), self._place(last_token_id)
        if first is None or last is None:
            return None
        return int(self.offsets.starts[first]), int(self.offsets.ends[last])

    def tokens_within(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the ids of the first and the last kept token in a range of characters, None where there is none."""
        first = int(self.offsets.starts.searchsorted(start))
        last = int(self.offsets.ends.searchsorted(end, side="right")) - 1
        if first > last:
            return None
        numbers = self.offsets.numbers
        return self.first_token_id + int(numbers[first]), self.first_token_id + int(numbers[last])

    def _place(self, token_id: int) -> int | None:
        """Return the index of a kept token among the offsets, None unless it is one."""
        numbers, wanted = self.offsets.numbers, token_id - self.first_token_id
        if self._has_all_numbers:
            return wanted if 0 <= wanted < len(numbers) else None
        place = int(numbers.searchsorted(wanted)) if wanted >= 0 else len(numbers)
        return place if place < len(numbers) and int(numbers[place]) == wanted else None


@dataclass(frozen=True, eq=False)
class StoredPassage:
    """What `repair` and `verify` ask an encoder to encode again: stored text and the tokens that were kept."""

    passage_id: int
    document_id: int
    ordinal: int
    title: str
    language: str
    text: str
    first_token_id: int
    token_ordinals: NDArray[np.uint32]
    token_numbers: NDArray[np.uint32]


@dataclass(frozen=True)
class Commit:
    """What a write did; `generation` counts commits. A repeated `op_id` gives the first one's Commit again."""

    generation: int
    op_id: str | None
    documents_added: int
    documents_replaced: int
    documents_deleted: int


def pack_offsets(
    ordinals: NDArray[np.uint32],
    starts: NDArray[np.int32],
    ends: NDArray[np.int32],
    numbers: NDArray[np.uint32] | None = None,
) -> bytes:
    """Return the offsets of t kept tokens as bytes: one byte that says how, then (t, 3) little-endian integers.

    That byte is 1, 2 or 4, the size of an integer. At 2 and 4 a row is ordinal, start and end; at 1 it is how much
    the ordinal rose less 1, how much the start rose, and the length. Where the tokens' numbers are not 0, 1, 2, …, 32
    is added if they are the ordinals; otherwise 16, and the integers follow a bit for each number up to the largest
    (1: kept; bytes filled up with 0), these follow the count of their bytes as uint32. Where the ordinals are 0, 1, 2,
    …, so that all tokens are there, 64 is added, and rows have no ordinal.
    """
    how, bits = 0, b""
    if numbers is not None and len(numbers) and int(numbers[-1]) >= len(numbers):
        if np.array_equal(numbers, ordinals):
            how = _NUMBERED_BY_ORDINAL
        else:
            kept = np.zeros(int(numbers[-1]) + 1, dtype=np.bool_)
            kept[numbers] = True
            how, bits = _NUMBERED, np.packbits(kept).tobytes()
            bits = len(bits).to_bytes(4, "little") + bits
    table = np.empty((len(ordinals), 3), dtype=np.int64)
    table[:, 0] = ordinals
    table[:, 1] = starts
    table[:, 2] = ends
    steps = np.diff(table, axis=0, prepend=np.array([[-1, 0, 0]]))
    steps[:, 0] -= 1
    steps[:, 2] = table[:, 2] - table[:, 1]
    size = 2 if not table.size or int(table.max()) <= 0xFFFF else 4
    if not steps.size or (int(steps.min()) >= 0 and int(steps.max()) <= 0xFF):
        table, size = steps, 1
    if len(ordinals) and not how and int(ordinals[-1]) == len(ordinals) - 1:
        how, table = _WHOLE, table[:, 1:]
    return bytes([how + size]) + bits + table.astype(f"<u{size}").tobytes()


def unpack_offsets(packed: bytes, *, passage_id: int) -> TokenOffsets:
    """Return the arrays that `pack_offsets` packed; CorruptError naming the passage when it did not."""
    how = packed[0] if packed else 0
    if how == _WHOLE + 1 and len(packed) % 2:
        return _unpacked_whole(packed)
    size = how & 7
    start = 1
    numbers: NDArray[np.uint32] | None = None
    if how & _NUMBERED:
        start = 5 + int.from_bytes(packed[1:5], "little")
        bits = np.frombuffer(packed[5:start], dtype=np.uint8)
        numbers = np.flatnonzero(np.unpackbits(bits)).astype(np.uint32)
    unknown = how & ~(7 | _NUMBERED | _NUMBERED_BY_ORDINAL | _WHOLE)
    columns = 2 if how & _WHOLE else 3
    if unknown or size not in (1, 2, 4) or len(packed) < start or (len(packed) - start) % (columns * size):
        raise CorruptError(
            f"kb.sqlite: the offsets of passage {passage_id} have {len(packed)} bytes with item size {size}; wanted "
            f"1 + {columns}·t·(1, 2 or 4); run 'kbengine verify'"
        )
    table = np.frombuffer(packed, dtype=f"<u{size}", offset=start).reshape(-1, columns).astype(np.int64)
    if how & _WHOLE:
        steps = np.zeros(len(table), dtype=np.int64) if size == 1 else np.arange(len(table), dtype=np.int64)
        table = np.concatenate([steps[:, None], table], axis=1)
    if size == 1:
        table[:, 0] = np.cumsum(table[:, 0] + 1) - 1
        table[:, 1] = np.cumsum(table[:, 1])
        table[:, 2] += table[:, 1]
    ordinals = table[:, 0].astype(np.uint32)
    if how & _NUMBERED_BY_ORDINAL:
        numbers = ordinals
    elif numbers is None:
        numbers = np.arange(len(table), dtype=np.uint32)
    if len(numbers) != len(table):
        raise CorruptError(
            f"kb.sqlite: passage {passage_id} has {len(table)} offsets for {len(numbers)} kept tokens; "
            "run 'kbengine verify'"
        )
    return TokenOffsets(ordinals, table[:, 1].astype(np.int32), table[:, 2].astype(np.int32), numbers)


def _unpacked_whole(packed: bytes) -> TokenOffsets:
    """Return what is packed for nearly every passage: all tokens, each by two bytes."""
    table = np.frombuffer(packed, dtype=np.uint8, offset=1).reshape(-1, 2)
    starts: NDArray[np.int32] = table[:, 0].cumsum(dtype=np.int32)
    numbers = np.arange(len(table), dtype=np.uint32)
    ends = starts + table[:, 1].astype(np.int32)
    return TokenOffsets(numbers, starts, ends, numbers)


def to_json(value: object, name: str) -> str:
    """Return the value as JSON text, keys sorted; InvalidOptionError naming it when JSON cannot hold it."""
    if isinstance(value, Mapping):
        value = dict(value)
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidOptionError(f"{name} is not JSON: {error}; use strings, numbers, lists and objects") from error
    check_text(text, name)
    _check_depth(value, name)
    return text


def _check_depth(value: object, name: str) -> None:
    """Raise InvalidOptionError for JSON so deep that reading it again could exceed Python's recursion limit."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        below = [each.values() if isinstance(each, Mapping) else each for each in level if isinstance(each, _NESTED)]
        level = [each for values in below for each in values if isinstance(each, _NESTED)]
        if not level:
            return
    raise InvalidOptionError(f"{name} is nested more than {_MAX_DEPTH} deep; write it flatter")


def check_text(value: str, name: str) -> None:
    """Raise InvalidOptionError for text that no UTF-8 file can hold."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidOptionError(
            f"{name} holds a lone surrogate at character {error.start}; decode the source as UTF-8 "
            "(errors='replace') before adding it"
        ) from error
