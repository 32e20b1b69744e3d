"""Segments: immutable files `segments/<name>.seg` with the vectors and postings of a run of passages.

A segment covers a contiguous range of token ids: its rows are stored tokens in token-id order, its passages are
in id order. Files are written once, checked whole before use, and only ever unlinked.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.codes import dequantise
from storage.container import ArraySource, Container, open_container, write_container
from storage.document_frequencies import document_frequencies
from storage.durable import DurableFile, check_file, check_size
from storage.errors import CorruptError, KBError, StateError
from storage.segment_arrays import (
    ARRAY_NAMES,
    CHECKED_WHEN_READ,
    OPTIONAL_ARRAY_NAMES,
    SPARSE_ARRAY_NAMES,
    SegmentArrays,
    SegmentLengths,
    array_specs,
)
from storage.sparse_rows import SparseArrays
from storage.stored_array import BlockChecks, Stored, StoredArray

__all__ = [
    "SEGMENT_SUFFIX",
    "Segment",
    "SegmentArrays",
    "SegmentFile",
    "open_segment",
    "segment_path",
    "write_segment",
]

SEGMENT_SUFFIX = ".seg"
_FORMAT = "kbengine-segment"
_VERSION = "3"
# What earlier versions wrote has one checksum of the whole file.
_UNBLOCKED_VERSIONS = ("1", "2")


@dataclass(frozen=True)
class SegmentFile:
    """What the database knows of a segment's file; enough to check it and to place it among the others.

    Attributes:
        name: 32 hex digits; the file is `<name>.seg`.
        n_bytes: Size of the file.
        sha256: Hex checksum of the file.
        n_rows: Stored tokens.
        n_passages: Passages, those without stored tokens included.
        first_token_id: Lowest token id of its range.
        end_token_id: One above the highest token id of its range.
    """

    name: str
    n_bytes: int
    sha256: str
    n_rows: int
    n_passages: int
    first_token_id: int
    end_token_id: int


@dataclass(frozen=True)
class Segment:
    """An opened and checked segment; its arrays are read-only views of the mapped file."""

    path: Path
    file: SegmentFile
    arrays: SegmentArrays

    @property
    def name(self) -> str:
        """The segment's name, 32 hex digits."""
        return self.file.name

    @property
    def d(self) -> int:
        """Dimension of the vectors."""
        return self.arrays.d

    @property
    def n_rows(self) -> int:
        """Stored tokens."""
        return self.file.n_rows

    @property
    def n_passages(self) -> int:
        """Passages, those without stored tokens included."""
        return self.file.n_passages

    @property
    def token_ordinals(self) -> Stored[Any]:
        """Position of each row among all tokens of its passage, before filtering, an integer array (n)."""
        stored = self.arrays.token_ordinals
        return self._places if stored is None else stored

    @property
    def best_logits(self) -> NDArray[np.float16]:
        """The larger one of each row's two filter logits, float16 (n)."""
        logits = np.asarray(self.arrays.filter_logits)
        return logits if logits.ndim == 1 else logits.max(axis=1, initial=-np.inf)

    @property
    def _places(self) -> NDArray[np.int64]:
        """Place of each row among the stored rows of its passage, int64 (n)."""
        return np.arange(self.n_rows) - np.repeat(self.arrays.first_rows, self.arrays.token_counts)

    @property
    def token_numbers(self) -> Stored[Any]:
        """Token id of each row less its passage's first token id, an integer array (n)."""
        stored = self.stored_numbers
        return self._places if stored is None else stored

    @property
    def stored_numbers(self) -> Stored[Any] | None:
        """The same, None where the rows of every passage are numbered 0, 1, 2, …."""
        if self.arrays.numbering == "ordinals":
            return self.arrays.token_ordinals
        return self.arrays.token_numbers

    def passage_of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the passage index (0…p−1) of each row, int64 of the same shape; rows must be in 0…n−1."""
        # "right": of passages that begin at the same row, all but the last are empty.
        return np.searchsorted(self.arrays.first_rows, rows, side="right") - 1

    def token_ids_of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the token id of each row, int64 of the same shape."""
        passages = self.passage_of_rows(rows)
        numbers = self.stored_numbers
        offsets = rows - self.arrays.first_rows[passages] if numbers is None else numbers[rows].astype(np.int64)
        ids: NDArray[np.int64] = self.arrays.first_token_ids[passages] + offsets
        return ids

    def vectors(self, rows: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the token vectors float32 (rows, d), not normalised; StateError where only codes are stored."""
        codes, scales = self.arrays.codes, self.arrays.scales
        if codes is None or scales is None:
            raise StateError(
                f"segment {self.name} stores quantised vectors only; decode them with quantiser {self.arrays.quantiser}"
            )
        return dequantise(codes[rows], scales[rows])

    def passage_vectors(self, passages: NDArray[np.int64] | slice) -> NDArray[np.float32]:
        """Return the passage vectors float32 (passages, d), of norm 1 up to the rounding of the codes."""
        return dequantise(self.arrays.passage_codes[passages], self.arrays.passage_scales[passages])


def segment_path(directory: Path, name: str) -> Path:
    """Return the path of the segment's file in `directory`."""
    return directory / f"{name}{SEGMENT_SUFFIX}"


def write_segment(directory: Path, arrays: SegmentArrays) -> SegmentFile:
    """Write a segment file durably to `directory` and return its record."""
    specs = array_specs(arrays.lengths, d=arrays.d)
    of_sparse = {} if arrays.sparse is None else arrays.sparse.named()
    sources: dict[str, ArraySource] = {
        spec.name: np.asarray(of_sparse[spec.name] if spec.name in of_sparse else getattr(arrays, spec.name))
        for spec in specs
    }
    metadata = segment_metadata(arrays)
    numbers = arrays.token_ordinals if arrays.numbering == "ordinals" else arrays.token_numbers
    first, end = token_id_range(arrays.first_token_ids, arrays.token_counts, numbers)
    return write_segment_file(
        directory, arrays.lengths, sources, d=arrays.d, metadata=metadata, first_token_id=first, end_token_id=end
    )


def write_segment_file(
    directory: Path,
    lengths: SegmentLengths,
    sources: Mapping[str, ArraySource],
    *,
    d: int,
    metadata: Mapping[str, str],
    first_token_id: int,
    end_token_id: int,
    name: str | None = None,
) -> SegmentFile:
    """Write a segment file durably from arrays, or iterables of their parts, and return its record."""
    name = name or uuid.uuid4().hex
    lengths = replace(lengths, form=replace(lengths.form, frequencies=True))
    specs = array_specs(lengths, d=d)
    metadata = {**metadata, "name": name, "numbering": lengths.form.numbering}
    counted = document_frequencies(
        *(_whole(sources[each]) for each in ("posting_starts", "posting_passages", "document_ids"))
    )
    with DurableFile(segment_path(directory, name)) as file:
        write_container(
            file, specs, {**sources, "document_frequencies": counted}, metadata=metadata, block_checksums=True
        )
        file.commit()
        return SegmentFile(
            name=name,
            n_bytes=file.n_bytes,
            sha256=file.sha256,
            n_rows=lengths.n_rows,
            n_passages=lengths.n_passages,
            first_token_id=first_token_id,
            end_token_id=end_token_id,
        )


def _whole(source: ArraySource) -> NDArray[Any]:
    """Return an array that may have been given in parts."""
    return source if isinstance(source, np.ndarray) else np.concatenate(list(source))


def segment_metadata(like: SegmentArrays, *, quantiser: str | None = None, drop_sparse: bool = False) -> dict[str, str]:
    """Return the strings kept in the header of a segment like this one, with another quantiser if one is named."""
    name = like.quantiser if quantiser is None else quantiser
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "d": str(like.d),
        "token_scale": repr(like.token_scale),
        "passage_scale": repr(like.passage_scale),
        "encoder": like.encoder,
        **({"quantiser": name} if name else {}),
        **({} if like.sparse is None or drop_sparse else {"sparse": like.sparse.model}),
    }


