"""Bodies that come in more than one form: JSON, or JSON lines."""

from __future__ import annotations

from typing import Any, TypeVar

from flask import request
from pydantic import BaseModel
from pydantic_core import from_json
from werkzeug.exceptions import BadRequest

from kbengine.errors import InvalidOptionError
from web.guards import LINES_TYPES

M = TypeVar("M", bound=BaseModel)


def read_body(model: type[M], *, lines_as: str) -> M:
    """Return the request's body as the model; JSON lines are the list that is its field `lines_as`.

    Raises:
        ValidationError: it does not follow the model.
        BadRequest: it is no JSON.
        InvalidOptionError: a line is no JSON.
    """
    data = request.get_data(cache=False)
    if request.mimetype in LINES_TYPES:
        return model.model_validate({lines_as: [_line(number, line) for number, line in _lines(data)]})
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError:
        raise BadRequest from None
    return model.model_validate(value)


def _lines(data: bytes) -> list[tuple[int, bytes]]:
    return [(number, line) for number, line in enumerate(data.split(b"\n"), start=1) if line.strip()]


def _line(number: int, line: bytes) -> Any:
    try:
        return from_json(line, allow_inf_nan=False)
    except ValueError as error:
        raise InvalidOptionError(f"line {number} is not JSON ({error}); send one JSON object a line") from None
