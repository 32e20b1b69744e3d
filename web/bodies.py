"""Bodies as plain values: JSON of bounded depth, without NaN and lone surrogates, or JSON lines."""

from __future__ import annotations

import codecs
import re
from typing import Any

from flask import request
from flask.json.provider import JSONProvider
from pydantic_core import from_json, to_json

from kbengine.errors import InvalidOptionError
from web.errors import BadRequestError
from web.guards import LINES_TYPES

_GZIP = b"\x1f\x8b"
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)
_NO_NUMBER = re.compile(rb"[:\[,]\s*-?(NaN|Infinity)\b|^\s*-?(NaN|Infinity)\s*$")


class PydanticJSONProvider(JSONProvider):
    """Read and write JSON with pydantic, for `request.get_json` and `jsonify`."""

    def dumps(self, obj: Any, **_: Any) -> str:
        """Return the values as JSON text."""
        return to_json(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        """Return the values of a JSON body; BadRequestError says what is wrong with it."""
        return read_json(s.encode() if isinstance(s, str) else s)


def read_body(*, lines_as: str) -> Any:
    """Return the request's body as plain values; JSON lines are a list that is named `lines_as`.

    Raises:
        BadRequestError: it is no JSON.
        InvalidOptionError: a line is no JSON.
    """
    data = request.get_data()
    if request.mimetype not in LINES_TYPES:
        return read_json(data)
    lines = enumerate(data.split(b"\n"), start=1)
    return {lines_as: [_line(number, line) for number, line in lines if line.strip()]}


def read_json(data: bytes, what: str = "the body") -> Any:
    """Return the values of JSON.

    Raises:
        BadRequestError: it is none; the message says of `what` what is wrong with it.
    """
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise BadRequestError(f"{what} {_fault(data, str(error))}") from None


def _line(number: int, line: bytes) -> Any:
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidOptionError(f"line {number} {_fault(line, str(error))}") from None


def _fault(data: bytes, error: str) -> str:
    """Return what is wrong with data that is no JSON, and what to do; `error` is the parser's, which quotes nothing."""
    if not data.strip():
        return "is empty; send a JSON object"
    if data.startswith(_GZIP):
        return "is compressed with gzip; send it as it is"
    if data.startswith(_WIDE) or b"\0" in data[:4]:
        return "is UTF-16 or UTF-32; send it as UTF-8"
    if data.startswith(codecs.BOM_UTF8):
        return "begins with a byte order mark; leave that out"
    try:
        data.decode()
    except UnicodeDecodeError as wrong:
        return f"is not UTF-8 at byte {wrong.start}; send it as UTF-8"
    if "hex escape" in error:
        return f"holds half of a surrogate pair ({error}); send whole characters"
    if error.startswith("recursion"):
        return f"is nested too deeply ({error}); send fewer levels"
    if error.startswith(("expected value", "invalid number")) and _NO_NUMBER.search(data):
        return f"holds NaN or Infinity ({error}), which JSON has not; send a number or null"
    return f"is not JSON ({error}); send one JSON object"
