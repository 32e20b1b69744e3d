"""Several messages as one, each as it is: so what carries a message need not write and read it again.

magic (4 bytes) · number of parts (uint32) · length of each (uint64) · the parts, each padded to a multiple of 8
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kbengine.cluster.wire import MAX_BYTES
from kbengine.errors import MessageError

MAGIC = b"KBB1"
_BEGIN = struct.Struct("<4sI")
_LENGTH_BYTES = 8
_ALIGNMENT = 8
_ZEROS = bytes(_ALIGNMENT)


def bundled(parts: Sequence[bytes], *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return messages as one.

    >>> [bytes(each) for each in unbundled(bundled([b"one", b"", b"three"]))]
    [b'one', b'', b'three']

    Raises:
        MessageError: it is too large.
    """
    pieces: list[bytes] = [_BEGIN.pack(MAGIC, len(parts)), struct.pack(f"<{len(parts)}Q", *map(len, parts))]
    for each in parts:
        pieces += (each, _ZEROS[: -len(each) % _ALIGNMENT])
    n_bytes = sum(map(len, pieces))
    if n_bytes > max_bytes:
        raise MessageError(f"a message of {n_bytes:,} bytes, wanted at most {max_bytes:,}; ask for less at once")
    return b"".join(pieces)


def unbundled(message: bytes | memoryview, *, max_bytes: int = MAX_BYTES) -> list[memoryview]:
    """Return the messages in one, as views of it.

    Raises:
        MessageError: it is none, is damaged or too large.
    """
    total = len(message)
    if total > max_bytes:
        raise MessageError(f"a message of {total:,} bytes, wanted at most {max_bytes:,}")
    magic, n = _BEGIN.unpack_from(message) if total >= _BEGIN.size else (bytes(message[: len(MAGIC)]), 0)
    if magic != MAGIC:
        raise MessageError(
            f"bytes that begin with {magic!r}, wanted a bundle of messages, which begins with {MAGIC!r}; do both "
            "processes run the same kbengine?"
        )
    begin = _BEGIN.size + n * _LENGTH_BYTES
    if begin > total:
        raise MessageError(f"a bundle of {total:,} bytes ends within the lengths of its {n:,} messages")
    view, parts = memoryview(message), []
    for length in struct.unpack_from(f"<{n}Q", message, _BEGIN.size):
        if length > total - begin:
            raise MessageError(f"a message of {length:,} bytes ends past the bundle of {total:,}")
        parts.append(view[begin : begin + length])
        begin += length + -length % _ALIGNMENT
    if begin != total:
        raise MessageError(f"a bundle of {total:,} bytes, wanted {begin:,} by its messages")
    return parts
