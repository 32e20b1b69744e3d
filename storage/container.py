"""Arrays in one file, in the safetensors layout, written as a stream.

The file is an 8-byte little-endian header length, a JSON header and the raw little-endian arrays, so the
safetensors library reads it. We write it ourselves because a merge must not hold all rows in memory and because
each byte has to pass our own write loop. Arrays are ordered by item size, which keeps each of them aligned.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.durable import DurableFile, read_error
from storage.errors import CorruptError

_NAME_OF_DTYPE = {
    "int8": "I8",
    "uint8": "U8",
    "float16": "F16",
    "uint16": "U16",
    "uint32": "U32",
    "float32": "F32",
    "int64": "I64",
    "uint64": "U64",
}
_DTYPE_OF_NAME = {name: np.dtype(dtype).newbyteorder("<") for dtype, name in _NAME_OF_DTYPE.items()}
_ALIGNMENT = 64
_MAX_HEADER_BYTES = 1 << 20

BLOCK_BYTES = 1 << 15
"""Bytes that have a checksum of their own in a file with block checksums."""
_CHECKSUMS, _ROOT = "block_checksums", "root"
_CHECKSUM_BYTES, _ROOT_BYTES = 8, 32

# What an array is written from: the whole of it, or its parts in order.
ArraySource = NDArray[Any] | Iterable[NDArray[Any]]


@dataclass(frozen=True)
class ArraySpec:
    """Name, element type and shape of one array of a container."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Size of the array's bytes in the file."""
        count = 1
        for length in self.shape:
            count *= length
        return count * self.dtype.itemsize


@dataclass(frozen=True)
class Container:
    """The arrays of an opened file, as read-only views of its memory map, and its metadata strings.

    `offsets` says where the bytes of each array begin in the file.
    """

    path: Path
    n_bytes: int
    metadata: Mapping[str, str]
    arrays: Mapping[str, NDArray[Any]]
    checksums: NDArray[np.uint8] | None = None
    root: NDArray[np.uint8] | None = None
    mapped: mmap.mmap | None = field(default=None, repr=False)
    offsets: Mapping[str, int] = field(default_factory=dict, repr=False)

    def check_root(self) -> None:
        """Raise CorruptError unless header and block checksums are those that the file's root is of."""
        assert self.mapped is not None
        assert self.checksums is not None
        assert self.root is not None
        header = self.mapped[: 8 + int.from_bytes(self.mapped[:8], "little")]
        seen, wanted = _root(header, self.checksums), self.root.tobytes()
        if seen != wanted:
            raise CorruptError(
                f"{self.path}: header and block checksums have sha256 {seen.hex()}, expected {wanted.hex()}; restore "
                "it from a backup or re-encode its documents"
            )

    @property
    def n_checked_bytes(self) -> int:
        """Bytes that block checksums are of: all before these."""
        assert self.checksums is not None
        return self.n_bytes - self.checksums.nbytes - _ROOT_BYTES

    def check_block(self, number: int) -> None:
        """Raise CorruptError unless the bytes of a block are what was written."""
        assert self.mapped is not None
        assert self.checksums is not None
        end = self.n_checked_bytes
        begin = number * BLOCK_BYTES
        with memoryview(self.mapped)[begin : min(begin + BLOCK_BYTES, end)] as block:
            seen = _checksum(block)
        if seen != self.checksums[number].tobytes():
            raise CorruptError(
                f"{self.path}: the {BLOCK_BYTES} bytes from {begin} on are not what was written: their checksum is "
                f"{seen.hex()}, expected {self.checksums[number].tobytes().hex()}; restore it from a backup or "
                "re-encode its documents"
            )


class _Blocks:
    """Checksums of what passes by, block by block."""

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self._open = bytearray()

    def add(self, data: memoryview) -> None:
        """Add the next bytes."""
        start = 0
        if self._open:
            start = min(len(data), BLOCK_BYTES - len(self._open))
            self._open += data[:start]
            if len(self._open) < BLOCK_BYTES:
                return
            self.digests.append(_checksum(self._open))
            self._open.clear()
        while len(data) - start >= BLOCK_BYTES:
            self.digests.append(_checksum(data[start : start + BLOCK_BYTES]))
            start += BLOCK_BYTES
        self._open += data[start:]

    def finished(self) -> NDArray[np.uint8]:
        """Return the checksums, uint8 (blocks, 8)."""
        if self._open:
            self.digests.append(_checksum(self._open))
            self._open.clear()
        return np.frombuffer(b"".join(self.digests), dtype=np.uint8).reshape(-1, _CHECKSUM_BYTES)


def _checksum(data: bytes | bytearray | memoryview) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM_BYTES).digest()


def _root(header: bytes, checksums: NDArray[np.uint8]) -> bytes:
    digest = hashlib.sha256(header)
    digest.update(np.ascontiguousarray(checksums).data)
    return digest.digest()


