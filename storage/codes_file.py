"""The file with a segment's quantised vectors in the index directory: grouped by list, checked where it is read.

Opening it costs nothing that grows with it. A block that is not what was written is noticed when it is first read; what
the file holds is then made again of what is stored, for the file is derived.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors, RowsByList
from storage.ann_lists import AnnKind, of_threshold
from storage.container import ArraySource, ArraySpec, Container, open_container, write_container
from storage.durable import DurableFile, hash_file
from storage.errors import CorruptError
from storage.quantiser import Quantiser
from storage.stored_array import BlockChecks, MendedArray, RearrangedArray, Stored

__all__ = ["OpenedCodes", "Owner", "codes_path", "open_codes", "read_codes", "write_codes"]

_FORMAT = "kbengine-codes"
_VERSION = "2"
# The first version has one checksum of the whole file, and neither the rows of each list nor those that are indexed.
_UNGROUPED_VERSION = "1"
_DIGEST_BYTES = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Owner:
    """Whose vectors a file is about.

    Attributes:
        segment_sha256: Checksum of the segment's file.
        quantiser: What they are coded with.
    """

    segment_sha256: str
    quantiser: Quantiser


@dataclass(frozen=True)
class OpenedCodes:
    """What a file holds.

    Attributes:
        coded: The quantised vectors that can be found, numbered from 0.
        rows: int64 (m), rising, the segment's row of each; None where all can be found.
    """

    coded: CodedVectors
    rows: Stored[np.int64] | None

    def named(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by their names in the file, where codes stand list after list."""
        grouped = self.coded.by_list
        order = np.asarray(grouped.order)
        rows = {} if self.rows is None else {"rows": np.asarray(self.rows)}
        return {
            "list_starts": grouped.starts,
            "order": order,
            "list_numbers": np.asarray(self.coded.list_numbers),
            "codes": self.coded.codes[order] if grouped.codes is None else np.asarray(grouped.codes),
            **rows,
        }


def codes_path(
    directory: Path, name: str, quantiser: str, threshold: float | None = None, *, kind: AnnKind = "tokens"
) -> Path:
    """Return the path of the file with a segment's quantised vectors in the index directory; see `ann_path`."""
    return directory / f"{name}.{kind}.{quantiser[:12]}{of_threshold(threshold)}.ann"


def write_codes(path: Path, opened: OpenedCodes, owner: Owner) -> None:
    """Write the quantised vectors durably to `path`, replacing what was there."""
    arrays = opened.named()
    sources: dict[str, ArraySource] = {**arrays}
    specs = [ArraySpec(name, array.dtype, array.shape) for name, array in arrays.items()]
    with DurableFile(path) as file:
        write_container(file, specs, sources, metadata=_metadata(owner, _VERSION), block_checksums=True)
        file.commit(replace=True)


def read_codes(path: Path, owner: Owner, n_rows: int) -> CodedVectors:
    """Return the quantised vectors in a file of either version, every byte of it checked.

    Args:
        path: The file.
        owner: What it is to be about.
        n_rows: How many vectors.

    Raises:
        CorruptError: It is missing, damaged or about other vectors.
    """
    container = open_container(path)
    if container.checksums is None:
        coded = _ungrouped(container, owner)
    else:
        container.check_root()
        BlockChecks(container).check_range(0, container.n_checked_bytes)
        coded = _opened(container, owner, container.arrays).coded
        if not np.array_equal(np.sort(coded.by_list.order[:]), np.arange(coded.n_rows)):
            raise CorruptError(f"{path}: the lists do not hold each of {coded.n_rows} rows once")
    if coded.n_rows != n_rows or int(coded.list_numbers[:].max(initial=0)) >= owner.quantiser.nlist:
        raise CorruptError(f"{path}: the codes are not those of {n_rows} rows in {owner.quantiser.nlist} lists")
    return coded