def token_id_range(
    first_token_ids: NDArray[np.int64], token_counts: NDArray[np.uint32], token_numbers: Stored[Any] | None = None
) -> tuple[int, int]:
    """Return the half-open range of token ids of these passages, of which there is at least one.

    Args:
        first_token_ids: int64 (p), rising.
        token_counts: uint32 (p).
        token_numbers: (n), token ids of the rows less those of their passages, None for 0, 1, 2, …; the last is
            enough.
    """
    first, end = int(first_token_ids[0]), int(first_token_ids[-1])
    if token_numbers is None:
        return first, end + int(token_counts[-1])
    filled = np.flatnonzero(token_counts)
    if len(filled):
        end = max(end, int(first_token_ids[filled[-1]]) + int(token_numbers[-1]) + 1)
    return first, end


def open_segment(path: Path, expected: SegmentFile, *, whole: bool = True) -> Segment:
    """Open a segment, after checking its size, checksums and structure against `expected`.

    Args:
        path: The file.
        expected: What the database knows of it.
        whole: Check every byte now. Otherwise what grows with tokens and postings is checked where it is read first
            (`storage.stored_array`), so that opening does not take the longer the larger the file is; files of earlier
            versions, which have one checksum, are checked whole all the same.

    Raises:
        CorruptError: The file is missing (`__cause__` is a FileNotFoundError then), or is not what was written.
        StateError: The file may not be read by this process.
    """
    check_size(path, n_bytes=expected.n_bytes)
    container = open_container(path)
    if container.checksums is None:
        check_file(path, n_bytes=expected.n_bytes, sha256=expected.sha256)
    else:
        container.check_root()
        checks = BlockChecks(container)
        if not whole:
            return _segment_of(container, expected, _checked_when_read(container, checks))
        checks.check_range(0, container.n_checked_bytes)
    return _segment_of(container, expected, container.arrays)


