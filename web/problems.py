"""Every error as a problem document (RFC 9457): one table of status codes, one form of answer, stable codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import adapters.errors as task_errors
import kbengine.errors as kb_errors
import web.errors as web_errors
from storage.errors import KBError

MEDIA_TYPE = "application/problem+json"
TYPE_PREFIX = "/problems/"

STATUS_OF: Mapping[type[KBError], int] = {
    KBError: 500,
    kb_errors.UsageError: 400,
    kb_errors.UnknownDocumentError: 404,
    kb_errors.UnknownAliasError: 404,
    kb_errors.UnknownFeedbackError: 404,
    kb_errors.UnknownEncoderError: 404,
    kb_errors.OneMachineError: 501,
    kb_errors.DuplicateDocumentError: 409,
    kb_errors.DuplicateAliasError: 409,
    kb_errors.StateError: 503,
    kb_errors.CorruptError: 500,
    kb_errors.StorageFullError: 507,
    task_errors.MissingExtraError: 500,
    web_errors.BadRequestError: 400,
    web_errors.PageTokenError: 400,
    web_errors.IdempotencyConflictError: 409,
    web_errors.BodyTooLargeError: 413,
    web_errors.MediaTypeError: 415,
    web_errors.UnauthorizedError: 401,
    web_errors.ForbiddenError: 403,
    web_errors.UnknownJobError: 404,
    web_errors.NoJobResultError: 409,
    web_errors.KeyFileError: 500,
    web_errors.QueueFullError: 429,
    web_errors.DeadlineError: 504,
    web_errors.StoppingError: 503,
}
"""Status of each class; a class that is not named has that of the nearest one above it."""

HTTP_CODES: Mapping[int, tuple[str, str]] = {
    400: (web_errors.BadRequestError.code, "The request cannot be read."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "The address does not take this method."),
    406: ("not_acceptable", "The answer is not available in a form that is accepted."),
    411: ("length_required", "The body's length is not given."),
    413: (web_errors.BodyTooLargeError.code, "The body is larger than its route takes."),
    414: ("uri_too_long", "The address is too long."),
    415: (web_errors.MediaTypeError.code, "The body is of a type that its route does not read."),
    422: ("invalid_body", "The body does not follow the schema; `errors` says where."),
    431: ("headers_too_large", "The request's headers are too large."),
    500: ("internal", "Something went wrong here; the request id finds it in the log."),
}
"""Problems that are no `KBError`: their codes and titles by status."""

RETRY_AFTER_S: Mapping[str, int] = {"locked": 5, "stopping": 5, "state": 5}
"""Seconds to wait before trying again, for codes that go away by themselves."""

_SECRETIVE = frozenset((500,))


@dataclass(frozen=True)
class Problem:
    """One problem, ready to be sent.

    Attributes:
        status: The HTTP status.
        code: Stable name, the last part of `type`.
        title: What the code means, always the same.
        detail: What happened this time, for people.
        errors: Places in the request, as JSON pointers with what is wrong there.
        headers: Sent with it.
    """

    status: int
    code: str
    title: str
    detail: str
    errors: Sequence[Mapping[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_json(self, request_id: str) -> dict[str, Any]:
        """Return the problem document."""
        document: dict[str, Any] = {
            "type": f"{TYPE_PREFIX}{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
        }
        if self.errors:
            document["errors"] = [dict(error) for error in self.errors]
        return document


def status_of(kind: type[KBError]) -> int:
    """Return the HTTP status of an error class."""
    for each in kind.__mro__:
        if each in STATUS_OF:
            return STATUS_OF[each]
    return 500


def problem_of(error: KBError, *, private: str = "") -> Problem:
    """Return the problem of an error; `private` is a path that no answer shows."""
    status = status_of(type(error))
    detail = error.message
    if status in _SECRETIVE:
        detail = HTTP_CODES[500][1]
    elif private:
        detail = detail.replace(private, "the knowledge base")
    headers = {}
    if isinstance(error, web_errors.QueueFullError):
        headers["Retry-After"] = f"{error.retry_after_s:.0f}"
    elif error.code in RETRY_AFTER_S:
        headers["Retry-After"] = str(RETRY_AFTER_S[error.code])
    if isinstance(error, web_errors.UnauthorizedError):
        headers["WWW-Authenticate"] = 'Bearer realm="kbengine"'
    return Problem(status, error.code, title_of(type(error)), detail, headers=headers)


def http_problem(status: int, detail: str | None = None, headers: Mapping[str, str] | None = None) -> Problem:
    """Return the problem of a bare HTTP status."""
    code, title = HTTP_CODES.get(status, (f"http_{status}", f"The server answered {status}."))
    return Problem(status, code, title, detail or title, headers=headers or {})


def invalid_body(errors: Sequence[Mapping[str, str]]) -> Problem:
    """Return the problem of a body or query string that does not follow its schema."""
    code, title = HTTP_CODES[422]
    first = errors[0] if errors else {"pointer": "", "detail": title}
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return Problem(422, code, title, f"{first['pointer'] or 'the body'}: {first['detail']}{more}", errors)


def title_of(kind: type[KBError]) -> str:
    """Return what an error class means: the first paragraph of its docstring."""
    return " ".join((kind.__doc__ or kind.__name__).split("\n\n")[0].split())


def catalogue() -> dict[str, dict[str, Any]]:
    """Return every code that a problem can have, with its title and status."""
    found = {code: {"code": code, "title": title, "status": status} for status, (code, title) in HTTP_CODES.items()}
    pending: list[type[KBError]] = [KBError]
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        found[kind.code] = {"code": kind.code, "title": title_of(kind), "status": status_of(kind)}
    return dict(sorted(found.items()))


def json_pointer(location: Sequence[int | str], tags: Sequence[str] = ()) -> str:
    """Return a validation error's place as a JSON pointer; a union's tag behind an index is no part of the body."""
    parts: list[str] = []
    for i, part in enumerate(location):
        if part in tags and i and isinstance(location[i - 1], int):
            continue
        parts.append(str(part).replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{part}" for part in parts)
