"""The log: one JSON object an event on one stream; never a query's text, a document's text or a secret."""

from __future__ import annotations

import sys
import traceback
from typing import Any, TextIO

import structlog
from structlog.typing import FilteringBoundLogger


def make_log(stream: TextIO | None = None) -> FilteringBoundLogger:
    """Return a log that writes JSON lines to the stream, by default standard error."""
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream or sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.EventRenamer("event"),
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
        cache_logger_on_first_use=True,
    )
    return log


def where(error: BaseException) -> list[str]:
    """Return the lines of code that an error came through, without its message, which may hold a user's text."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


def error_facts(error: BaseException) -> dict[str, Any]:
    """Return what the log says of an error: its kinds, down to the first cause, and where it came from."""
    kinds: list[str] = []
    each: BaseException | None = error
    while each is not None and len(kinds) < 8:
        kinds.append(type(each).__name__)
        each = each.__cause__ or each.__context__
    return {"error": kinds, "where": where(error)}
