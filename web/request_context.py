"""What is known of a request beside its body: its id, when it began, whose key it carries."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flask import g, has_request_context, request

if TYPE_CHECKING:
    from web.keys import ApiKey

API_ROOT = "kbengine.api_root"
PAGES_ROOT = "kbengine.pages_root"
_SANE_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass
class RequestContext:
    """One request on its way through the service.

    Attributes:
        request_id: The caller's `X-Request-ID` where it is a sane one, otherwise made here.
        trace: The caller's W3C `traceparent`, None without a valid one.
        began: On the monotonic clock.
        key: The API key it was made with, None without one.
        ends_connection: Whether the connection cannot serve another request, since this one's body was not read.
        facts: What views add to the log: counts and names, never text of the user's.
    """

    request_id: str
    trace: str | None
    began: float
    key: ApiKey | None = None
    ends_connection: bool = False
    facts: dict[str, Any] = field(default_factory=dict)


def begin_request() -> RequestContext:
    """Return the context of the request that begins now, kept until it ends."""
    wanted = request.headers.get("X-Request-ID", "")
    trace = request.headers.get("traceparent", "")
    g.kbengine = RequestContext(
        request_id=wanted if _SANE_ID.fullmatch(wanted) else secrets.token_hex(16),
        trace=trace if _TRACEPARENT.fullmatch(trace) else None,
        began=time.perf_counter(),
    )
    return current_request()


def current_request() -> RequestContext:
    """Return the context of the current request."""
    context = g.get("kbengine") if has_request_context() else None
    if context is None:
        return begin_request()
    assert isinstance(context, RequestContext)
    return context


def page_root() -> str:
    """Return what stands before the page's addresses: empty, or `/kb/NAME` where several are served."""
    return request.script_root if has_request_context() else ""


def api_root() -> str:
    """Return where the API begins in addresses that the caller is given; it differs where several are served."""
    root: str = request.environ.get(API_ROOT, "/v1")
    return root
