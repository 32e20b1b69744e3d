"""Errors as pages: what happened, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from flask import Response, make_response, render_template, request
from werkzeug.exceptions import HTTPException

from storage.errors import KBError
from web.error_handlers import log_error
from web.problems import Problem as ApiProblem
from web.problems import http_problem as api_http_problem
from web.problems import problem_of as api_problem_of
from web.responses import problem_response
from web.service import current_service

_TITLES = {
    400: "That cannot be asked",
    401: "A key is needed",
    403: "This is not allowed",
    404: "There is no such page",
    405: "This page cannot be asked that way",
    409: "There is such a document already",
    413: "That is too large",
    414: "The address is too long",
    415: "This kind of data is not read here",
    422: "That was sent before, as something else",
    429: "Too many searches at once",
    503: "The knowledge base cannot be used right now",
    504: "The search took too long",
    507: "The disk is full",
}
_OWN_TITLES = {
    "unknown_document": "There is no such document",
    "locked": "Another program is changing the knowledge base",
    "stopping": "The service is stopping",
}
_ADVICE = {
    400: "Go back and change what was asked.",
    401: "The browser asks for it: any user name, and the key as the password.",
    403: "Open the page itself and send the form from there, with a key that may change the knowledge base.",
    404: "Check the address, or start again from the search page.",
    405: "Start again from the search page.",
    413: "Send fewer or smaller files; add large collections with 'kbengine add'.",
    414: "Send the text through the form of the search page.",
    429: "Nothing was begun. Try again in a moment.",
    500: "Try again. If it happens again, the service's log says what.",
    503: "Try again in a moment; the status page says more.",
    504: "Try again, with a lower effort or fewer answers.",
    507: "Nothing was changed. Make room on the disk, then try again.",
}
_RETRIED = frozenset((429, 500, 503, 504))


@dataclass(frozen=True)
class Problem:
    """What a reader is told: a title, the details, what to do, and when trying again may help."""

    status: int
    title: str
    detail: str
    advice: str
    retry_after_s: int | None = None


def problem_of(error: KBError) -> Problem:
    """Return what a reader is told about the error; the status is the one that the API answers."""
    found = api_problem_of(error, private=str(current_service().engine.knowledge_base.path))
    return _told(found, _OWN_TITLES.get(found.code))


def kb_problem(error: KBError) -> Response:
    """Return the page of an error that kbengine can name."""
    problem = problem_of(error)
    if problem.status >= 500:
        log_error(error, "failed")
    return problem_page(problem)


def unexpected_problem(error: Exception) -> Response:
    """Return the page of an error that nobody foresaw; the log says more than the page."""
    log_error(error, "crashed")
    return problem_page(_told(api_http_problem(500), None))


def http_problem(error: HTTPException) -> Response:
    """Return the page of an HTTP error; redirects and the like pass through."""
    if error.code is None or error.code < 400:
        return make_response(error.get_response())
    return problem_page(_told(api_http_problem(error.code), None))


def unknown_address(error: HTTPException) -> Response:
    """Return a page for browsers, and the API's problem document for programs."""
    if request.accept_mimetypes.best_match(("application/json", "text/html")) == "text/html":
        return http_problem(error)
    return problem_response(api_http_problem(404))


def problem_page(problem: Problem) -> Response:
    """Return the page that tells the problem, with its HTTP status."""
    again = request.full_path.rstrip("?") if request.method == "GET" and problem.status in _RETRIED else None
    response = make_response(render_template("page/problem.html", problem=problem, again=again), problem.status)
    if problem.retry_after_s is not None:
        response.headers["Retry-After"] = str(problem.retry_after_s)
    if problem.status == 401:
        # What makes a browser ask: the key goes in the password field, no cookie is needed.
        response.headers["WWW-Authenticate"] = 'Basic realm="kbengine: any name, the key as password", charset="UTF-8"'
    return response


def _told(found: ApiProblem, title: str | None) -> Problem:
    retry_after = found.headers.get("Retry-After")
    detail = found.detail[:1].upper() + found.detail[1:]
    return Problem(
        found.status,
        title or _TITLES.get(found.status, "Something went wrong"),
        detail if detail.endswith((".", "!", "?")) else f"{detail}.",
        _ADVICE.get(found.status, "Start again from the search page."),
        None if retry_after is None else int(retry_after),
    )
