"""POST /v1/question, /slot-filling, /entity-linking, /dialogue and /search: one query, one answer envelope."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from apiflask import APIBlueprint
from flask import Response
from pydantic import BaseModel

from web.api.outcomes import batch_response
from web.endings import ASKS, may_end_in
from web.guards import JSON_TYPES, access, body
from web.models.answers import AnswerEnvelope, LinkingAnswer
from web.models.queries import (
    DialogueQuery,
    EntityLinkingQuery,
    Options,
    QuestionQuery,
    SearchQuery,
    SlotFillingQuery,
    TaskQuery,
)
from web.responses import json_response, not_modified, tagged
from web.service import current_service

V = TypeVar("V", bound=Callable[..., Any])

queries = APIBlueprint("queries", __name__, url_prefix="/v1", tag="Queries")


def _route(path: str, read: type[Options], answered: type[BaseModel] = AnswerEnvelope) -> Callable[[V], V]:
    """Return a decorator for the view of one kind of query, with the models of its body and of its answer."""

    def mark(view: V) -> V:
        return queries.post(path)(
            queries.input(read)(
                queries.output(answered)(body(*JSON_TYPES)(may_end_in(404, of=ASKS)(access("read")(view))))
            )
        )

    return mark


@_route("/question", QuestionQuery)
def question(json_data: QuestionQuery) -> Response:
    """Answer a question.

    Phrases of the knowledge base, best first, each with the places that speak for it.
    """
    return answer_query(json_data)


@_route("/slot-filling", SlotFillingQuery)
def slot_filling(json_data: SlotFillingQuery) -> Response:
    """Find the objects of a subject's relation."""
    return answer_query(json_data)


@_route("/entity-linking", EntityLinkingQuery, LinkingAnswer)
def entity_linking(json_data: EntityLinkingQuery) -> Response:
    """Find the document that a mention means.

    One mention, at `span` or marked in the text, has one answer; several at `spans` are answered like a batch whose
    ids are their places in the list.
    """
    return answer_query(json_data)


@_route("/dialogue", DialogueQuery)
def dialogue(json_data: DialogueQuery) -> Response:
    """Find what grounds the next turn of a conversation."""
    return answer_query(json_data)


@_route("/search", SearchQuery)
def search(json_data: SearchQuery) -> Response:
    """Search for any text."""
    return answer_query(json_data)


def answer_query(query: TaskQuery | SearchQuery) -> Response:
    """Return the answer, or 304 when the caller has it already; of several mentions the answers of a batch."""
    service = current_service()
    if isinstance(query, EntityLinkingQuery) and query.spans is not None:
        shared = query.options()
        asked = [(each, shared) for each in query.requests()]
        outcomes = service.ask_each(asked, service.deadline(query.deadline_ms))
        return batch_response([str(i) for i in range(len(asked))], outcomes)
    deadline, request, options = service.deadline(query.deadline_ms), query.request(), query.options()
    tag = service.tag(request, options)
    known = not_modified(tag)
    if known is not None:
        return known
    reply = service.ask(request, options, deadline, tag)
    return tagged(json_response(reply.data), reply.tag)
