"""JSON as pydantic reads and writes it: fast, of bounded depth, no NaN, no lone surrogates."""

from __future__ import annotations

from typing import Any

from flask.json.provider import JSONProvider
from pydantic_core import from_json, to_json


class PydanticJSONProvider(JSONProvider):
    """What `request.get_json` and `jsonify` use."""

    def dumps(self, obj: Any, **_: Any) -> str:
        """Return the values as JSON text."""
        return to_json(obj).decode()

    def loads(self, s: str | bytes, **_: Any) -> Any:
        """Return the values of JSON text; ValueError when it is none, or nested too deeply."""
        return from_json(s, allow_inf_nan=False)
