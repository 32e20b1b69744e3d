"""Changes: made under the caller's name, answered with what they did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from flask import Response

from web.idempotency import operation_of_request
from web.responses import json_response
from web.service import current_service


class Numbered(Protocol):
    """What every commit has: storage's `Commit` and `AliasChange` share no base."""

    @property
    def generation(self) -> int:
        """Return its number."""


C = TypeVar("C", bound=Numbered)


def committed(change: Callable[[str | None], C], facts: Callable[[C], dict[str, Any]], status: int = 200) -> Response:
    """Return what the change did, and whether an earlier request of the same name had done it."""
    name = operation_of_request()
    before = current_service().engine.generation
    commit = change(name)
    repeated = name is not None and commit.generation <= before
    return json_response({"generation": commit.generation, **facts(commit), "repeated": repeated}, status)
