"""/v1/feedback: what people say about answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import Response

from adapters.tasks.feedback import feedback_on
from kbengine.text_form import input_of
from web.api.commits import committed
from web.endings import CHANGES, READS, may_end_in
from web.guards import JSON_TYPES, access, body
from web.listing import list_feedback as list_said
from web.models.feedback import (
    FeedbackCommitted,
    FeedbackList,
    FeedbackQuery,
    FeedbackToDelete,
    NewFeedbackBody,
)
from web.responses import fields_of, json_response
from web.service import current_service

if TYPE_CHECKING:
    from storage.feedback_rows import FeedbackChange

feedback = APIBlueprint("feedback", __name__, url_prefix="/v1", tag="Feedback")


@feedback.get("/feedback")
@feedback.input(FeedbackQuery, location="query")
@feedback.output(FeedbackList)
@may_end_in(400, of=READS)
@access("write")
def list_feedback(query_data: FeedbackQuery) -> Response:
    """List what people said about answers.

    Oldest first, a page at a time. It tells what others asked, so it needs the right to write.
    """
    kb = current_service().engine.knowledge_base
    page = list_said(kb, query_data.task, query_data.verdict, query_data.limit, query_data.page_token)
    names = ("task", "input", "answer", "verdict", "paragraph", "at")
    listed = [fields_of(record, *names, id="feedback_id", document="doc_id") for record in page.items]
    return json_response({"feedback": listed, "next_page_token": page.next_page_token, "generation": kb.generation})


@feedback.post("/feedback")
@feedback.input(NewFeedbackBody)
@feedback.output(FeedbackCommitted, 201, description="It is durable.")
@body(*JSON_TYPES)
@may_end_in(of=CHANGES)
@access("write")
def add_feedback(json_data: NewFeedbackBody) -> Response:
    """Say that an answer is right or wrong.

    An answer that was not found but is right can be given so, too.
    """
    said = json_data
    answer = {"right": said.answer} if said.verdict == "right" else {"wrong": said.answer}
    new = feedback_on(input_of(said.task, said.input), document=said.document, paragraph=said.paragraph, **answer)
    return committed(current_service().engine.knowledge_base.add_feedback, new, facts=_facts, status=201)


@feedback.post("/feedback:delete")
@feedback.input(FeedbackToDelete)
@feedback.output(FeedbackCommitted, description="It is gone.")
@body(*JSON_TYPES)
@may_end_in(404, of=CHANGES)
@access("write")
def delete_feedback(json_data: FeedbackToDelete) -> Response:
    """Delete what was said about answers."""
    return committed(current_service().engine.knowledge_base.delete_feedback, json_data.ids, facts=_facts)


def _facts(change: FeedbackChange) -> dict[str, Any]:
    return {"ids": list(change.ids)}
