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


def committed(
    change: Callable[..., C], *arguments: Any, facts: Callable[[C], dict[str, Any]], status: int = 200, **keywords: Any
) -> Response:
    """Make a change and answer with what it did, and whether an earlier request of the same name had done it.

    Args:
        change: A method of the knowledge base.
        *arguments: What it is called with.
        facts: What the answer says of the commit, beside its number.
        status: Of the answer.
        **keywords: What it is called with, too.
    """
    engine, name = current_service().engine, operation_of_request()
    before = engine.knowledge_base.generation
    commit = engine.writes.run(change, *arguments, op_id=name, **keywords)
    repeated = name is not None and commit.generation <= before
    return json_response({"generation": commit.generation, **facts(commit), "repeated": repeated}, status)
