"""Which problems an operation may end in: some follow from its parameters, body and access, the rest its view says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from web.guards import access_of, reads_body

F = TypeVar("F", bound=Callable[..., Any])

READS = frozenset((500, 503))
"""Of what looks into the knowledge base: it is damaged, or in no state to be read."""
ASKS = READS | {429, 504}
"""Of what asks the knowledge base: too much waits, or time runs out."""
CHANGES = READS | {400, 409, 429, 507}
"""Of what changes it, or is a job that does: under a name that was used for something else, or without space."""


def may_end_in(*statuses: int, of: frozenset[int] = frozenset()) -> Callable[[F], F]:
    """Return a decorator that says which problems a view may end in, by status; `of` is what several have in common."""

    def mark(view: F) -> F:
        view.kbengine_endings = of | set(statuses)  # type: ignore[attr-defined]
        return view

    return mark


def problem_statuses(view: Callable[..., Any], method: str, operation: Mapping[str, Any]) -> list[int]:
    """Return the statuses of the problems that an operation may end in, ascending.

    Args:
        view: What answers it.
        method: Its method.
        operation: Its description, with parameters and body.
    """
    found = set(getattr(view, "kbengine_endings", ()))
    found.add(403)  # sent to a name that is not ours, by a page of another origin, or with a key of too small a scope
    if access_of(view, method.upper()) != "public":
        found.add(401)
    has_body = reads_body(view)
    if has_body:
        found |= {400, 413, 415}
    if any(each["in"] == "query" for each in operation.get("parameters", ())):
        found.add(422)
    if any("$ref" in each["schema"] for each in operation.get("requestBody", {}).get("content", {}).values()):
        found.add(422)
    return sorted(found)
