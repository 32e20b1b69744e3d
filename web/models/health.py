"""Health and problems as bodies."""

from __future__ import annotations

from typing import Literal

from web.models.base import Body


class Liveness(Body):
    """The process answers."""

    status: Literal["alive"]


class Readiness(Body):
    """Whether queries will be answered."""

    status: Literal["ready", "not_ready"]
    checks: dict[str, str]


class ProblemMeaning(Body):
    """What a problem's code means."""

    code: str
    title: str
    status: int
