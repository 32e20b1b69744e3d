"""The answers of the search page as JSON: the address of a search with another path gives the API's answer."""

from __future__ import annotations

from flask import Blueprint, Response, request

from web.api.queries import answer_query
from web.models.queries import TASK_QUERIES
from web.page.search_form import read_form

PATH = "/answers.json"

# Not the page's blueprint: what goes wrong is told as the API does.
json_answers = Blueprint("json_answers", __name__)


@json_answers.get(PATH)
def answers() -> Response:
    """Return what the API answers to the request that the page shows as curl.

    Raises:
        TaskInputError: the address holds something that cannot be asked.
        ValidationError: what is asked does not follow the API's schema.
    """
    form = read_form(request.args)
    return answer_query(TASK_QUERIES[form.task].model_validate(form.body()))
