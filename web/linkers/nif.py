"""/nif: NIF documents in Turtle in, the same texts with links out, as GERBIL and ELEVANT ask."""

from __future__ import annotations

from typing import Any

from apiflask import APIBlueprint
from flask import Response, request

from adapters.errors import MissingExtraError, TaskInputError
from adapters.nif.documents import NifContext, NifLink, Uris, read_nif, uri_of, write_nif
from web import limits
from web.deadline import Deadline
from web.endings import ASKS, may_end_in
from web.errors import MediaTypeError
from web.guards import access, body
from web.linkers.linking import Linked, found_links, given_links
from web.models.linkers import NifQuery
from web.problems import http_problem
from web.responses import problem_response
from web.service import Service, current_service

nif = APIBlueprint("nif", __name__, url_prefix="/nif", tag="Linkers")

TURTLE = "application/x-turtle"
OTHER_RDF = ("json", "xml", "html", "n3", "trig", "multipart")
"""In the names of media types that are not Turtle; anything else may be: clients send none, or a form's."""
MAX_CONTEXTS = 64
LINKED: dict[int | str, Any] = {
    200: {"description": "NIF, with the links.", "content": {TURTLE: {"schema": {"type": "string"}}}},
    501: {"description": "The library that reads NIF is not installed where the service runs."},
}


@nif.post("")
@nif.input(NifQuery, location="query")
@nif.doc(responses=LINKED)
@body(max_bytes=limits.QUERY_BODY_BYTES)
@may_end_in(of=ASKS)
@access("read")
def link_nif(query_data: NifQuery) -> Response:
    """Link the texts of a NIF document in Turtle.

    Mentions that are marked in a text are linked; without any they are found. Needs the extra `rdf`.
    """
    if any(word in request.mimetype for word in OTHER_RDF):
        raise MediaTypeError(f"the body's media type is {request.mimetype}, wanted {TURTLE}; send Turtle")
    try:
        contexts = read_nif(request.get_data())
    except MissingExtraError as error:
        return problem_response(http_problem(501, error.message))
    if len(contexts) > MAX_CONTEXTS:
        raise TaskInputError(f"the NIF document holds {len(contexts)} texts, at most {MAX_CONTEXTS} are linked at once")
    service = current_service()
    deadline = service.deadline()
    service.bulk.take()
    try:
        linked = [(each, _links(service, each, query_data, deadline)) for each in contexts]
    finally:
        service.bulk.give_back()
    return Response(write_nif(linked), mimetype=TURTLE)


def _links(service: Service, context: NifContext, asked: NifQuery, deadline: Deadline) -> list[NifLink]:
    if context.spans:
        found = given_links(service, context.text, context.spans, deadline)
    elif context.text.strip():
        found = found_links(service, context.text, deadline, asked.threshold)
    else:
        return []
    return [NifLink(each.span, _uri(each, asked.uris), each.probability) for each in found]


def _uri(link: Linked, uris: Uris) -> str | None:
    if link.document is None:
        return None
    own = f"{request.url_root}document?id="
    document = link.document
    return uri_of(document.doc_id, document.title, document.url, document.meta, uris=uris, own=own)
