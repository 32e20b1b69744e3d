"""POST /v1/question, /slot-filling, /entity-linking, /dialogue and /search: one query, one answer envelope."""

from __future__ import annotations

from apiflask import APIBlueprint
from flask import Response

from web.api.outcomes import batch_response
from web.deadline import Deadline
from web.guards import JSON_TYPES, access, body
from web.models.answers import AnswerEnvelope, LinkingAnswer
from web.models.queries import (
    DialogueQuery,
    EntityLinkingQuery,
    QuestionQuery,
    SearchQuery,
    SlotFillingQuery,
    TaskQuery,
)
from web.responses import json_response, not_modified, tagged
from web.service import current_service

queries = APIBlueprint("queries", __name__, url_prefix="/v1", tag="Queries")


@queries.post("/question")
@queries.input(QuestionQuery)
@queries.output(AnswerEnvelope)
@body(*JSON_TYPES)
@access("read")
def question(json_data: QuestionQuery) -> Response:
    """Answer a question.

    Phrases of the knowledge base, best first, each with the places that speak for it.
    """
    return _answer(json_data)


@queries.post("/slot-filling")
@queries.input(SlotFillingQuery)
@queries.output(AnswerEnvelope)
@body(*JSON_TYPES)
@access("read")
def slot_filling(json_data: SlotFillingQuery) -> Response:
    """Find the objects of a subject's relation."""
    return _answer(json_data)


@queries.post("/entity-linking")
@queries.input(EntityLinkingQuery)
@queries.output(LinkingAnswer)
@body(*JSON_TYPES)
@access("read")
def entity_linking(json_data: EntityLinkingQuery) -> Response:
    """Find the document that a mention means.

    One mention, at `span` or marked in the text, has one answer; several at `spans` are answered like a batch whose
    ids are their places in the list.
    """
    if json_data.spans is None:
        return _answer(json_data)
    service = current_service()
    options = json_data.options()
    asked = [(request, options) for request in json_data.requests()]
    outcomes = service.ask_each(asked, service.deadline(json_data.deadline_ms))
    return batch_response([str(i) for i in range(len(asked))], outcomes)


@queries.post("/dialogue")
@queries.input(DialogueQuery)
@queries.output(AnswerEnvelope)
@body(*JSON_TYPES)
@access("read")
def dialogue(json_data: DialogueQuery) -> Response:
    """Find what grounds the next turn of a conversation."""
    return _answer(json_data)


@queries.post("/search")
@queries.input(SearchQuery)
@queries.output(AnswerEnvelope)
@body(*JSON_TYPES)
@access("read")
def search(json_data: SearchQuery) -> Response:
    """Search for any text."""
    return _answer(json_data)


def _answer(query: TaskQuery | SearchQuery) -> Response:
    """Return the answer, or 304 when the caller has it already."""
    service = current_service()
    deadline: Deadline = service.deadline(query.deadline_ms)
    request, options = query.request(), query.options()
    known = not_modified(service.tag(request, options))
    if known is not None:
        return known
    reply = service.ask(request, options, deadline)
    return tagged(json_response(reply.data), reply.tag)
