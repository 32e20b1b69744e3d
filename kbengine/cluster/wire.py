"""Messages between processes: any frozen dataclass of arrays, numbers, texts and tuples as bytes, and back.

A message holds no code and names no class to load: what it may be is said by the reader's own type hints, and anything
else is refused. So it can be read from a process that is not trusted, which pickled objects cannot.

    magic (4 bytes) · header's length (uint32) · header (JSON) · zeros to a multiple of 8 · arrays, each so padded

The header has `arrays`, dtype and shape of each, and `value`, in which an array is its number.
"""

from __future__ import annotations

import json
import struct
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from kbengine.cluster.forms import Form, Reading, Writing, form_of
from kbengine.cluster.misfit import Misfit
from kbengine.errors import MessageError

T = TypeVar("T")

MAGIC = b"KBM1"
MAX_BYTES = 256 << 20
"""The largest message that is read unless the caller says otherwise."""
MAX_DIMENSIONS = 4
_ALIGNMENT = 8
_ZEROS = bytes(_ALIGNMENT)
_LENGTH = struct.Struct("<I")
_BEGIN = len(MAGIC) + _LENGTH.size
_JSON = json.JSONEncoder(separators=(",", ":"))
_DTYPES = {
    np.dtype(name).str: np.dtype(name)
    for name in ("?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")
}


def encode(value: object, kind: Any = None, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Return `value` as a message; arrays are written little-endian and C-contiguous.

    >>> from kbengine.span import Span
    >>> decode(Span, encode(Span(3, 8)))
    Span(start=3, end=8)

    Args:
        value: a dataclass, or what `kind` says.
        kind: the type hint that the reader will give; by default the value's class.
        max_bytes: the most that a reader takes.

    Raises:
        MessageError: the value is not what its type hints say, has a type that cannot be sent, or is too large.
    """
    form: Form = form_of(type(value) if kind is None else kind)
    writing = Writing()
    try:
        plain = form.write(value, writing)
    except Misfit as misfit:
        raise misfit.error("value") from misfit.__cause__
    arrays = [_little(each) for each in writing.arrays]
    header = _JSON.encode({"arrays": [[each.dtype.str, each.shape] for each in arrays], "value": plain}).encode()
    parts: list[Any] = [MAGIC, _LENGTH.pack(len(header)), header, _padding(_BEGIN + len(header))]
    n_bytes = _aligned(_BEGIN + len(header))
    for each in arrays:
        if each.size:
            parts += (each.data, _padding(each.nbytes))
            n_bytes += _aligned(each.nbytes)
    if n_bytes > max_bytes:
        raise MessageError(f"a message of {n_bytes:,} bytes, wanted at most {max_bytes:,}; ask for less at once")
    return b"".join(parts)


def _little(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as it is sent: little-endian and C-contiguous, of a type that may be."""
    if array.dtype.str in _DTYPES and array.flags.c_contiguous:
        return array
    array = np.ascontiguousarray(array).reshape(array.shape)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype.str not in _DTYPES:
        raise MessageError(f"an array has dtype {array.dtype}, wanted booleans or numbers of at most 8 bytes")
    return array


def decode(kind: type[T], message: bytes | memoryview, *, max_bytes: int = MAX_BYTES) -> T:
    """Return the value of a message, which has to be what the type hint `kind` says.

    Arrays are views of the message: read-only, and nothing of it is copied.

    Raises:
        MessageError: it is no message, is damaged or too large, or holds something else; the error names the place.
    """
    if len(message) > max_bytes:
        raise MessageError(f"a message of {len(message):,} bytes, wanted at most {max_bytes:,}")
    if len(message) < _BEGIN or message[: len(MAGIC)] != MAGIC:
        raise MessageError(
            f"bytes that begin with {bytes(message[: len(MAGIC)])!r}, wanted a message, which begins with {MAGIC!r}; "
            "do both processes run the same kbengine?"
        )
    (length,) = _LENGTH.unpack_from(message, len(MAGIC))
    if _BEGIN + length > len(message):
        raise MessageError(f"a message of {len(message):,} bytes ends within its header of {length:,} bytes")
    try:
        header = json.loads(str(message[_BEGIN : _BEGIN + length], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a message's header is no JSON: {error}") from error
    if not isinstance(header, dict) or set(header) != {"arrays", "value"} or not isinstance(header["arrays"], list):
        raise MessageError("a message's header lacks `arrays` and `value`, or has more than these")
    reading = Reading(_arrays(message, _aligned(_BEGIN + length), header["arrays"]))
    try:
        value: T = form_of(kind).read(header["value"], reading)
    except Misfit as misfit:
        raise misfit.error("value") from misfit.__cause__
    if reading.unread:
        raise MessageError(f"a message has {len(reading.arrays)} arrays, of which {len(reading.unread)} are not used")
    return value


def _arrays(message: bytes | memoryview, begin: int, described: list[Any]) -> list[NDArray[Any]]:
    """Return the arrays behind a message's header."""
    arrays: list[NDArray[Any]] = []
    total = len(message)
    for number, each in enumerate(described):
        name, shape = each if isinstance(each, list) and len(each) == 2 else (None, None)
        dtype = _DTYPES.get(name) if isinstance(name, str) else None
        if dtype is None:
            raise MessageError(f"array {number} has dtype {name!r}, wanted one of {', '.join(_DTYPES)}")
        if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            raise MessageError(f"array {number} has shape {shape!r}, wanted at most {MAX_DIMENSIONS} sizes")
        n = 1
        for size in shape:
            if type(size) is not int or not 0 <= size <= total:
                raise MessageError(f"array {number} has shape {shape!r}, wanted sizes of 0 to {total:,}")
            n *= size
        if begin + n * dtype.itemsize > total:
            raise MessageError(f"array {number} of {n:,} × {dtype} ends past the message of {total:,} bytes")
        array = np.frombuffer(message, dtype, n, begin if n else 0)
        arrays.append(array if len(shape) == 1 else array.reshape(shape))
        begin = _aligned(begin + n * dtype.itemsize)
    if begin != total:
        raise MessageError(f"a message of {total:,} bytes, wanted {begin:,} by its arrays")
    return arrays


def _aligned(n: int) -> int:
    return -(-n // _ALIGNMENT) * _ALIGNMENT


def _padding(n: int) -> bytes:
    return _ZEROS[: -n % _ALIGNMENT]
