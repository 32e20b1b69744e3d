"""The errors of the service; they hang below storage's tree, `web/problems.py` gives each its HTTP status.

UsageError
├── BadRequestError           a request's body is no JSON, or did not come to its end (400)
├── PageTokenError            a page token was not given out by this listing (400)
├── IdempotencyConflictError  an idempotency key was used for something else before (409)
├── BodyTooLargeError         a request's body is larger than its route takes (413)
├── MediaTypeError            a request's body is of a type that its route does not read (415)
├── UnauthorizedError         no key, or none that is known and valid (401)
├── ForbiddenError            the key's scope does not include this (403)
├── UnknownJobError           there is no such job, or it is another key's (404)
├── NoJobResultError          a job has no result to download, or none yet (409)
└── KeyFileError              the file of API keys cannot be read, or the key to revoke is not in it
StateError
├── QueueFullError            more requests are waiting than the service holds (429)
├── DeadlineError             there was no answer in time (504)
└── StoppingError             the service is shutting down (503)
"""

from __future__ import annotations

from storage.errors import StateError, UsageError


class BadRequestError(UsageError):
    """The request cannot be read."""

    code = "bad_request"


class PageTokenError(UsageError):
    """A page token was not given out by this listing."""

    code = "bad_page_token"


class IdempotencyConflictError(UsageError):
    """An idempotency key was used for something else before."""

    code = "idempotency_conflict"


class BodyTooLargeError(UsageError):
    """A request's body is larger than its route takes."""

    code = "body_too_large"


class MediaTypeError(UsageError):
    """A request's body is of a type that its route does not read."""

    code = "unsupported_media_type"


class UnauthorizedError(UsageError):
    """No API key was given, or none that is known, unexpired and not revoked."""

    code = "unauthorized"


class ForbiddenError(UsageError):
    """The API key's scope, or the request's origin, does not allow this."""

    code = "forbidden"


class UnknownJobError(UsageError):
    """There is no job of this id, or none of this API key."""

    code = "unknown_job"


class NoJobResultError(UsageError):
    """A job has no result to download: it is not finished, did not succeed, or makes none."""

    code = "no_job_result"


class KeyFileError(UsageError):
    """The file of API keys cannot be read, or the key named is not in it."""

    code = "bad_key_file"
    exit_code = 1


class QueueFullError(StateError):
    """More requests are waiting than the service holds; nothing was begun."""

    code = "queue_full"

    def __init__(self, message: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlineError(StateError):
    """There was no answer before the request's deadline."""

    code = "deadline_exceeded"


class StoppingError(StateError):
    """The service is shutting down and begins nothing new."""

    code = "stopping"
