"""Several answers in one response, each with its own status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flask import Response

from storage.errors import KBError
from web.error_handlers import log_error
from web.errors import DeadlineError
from web.problems import http_problem, problem_of
from web.request_context import current_request
from web.responses import json_response
from web.service import Reply, current_service


def batch_response(ids: Sequence[str], outcomes: Sequence[Reply | Exception]) -> Response:
    """Return the outcomes under their ids, in order, as one body."""
    items = [_item(item_id, outcome) for item_id, outcome in zip(ids, outcomes, strict=True)]
    context = current_request()
    context.facts["queries"] = len(items)
    context.facts["failed"] = sum(isinstance(outcome, Exception) for outcome in outcomes)
    partial = any(isinstance(outcome, DeadlineError) for outcome in outcomes)
    return json_response({"items": items, "partial": partial})


def _item(item_id: str, outcome: Reply | Exception) -> dict[str, Any]:
    if isinstance(outcome, Reply):
        return {"id": item_id, "status": 200, "answer": outcome.body}
    service, context = current_service(), current_request()
    if isinstance(outcome, KBError):
        problem = problem_of(outcome, private=str(service.engine.knowledge_base.path))
    else:
        problem = http_problem(500)
    if problem.status >= 500 and not isinstance(outcome, DeadlineError):
        log_error(outcome, "failed")
    return {"id": item_id, "status": problem.status, "problem": problem.to_json(context.request_id)}