def _checked_when_read(container: Container, checks: BlockChecks) -> dict[str, Stored[Any]]:
    """Return the arrays, the small ones checked now, the others to be checked where they are read."""
    arrays: dict[str, Stored[Any]] = {}
    for name, array in container.arrays.items():
        offset = container.offsets[name]
        arrays[name] = StoredArray(array, checks, offset) if name in CHECKED_WHEN_READ else array
        if name not in CHECKED_WHEN_READ:
            checks.check_range(offset, offset + array.nbytes)
    return arrays


def _segment_of(container: Container, expected: SegmentFile, arrays: Mapping[str, Stored[Any]]) -> Segment:
    path, metadata = container.path, container.metadata
    versions = _UNBLOCKED_VERSIONS if container.checksums is None else (_VERSION,)
    if metadata.get("format") != _FORMAT or metadata.get("version") not in versions:
        raise CorruptError(
            f"{path}: format is {metadata.get('format')!r} version {metadata.get('version')!r}, expected {_FORMAT!r} "
            f"version 1 to {_VERSION}; was it written by a newer kbengine?"
        )
    if metadata.get("name", expected.name) != expected.name:
        raise CorruptError(f"{path} is segment {metadata['name']}; was the file swapped with another?")
    of_sparse = SPARSE_ARRAY_NAMES & set(arrays)
    unexpected = (set(arrays) ^ ARRAY_NAMES) - OPTIONAL_ARRAY_NAMES - SPARSE_ARRAY_NAMES
    unexpected |= SPARSE_ARRAY_NAMES - of_sparse if of_sparse else set()
    if unexpected:
        raise CorruptError(f"{path}: arrays {sorted(unexpected)} are missing or unknown")
    optional: dict[str, Any] = {name: arrays.get(name) for name in OPTIONAL_ARRAY_NAMES}
    needed: dict[str, Any] = {name: arrays[name] for name in ARRAY_NAMES - OPTIONAL_ARRAY_NAMES}
    try:
        content = SegmentArrays(
            **optional,
            **needed,
            d=int(metadata["d"]),
            token_scale=float(metadata["token_scale"]),
            passage_scale=float(metadata["passage_scale"]),
            encoder=metadata["encoder"],
            numbering=metadata.get("numbering", "own" if "token_numbers" in arrays else "rows"),  # type: ignore[arg-type]
            quantiser=metadata.get("quantiser", ""),
            sparse=SparseArrays.from_named(arrays, metadata["sparse"]) if of_sparse else None,
        )
    except (KBError, KeyError, ValueError) as error:
        raise CorruptError(f"{path}: {error}; restore it from a backup or re-encode its documents") from error
    numbers = content.token_ordinals if content.numbering == "ordinals" else content.token_numbers
    first, end = token_id_range(content.first_token_ids, content.token_counts, numbers)
    seen = (content.n_rows, len(content.passage_ids), first, end)
    wanted = (expected.n_rows, expected.n_passages, expected.first_token_id, expected.end_token_id)
    if seen != wanted:
        raise CorruptError(
            f"{path}: rows, passages and token range are {seen}, expected {wanted}; was the file swapped with another?"
        )
    return Segment(path=path, file=expected, arrays=content)
