"""Bodies that come in more than one form: JSON, or JSON lines."""

from __future__ import annotations

from typing import Any

from flask import request
from pydantic_core import from_json
from werkzeug.exceptions import BadRequest

from kbengine.errors import InvalidOptionError
from web.guards import LINES_TYPES


def read_body(*, lines_as: str) -> Any:
    """Return the request's body as plain values; JSON lines are a list that is named `lines_as`.

    Raises:
        BadRequest: it is no JSON.
        InvalidOptionError: a line is no JSON.
    """
    data = request.get_data()
    if request.mimetype in LINES_TYPES:
        return {lines_as: [_line(number, line) for number, line in _lines(data)]}
    try:
        return from_json(data, allow_inf_nan=False)
    except ValueError:
        raise BadRequest from None


def _lines(data: bytes) -> list[tuple[int, bytes]]:
    return [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]


def _line(number: int, line: bytes) -> Any:
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidOptionError(f"line {number} is not JSON ({error}); send one JSON object a line") from None
