"""Errors as pages: what happened, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Response, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from kbengine.errors import UnknownDocumentError
from storage.errors import CorruptError, KBError, LockedError, StateError, StorageFullError, UsageError
from web.errors import DeadlineError, ForbiddenError, QueueFullError, StoppingError, UnauthorizedError

_MESSAGES: dict[int, tuple[str, str]] = {
    400: ("This address cannot be read", "Go back and fill in the form again."),
    404: ("There is no such page", "Check the address, or start again from the search page."),
    405: ("This page cannot be asked that way", "Start again from the search page."),
    413: ("That is too large", "Send fewer or smaller files; large collections are added with 'kbengine add'."),
    414: ("The address is too long", "Send the text through the form of the search page."),
}


@dataclass(frozen=True)
class Problem:
    """What a reader is told: a title, the details with the remedy, and whether trying again may help."""

    status: int
    title: str
    detail: str
    retry_after_s: int | None = None


def problem_of(error: KBError) -> Problem:
    """Return what a reader is told about the error."""
    detail = _sentence(error.message)
    match error:
        case QueueFullError():
            return Problem(429, "Too many searches at once", detail, max(1, round(error.retry_after_s)))
        case StoppingError():
            return Problem(503, "The service is stopping", detail, 5)
        case DeadlineError():
            return Problem(504, "The search took too long", f"{detail} Try a lower effort, or once more.", 1)
        case UnauthorizedError():
            return Problem(401, "A key is needed", detail)
        case ForbiddenError():
            return Problem(403, "This is not allowed", detail)
        case UnknownDocumentError():
            return Problem(404, "There is no such document", detail)
        case LockedError():
            return Problem(503, "Another program is changing the knowledge base", detail, 5)
        case StorageFullError():
            return Problem(507, "The disk is full", detail)
        case CorruptError():
            return Problem(500, "The knowledge base is damaged", detail)
        case StateError():
            return Problem(503, "The knowledge base cannot be used right now", detail, 5)
        case UsageError():
            return Problem(400, "That cannot be asked", detail)
        case _:
            return Problem(500, "Something went wrong", "The service's log says what. Try again in a moment.")


def kb_problem(error: KBError) -> Response:
    """Return the page of an error that kbengine can name."""
    return problem_page(problem_of(error))


def http_problem(error: HTTPException) -> Response:
    """Return the page of an HTTP error; redirects and the like pass through."""
    status = error.code or 500
    if status < 400:
        return make_response(error.get_response())
    title, detail = _MESSAGES.get(status, (error.name, "Start again from the search page."))
    return problem_page(Problem(status, title, detail))


def problem_page(problem: Problem) -> Response:
    """Return the page that tells the problem, with its HTTP status."""
    again = request.full_path.rstrip("?") if request.method == "GET" and problem.retry_after_s is not None else None
    response = make_response(render_template("page/problem.html", problem=problem, again=again), problem.status)
    if problem.retry_after_s is not None:
        response.headers["Retry-After"] = str(problem.retry_after_s)
    return response


def _sentence(message: str) -> str:
    """Return the message as a sentence."""
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?")) else text + "."
