"""POST /v1/batch: many queries of any tasks in one request."""

from __future__ import annotations

from typing import Any

from apiflask import APIBlueprint
from flask import Response

from storage.errors import KBError
from web import limits
from web.api.outcomes import batch_response
from web.endings import READS, may_end_in
from web.guards import JSON_TYPES, access, body
from web.models.answers import BatchAnswer
from web.models.queries import BatchQuery
from web.service import Reply, Service, current_service

batch = APIBlueprint("batch", __name__, url_prefix="/v1", tag="Queries")


@batch.post("/batch")
@batch.input(BatchQuery)
@batch.output(BatchAnswer)
@body(*JSON_TYPES, max_bytes=limits.BULK_BODY_BYTES)
@may_end_in(429, of=READS)
@access("read")
def answer_batch(json_data: BatchQuery) -> Response:
    """Answer several queries.

    Each has the answer and the status that it would have alone; the order is kept, and so are the ids.
    """
    service = current_service()
    service.bulk.take()
    try:
        return _answered(service, json_data)
    finally:
        service.bulk.give_back()


def _answered(service: Service, json_data: BatchQuery) -> Response:
    deadline = service.deadline(json_data.deadline_ms)
    outcomes: dict[int, Reply | Exception] = {}
    asked: dict[int, tuple[Any, Any]] = {}
    for i, query in enumerate(json_data.queries):
        try:
            asked[i] = (query.request(), query.options())
        except KBError as error:
            outcomes[i] = error
    outcomes |= zip(asked, service.ask_each(list(asked.values()), deadline), strict=True)
    ids = [str(i) if query.id is None else query.id for i, query in enumerate(json_data.queries)]
    return batch_response(ids, [outcomes[i] for i in range(len(ids))])