def open_codes(path: Path, owner: Owner, mend: Callable[[], OpenedCodes]) -> OpenedCodes:
    """Return what a file holds, to be checked where it is read first.

    Args:
        path: The file.
        owner: What it is to be about.
        mend: Makes the same anew, for when a part of the file turns out not to be what was written.

    Raises:
        CorruptError: It is missing, about other vectors, of an earlier version, or its head is damaged.
    """
    container = open_container(path)
    if container.checksums is None:
        raise CorruptError(f"{path} is of an earlier version, which can only be read whole")
    container.check_root()
    checks = BlockChecks(container)
    mending = _Mending(path, mend)
    arrays: dict[str, Stored[Any]] = {}
    for name, array in container.arrays.items():
        offset = container.offsets[name]
        if name == "list_starts":
            checks.check_range(offset, offset + array.nbytes)
            arrays[name] = array
        else:
            arrays[name] = MendedArray(array, checks, offset, mending.maker_of(name))
    return _opened(container, owner, arrays)


class _Mending:
    """Makes a file's arrays anew, once, when one of them is asked for."""

    def __init__(self, path: Path, mend: Callable[[], OpenedCodes]) -> None:
        self._path, self._mend = path, mend
        self._lock = threading.Lock()
        self._made: dict[str, NDArray[Any]] | None = None

    def maker_of(self, name: str) -> Callable[[CorruptError], NDArray[Any]]:
        def made(error: CorruptError) -> NDArray[Any]:
            with self._lock:
                if self._made is None:
                    _log.warning("rebuilding %s: %s", self._path, error)
                    self._made = self._mend().named()
                return self._made[name]

        return made


def _opened(container: Container, owner: Owner, arrays: Mapping[str, Stored[Any]]) -> OpenedCodes:
    path, quantiser = container.path, owner.quantiser
    if dict(container.metadata) != _metadata(owner, _VERSION):
        raise CorruptError(f"{path} is about {dict(container.metadata)}, expected {_metadata(owner, _VERSION)}")
    if set(arrays) - {"rows"} != {"list_starts", "order", "list_numbers", "codes"}:
        raise CorruptError(f"{path}: arrays are {sorted(arrays)}, expected those of coded rows by list")
    m = len(arrays["codes"])
    wanted: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        "list_starts": (np.int64, (quantiser.nlist + 1,)),
        "order": (np.uint32, (m,)),
        "list_numbers": (np.uint16, (m,)),
        "codes": (np.uint8, (m, quantiser.code_bytes)),
        "rows": (np.int64, (m,)),
    }
    for name, array in arrays.items():
        dtype, shape = wanted[name]
        if array.dtype != dtype or array.shape != shape:
            raise CorruptError(
                f"{path}: array {name!r} is {array.dtype} {array.shape}, expected {np.dtype(dtype)} {shape}"
            )
    starts = np.asarray(arrays["list_starts"])
    if starts[0] != 0 or starts[-1] != m or (np.diff(starts) < 0).any():
        raise CorruptError(f"{path}: the lists do not divide {m} rows")
    grouped = RowsByList(arrays["order"], starts, arrays["codes"])
    by_row = RearrangedArray(arrays["codes"], arrays["order"])
    coded = CodedVectors(quantiser, arrays["list_numbers"], by_row, container.mapped, grouped)
    return OpenedCodes(coded, arrays.get("rows"))


def _ungrouped(container: Container, owner: Owner) -> CodedVectors:
    path, arrays = container.path, container.arrays
    n_bytes, seen = hash_file(path, end=container.n_bytes - _DIGEST_BYTES)
    if set(arrays) != {"list_numbers", "codes", "sha256"} or seen != arrays["sha256"].tobytes().hex():
        raise CorruptError(f"{path}: sha256 of the first {n_bytes} bytes is {seen}, the file says otherwise")
    wanted = _metadata(owner, _UNGROUPED_VERSION)
    if dict(container.metadata) != wanted:
        raise CorruptError(f"{path} is about {dict(container.metadata)}, expected {wanted}")
    list_numbers, codes = arrays["list_numbers"], arrays["codes"]
    fits = list_numbers.dtype == np.uint16 and codes.dtype == np.uint8 and list_numbers.shape == codes.shape[:1]
    if not fits or codes.shape[1:] != (owner.quantiser.code_bytes,):
        raise CorruptError(f"{path}: the codes are not those of quantiser {owner.quantiser.name}")
    return CodedVectors(owner.quantiser, list_numbers, codes, container.mapped)


def _metadata(owner: Owner, version: str) -> dict[str, str]:
    return {
        "format": _FORMAT,
        "version": version,
        "segment_sha256": owner.segment_sha256,
        "quantiser": owner.quantiser.name,
    }