def write_container(
    file: DurableFile,
    specs: Iterable[ArraySpec],
    sources: Mapping[str, ArraySource],
    *,
    metadata: Mapping[str, str],
    block_checksums: bool = False,
) -> None:
    """Write header and arrays to `file`, which the caller commits.

    With block checksums each `BLOCK_BYTES` of all before them have one, so that a part of the file can be checked
    without reading the rest. The file ends with their root, a SHA-256 over header and checksums.

    Args:
        file: A new file, nothing written yet.
        specs: The arrays; they are stored by falling item size, else in this order.
        sources: By name: the array, or an iterable of its parts along the first axis.
        metadata: Strings kept in the header.
        block_checksums: Whether these are written, after the arrays.
    """
    ordered = sorted(specs, key=lambda spec: -spec.dtype.itemsize)
    blocks = _Blocks()
    header = _header(_with_checksums(ordered, metadata) if block_checksums else ordered, metadata)

    def write(data: memoryview) -> None:
        file.write(data)
        if block_checksums:
            blocks.add(data)

    write(memoryview(header))
    for spec in ordered:
        source = sources[spec.name]
        expected_end = file.n_bytes + spec.n_bytes
        for part in [source] if isinstance(source, np.ndarray) else source:
            data = np.ascontiguousarray(part, dtype=spec.dtype.newbyteorder("<"))
            write(data.reshape(-1).view(np.uint8).data)
        if file.n_bytes != expected_end:
            raise CorruptError(
                f"{file.path}: array {spec.name!r} got {file.n_bytes - expected_end + spec.n_bytes} bytes, expected "
                f"{spec.n_bytes} for shape {spec.shape}; a source file may be damaged: run 'kbengine verify'"
            )
    if block_checksums:
        checksums = blocks.finished()
        file.write(np.ascontiguousarray(checksums).reshape(-1).data)
        file.write(_root(header, checksums))


def _with_checksums(ordered: list[ArraySpec], metadata: Mapping[str, str]) -> list[ArraySpec]:
    """Return the arrays, that of the checksums of header and arrays, on which the header's length depends, the root."""
    n_blocks = -1
    byte = np.dtype(np.uint8)
    while True:
        table = ArraySpec(_CHECKSUMS, byte, (max(n_blocks, 0), _CHECKSUM_BYTES))
        specs = [*ordered, table, ArraySpec(_ROOT, byte, (_ROOT_BYTES,))]
        n_bytes = len(_header(specs, metadata)) + sum(spec.n_bytes for spec in ordered)
        if n_blocks == -(-n_bytes // BLOCK_BYTES):
            return specs
        n_blocks = -(-n_bytes // BLOCK_BYTES)


def open_container(path: Path) -> Container:
    """Map the file's arrays; CorruptError when header, offsets or size contradict each other.

    The bytes of the arrays are not looked at: whoever opens a container checks its checksum.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            n_bytes = os.fstat(descriptor).st_size
            if n_bytes < 8:
                raise CorruptError(f"{path} has {n_bytes} bytes, expected at least 8; restore it from a backup")
            mapped = mmap.mmap(descriptor, n_bytes, access=mmap.ACCESS_READ)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise read_error(error, path) from error
    header_bytes = int.from_bytes(mapped[:8], "little")
    if not 2 <= header_bytes <= min(_MAX_HEADER_BYTES, n_bytes - 8):
        raise CorruptError(
            f"{path}: header length is {header_bytes}, expected 2 to {min(_MAX_HEADER_BYTES, n_bytes - 8)}; "
            "restore it from a backup"
        )
    data_start = 8 + header_bytes
    try:
        header = json.loads(mapped[8:data_start])
        metadata = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
        entries = [_entry(name, value) for name, value in header.items()]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorruptError(f"{path}: the header is not a safetensors header; restore it from a backup") from error
    arrays: dict[str, NDArray[Any]] = {}
    offsets: dict[str, int] = {}
    position = 0
    for spec, start, end in sorted(entries, key=lambda entry: (entry[1], entry[2])):
        if start != position or end - start != spec.n_bytes or data_start + end > n_bytes:
            raise CorruptError(
                f"{path}: array {spec.name!r} lies at {start}–{end}, expected {position}–{position + spec.n_bytes} "
                f"of {n_bytes - data_start} bytes; restore it from a backup"
            )
        count = spec.n_bytes // spec.dtype.itemsize
        # numpy refuses to look at no bytes at the very end of a buffer, where an empty last array lies.
        offset = data_start + start if count else 0
        arrays[spec.name] = np.frombuffer(mapped, spec.dtype, count, offset).reshape(spec.shape)
        offsets[spec.name] = offset
        position = end
    if data_start + position != n_bytes:
        raise CorruptError(
            f"{path} has {n_bytes} bytes, its header describes {data_start + position}; restore it from a backup"
        )
    checksums, root = arrays.pop(_CHECKSUMS, None), arrays.pop(_ROOT, None)
    if checksums is not None:
        n_blocks = -(-(n_bytes - checksums.nbytes - _ROOT_BYTES) // BLOCK_BYTES)
        fits = checksums.dtype == np.uint8 and checksums.shape == (n_blocks, _CHECKSUM_BYTES)
        if not fits or root is None or root.dtype != np.uint8 or root.shape != (_ROOT_BYTES,):
            raise CorruptError(f"{path}: block checksums are not those of {n_blocks} blocks; restore it from a backup")
    return Container(path, n_bytes, metadata, arrays, checksums, root, mapped, offsets)


def _header(specs: Iterable[ArraySpec], metadata: Mapping[str, str]) -> bytes:
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    position = 0
    for spec in specs:
        header[spec.name] = {
            "dtype": _NAME_OF_DTYPE[spec.dtype.name],
            "shape": list(spec.shape),
            "data_offsets": [position, position + spec.n_bytes],
        }
        position += spec.n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    # Blanks after the JSON are part of the format: they put the first array on a cache line.
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _entry(name: str, value: Mapping[str, Any]) -> tuple[ArraySpec, int, int]:
    start, end = value["data_offsets"]
    shape = tuple(value["shape"])
    if not all(isinstance(number, int) and number >= 0 for number in (start, end, *shape)):
        raise ValueError(f"negative or non-integer numbers in the entry of {name!r}")
    return ArraySpec(name=name, dtype=_DTYPE_OF_NAME[value["dtype"]], shape=shape), start, end
