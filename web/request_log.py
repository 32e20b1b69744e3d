"""The log: one JSON object an event on one stream; never a query's text, a document's text or a secret."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog
from gunicorn.glogging import Logger
from structlog.typing import FilteringBoundLogger


def make_log(stream: TextIO | None = None) -> FilteringBoundLogger:
    """Return a log that writes JSON lines to the stream, by default standard error; plain lines to a terminal."""
    stream = stream or sys.stderr
    if stream.isatty():
        render: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=False, event_key="event")
    else:
        render = structlog.processors.JSONRenderer(ensure_ascii=False)
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            render,
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


class JsonLines(logging.Formatter):
    """What libraries log, as JSON lines like our own; of exceptions the kinds and places, not the messages."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one JSON object."""
        line: dict[str, Any] = {
            "event": record.getMessage(),
            "logger": record.name,
            "level": record.levelname.lower(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= error_facts(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


class ServerLogger(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's log as JSON lines, without requests' text."""

    def setup(self, cfg: Any) -> None:
        """Write warnings and errors to standard error; requests are logged by the app."""
        super().setup(cfg)
        self.error_log.handlers = [_handler()]
        self.error_log.setLevel(logging.WARNING)

    def warning(self, msg: str, *args: Any, **kwargs: Any) -> None:
        """Log a warning; one about a request that is no HTTP without the line that was sent."""
        if msg.startswith("Invalid request from"):
            msg, args = "invalid request", ()
        super().warning(msg, *args, **kwargs)

    def exception(self, msg: str, *_: Any, **kwargs: Any) -> None:
        """Log an exception without the request's address, which may hold a query."""
        if isinstance(sys.exception(), BlockingIOError | TimeoutError):
            super().warning("a client stopped reading; its connection was closed")
        else:
            super().exception(msg.split("%s", maxsplit=1)[0].strip(), **kwargs)


def set_up_library_logs() -> None:
    """Have warnings of all libraries of this process written as JSON lines; for the process that serves only."""
    logging.getLogger().handlers = [_handler()]
    logging.getLogger().setLevel(logging.WARNING)


def _handler() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    return handler
