"""The JSON twin of the search page: the address of a search with another path gives the API's answer."""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response, request

from kbengine.errors import TaskInputError
from kbengine.inputs import Task
from web.api.queries import answer_query
from web.models.queries import DialogueQuery, EntityLinkingQuery, QuestionQuery, SlotFillingQuery, TaskQuery
from web.page.as_code import request_body
from web.page.asking import read_asking

PATH = "/answers.json"

# Not the page's blueprint: what goes wrong is told as the API does.
twin = Blueprint("twin", __name__)

_QUERIES: Mapping[Task, type[TaskQuery]] = {
    "question": QuestionQuery,
    "slot-filling": SlotFillingQuery,
    "entity-linking": EntityLinkingQuery,
    "dialogue": DialogueQuery,
}


@twin.get(PATH)
def answers() -> Response:
    """Return what the API answers to the request that the page shows as curl.

    Raises:
        TaskInputError: the address holds something that cannot be asked.
        ValidationError: what is asked does not follow the API's schema.
    """
    asking = read_asking(request.args)
    if asking.problems:
        raise TaskInputError("; ".join(asking.problems))
    return answer_query(_QUERIES[asking.task].model_validate(request_body(asking)))
