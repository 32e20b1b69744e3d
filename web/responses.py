"""Answers as HTTP responses: JSON, entity tags, problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response, request
from pydantic_core import to_json

from web.problems import MEDIA_TYPE, Problem
from web.request_context import current_request


def fields_of(record: object, *names: str, **renamed: str) -> dict[str, Any]:
    """Return fields of a record as plain values: some under their names, others as `name="attribute"`."""
    return {name: getattr(record, each) for name, each in (*zip(names, names, strict=True), *renamed.items())}


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a response of plain JSON values, or of JSON that is serialised already."""
    data = value if isinstance(value, bytes) else to_json(value)
    return Response(data, status, headers, mimetype="application/json")


def problem_response(problem: Problem) -> Response:
    """Return a problem document."""
    context = current_request()
    context.facts["problem"] = problem.code
    data = to_json(problem.to_json(context.request_id))
    return Response(data, problem.status, dict(problem.headers), content_type=MEDIA_TYPE)


def not_modified(tag: str) -> Response | None:
    """Return 304 when the caller has the answer of this tag already, otherwise None.

    For queries sent by POST too: they change nothing, and their tag names question and answer both.
    """
    if not request.if_none_match.contains_weak(tag):
        return None
    return tagged(Response(status=304), tag)


def tagged(response: Response, tag: str) -> Response:
    """Return the response with its entity tag, a weak one: timings are not part of it. An empty tag is none."""
    if tag:
        response.set_etag(tag, weak=True)
    return response
