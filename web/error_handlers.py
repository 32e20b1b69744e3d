"""From every exception to a problem document; what is unexpected is logged, and told to nobody else."""

from __future__ import annotations

from apiflask import APIFlask, HTTPError
from flask import Response
from gunicorn.http.errors import ParseException
from pydantic import ValidationError
from werkzeug.exceptions import ClientDisconnected, HTTPException, MethodNotAllowed

from kbengine.inputs import TASKS
from storage.errors import KBError
from web.errors import BadRequestError
from web.problems import http_problem, invalid_body, json_pointer, problem_of, status_of
from web.request_context import current_request
from web.request_log import error_facts
from web.responses import problem_response
from web.service import current_service

_TASK_TAGS = (*TASKS, "search")


def register_error_handlers(app: APIFlask) -> None:
    """Answer every error of the app with a problem document."""
    app.register_error_handler(KBError, _known)
    app.register_error_handler(HTTPError, _invalid)
    app.register_error_handler(ValidationError, _invalid_model)
    app.register_error_handler(HTTPException, _http)
    app.register_error_handler(ClientDisconnected, cut_body)
    app.register_error_handler(ParseException, cut_body)
    app.register_error_handler(Exception, _unexpected)


def _known(error: KBError) -> Response:
    if status_of(type(error)) >= 500:
        log_error(error, "failed")
    return problem_response(problem_of(error, private=str(current_service().engine.knowledge_base.path)))


def _invalid(error: HTTPError) -> Response:
    """Answer a body or query string that does not follow its schema; the places come from pydantic itself."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return problem_response(http_problem(error.status_code, error.message))
    return _invalid_model(cause)


def _invalid_model(error: ValidationError) -> Response:
    found = [
        {"pointer": json_pointer(each["loc"], _TASK_TAGS), "detail": each["msg"]}
        for each in error.errors(include_url=False, include_context=False, include_input=False)
    ]
    return problem_response(invalid_body(found))


def _http(error: HTTPException) -> Response:
    headers = {}
    if isinstance(error, MethodNotAllowed) and error.valid_methods:
        headers["Allow"] = ", ".join(sorted(error.valid_methods))
    status = error.code or 500
    if error.response is not None or status < 400:
        response = error.get_response()
        assert isinstance(response, Response)
        return response  # a redirect, or a response that was raised
    return problem_response(http_problem(status, headers=headers))


def cut_body(error: Exception) -> Response:
    """Answer a request whose body broke off, stalled or is not framed as HTTP wants it; nothing can follow it."""
    current_request().ends_connection = True
    how = "ends too early or came too slowly" if isinstance(error, ClientDisconnected) else "has malformed chunks"
    return problem_response(problem_of(BadRequestError(f"the body {how}; send it again")))


def _unexpected(error: Exception) -> Response:
    log_error(error, "crashed")
    return problem_response(http_problem(500))


def log_error(error: Exception, event: str) -> None:
    """Log what went wrong in the current request: kinds and places, no messages."""
    current_service().log.error(event, request_id=current_request().request_id, **error_facts(error))
