"""What every request passes before its view: whose it is, where it comes from, what its body is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from flask import current_app, request
from pydantic import BaseModel

from web import limits
from web.errors import BodyTooLargeError, ForbiddenError, MediaTypeError, UnauthorizedError
from web.keys import ApiKey, Scope
from web.origins import may_read
from web.request_context import current_request
from web.service import current_service
from web.settings import is_loopback

F = TypeVar("F", bound=Callable[..., Any])

Access = Literal["public", "read", "write", "admin"]

JSON_TYPES = ("application/json",)
LINES_TYPES = ("application/x-ndjson", "application/jsonl")
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")

_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_UNSENT = (None, "", "null")


def access(wanted: Access) -> Callable[[F], F]:
    """Return a decorator that says what a view needs; without it GET needs `read` and anything else `write`."""

    def mark(view: F) -> F:
        view.kbengine_access = wanted  # type: ignore[attr-defined]
        return view

    return mark


def read_by_local_pages(view: F) -> F:
    """Mark a view that changes nothing and that pages of other programs, such as OpenRefine's, may ask."""
    view.kbengine_read_by_pages = True  # type: ignore[attr-defined]
    return view


@dataclass(frozen=True)
class BodyRule:
    """What body a view reads.

    Attributes:
        media_types: What it may be; empty for views that read none.
        max_bytes: How large it may be.
        model: What it is made into, where the view itself does that.
        streams: Whether the view takes it piece by piece, and sees to its size.
    """

    media_types: tuple[str, ...] = ()
    max_bytes: int = limits.QUERY_BODY_BYTES
    model: type[BaseModel] | None = None
    streams: bool = False


def body(*media_types: str, **rule: Any) -> Callable[[F], F]:
    """Return a decorator that says which media types a view reads, and by which other rules of `BodyRule`."""

    def mark(view: F) -> F:
        view.kbengine_body = BodyRule(media_types, **rule)  # type: ignore[attr-defined]
        return view

    return mark


def body_rule(view: Callable[..., Any]) -> BodyRule:
    """Return what body a view reads."""
    rule = getattr(view, "kbengine_body", BodyRule())
    assert isinstance(rule, BodyRule)
    return rule


def reads_body(view: Callable[..., Any]) -> bool:
    """Tell whether a view reads a body."""
    return hasattr(view, "kbengine_body")


def access_of(view: Callable[..., Any] | None, method: str) -> Access:
    """Return what a view needs, of a request with this method."""
    marked: Access | None = getattr(view, "kbengine_access", None)
    return marked or ("read" if method in _SAFE_METHODS else "write")


def guard() -> None:
    """Refuse the current request unless it may reach its view.

    Raises:
        UnauthorizedError: a key is needed and there is no valid one.
        ForbiddenError: the key's scope is too small, a page of another origin sent the request, or it is addressed to
            a name that is not ours.
        MediaTypeError: its body is of a type that the view does not read.
        BodyTooLargeError: its body is too large.
    """
    view = current_app.view_functions.get(request.endpoint or "")
    _check_host()
    _check_origin(view)
    if request.method != "OPTIONS" and view is not None:
        _check_key(access_of(view, request.method))
        _check_body(view)


def _check_key(wanted: Access) -> None:
    service = current_service()
    if wanted == "public" or not service.settings.needs_key:
        return
    key = _key_of_request()
    current_request().key = key
    scope: Scope = wanted
    if not key.allows(scope):
        raise ForbiddenError(f"the API key {key.id} has the scope '{key.scope}', wanted '{scope}'")


def _key_of_request() -> ApiKey:
    """Return the key sent as `Bearer`, or as the password of `Basic`, which is what a browser can send."""
    given = request.authorization
    token = None
    if given is not None and given.type == "bearer":
        token = given.token
    elif given is not None and given.type == "basic":
        token = given.password
    if not token:
        raise UnauthorizedError("there is no API key; send it as 'Authorization: Bearer kbe_…'")
    return current_service().keys.check(token)


def _check_host() -> None:
    """Without keys, answer for names of this machine only: a page's own name may have been made to lead here."""
    settings = current_service().settings
    if settings.needs_key:
        return
    host = request.host.lower()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if not is_loopback(name) and name not in settings.allowed_hosts:
        raise ForbiddenError("the request names a host that this service does not answer for; allow it: --allow-host")


def _check_origin(view: Callable[..., Any] | None) -> None:
    """Refuse changes that a page of another origin has the browser send.

    Without keys whoever reaches the service may change the knowledge base, and so might any page that the operator's
    browser shows; with keys kept by the browser (Basic) likewise.
    """
    if request.method in _SAFE_METHODS:
        return
    origin = request.headers.get("Origin")
    is_shared = getattr(view, "kbengine_read_by_pages", False)
    if is_shared and origin is not None and may_read(origin, current_service().settings):
        return
    if origin in _UNSENT:
        if request.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin") and origin != "null":
            return
        raise ForbiddenError("the request comes from a page of another origin; send it from this service's own page")
    if urlsplit(origin).netloc == request.host or origin in current_service().settings.cors_origins:
        return
    raise ForbiddenError("the request comes from a page of another origin; allow it with --cors-origin, or send none")


def _check_body(view: Callable[..., Any]) -> None:
    rule = body_rule(view)
    coding = request.headers.get("Content-Encoding", "identity")
    if coding != "identity":
        raise MediaTypeError(f"the body is compressed ({coding[:20]!r}), wanted as it is; send no Content-Encoding")
    # One more than may come: werkzeug stops silently where its own limit is reached.
    request.max_content_length = rule.max_bytes + 1
    n_bytes = request.content_length
    if n_bytes is None and not rule.streams:
        n_bytes = len(request.get_data(cache=True))
    if n_bytes is not None and n_bytes > rule.max_bytes:
        raise too_large(rule.max_bytes)
    if rule.media_types and request.mimetype not in rule.media_types:
        raise MediaTypeError(
            f"the body's media type is {request.mimetype or 'not given'}, wanted {' or '.join(rule.media_types)}; set "
            "it as Content-Type"
        )


def too_large(max_bytes: int) -> BodyTooLargeError:
    """Return the error of a body that is longer than it may be."""
    return BodyTooLargeError(f"the body is longer than {max_bytes:,} bytes, which is what is taken; send less at once")
