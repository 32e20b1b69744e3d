"""/rel: a text in, its mentions and entities out, as REL's API has them."""

from __future__ import annotations

from typing import Any

from apiflask import APIBlueprint
from flask import Response

from kbengine.errors import TaskInputError
from kbengine.span import Span
from web import limits
from web.endings import ASKS, may_end_in
from web.guards import JSON_TYPES, access, body
from web.linkers.linking import Linked, found_links, given_links
from web.models.linkers import RelQuery
from web.responses import json_response
from web.service import current_service

rel = APIBlueprint("rel", __name__, url_prefix="/rel", tag="Linkers")

UP = {"schemaVersion": 1, "label": "status", "message": "up", "color": "green"}
"""What REL's own service answers, as badges want it."""
NO_TAG = "NULL"
LINKS: dict[int | str, Any] = {
    200: {
        "description": "Start, length, mention, entity (a title), two confidences and a tag of each link.",
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "array"}}}},
    }
}
STATUS: dict[int | str, Any] = {
    200: {"description": "It is up.", "content": {"application/json": {"schema": {"type": "object"}}}}
}


@rel.get("")
@rel.doc(responses=STATUS)
@access("public")
def rel_status() -> Response:
    """Tell that the service is up, as REL's does."""
    return json_response(UP)


@rel.post("")
@rel.input(RelQuery)
@rel.doc(responses=LINKS)
@body(*JSON_TYPES, max_bytes=limits.BULK_BODY_BYTES)
@may_end_in(of=ASKS)
@access("read")
def link_text(json_data: RelQuery) -> Response:
    """Link a text as REL does.

    Without `spans` its mentions are found; with them those are linked. What has no link is left out.
    """
    service, text = current_service(), json_data.text
    if not text.strip():
        return json_response([])
    deadline = service.deadline()
    places = json_data.places()
    if not places:
        return json_response([_row(text, each, detected=True) for each in found_links(service, text, deadline)])
    spans = [_span(text, start, length) for start, length in places]
    service.bulk.take()
    try:
        links = given_links(service, text, spans, deadline)
    finally:
        service.bulk.give_back()
    return json_response([_row(text, each, detected=False) for each in links if each.document is not None])


def _span(text: str, start: int, length: int) -> Span:
    if start < 0 or length < 1 or start + length > len(text):
        raise TaskInputError(
            f"a span has start {start} and length {length}, wanted a mention within the {len(text)} characters of text"
        )
    return Span(start, start + length)


def _row(text: str, link: Linked, *, detected: bool) -> list[Any]:
    """Return a link as REL writes it: of a mention that was given, nothing was detected."""
    assert link.document is not None
    start, end = link.span.start, link.span.end
    title = (link.document.title or link.document.doc_id).replace(" ", "_")
    probability = 0.0 if link.probability is None else link.probability
    return [start, end - start, text[start:end], title, probability, probability if detected else 0.0, NO_TAG]
