"""The search page: the form of each task, the answers, and two settings side by side."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flask import Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from adapters.tasks.defaults import DEFAULT_UNITS
from adapters.tasks.relations import RelationTable
from kbengine.inputs import Mention, Task
from kbengine.search.query import EFFORTS, MAX_K, MAX_READ, UNITS, Strategy
from storage.errors import UsageError
from web import limits
from web.guards import FORM_TYPES, access, body
from web.page.answer_tools import list_tools
from web.page.answer_view import AnswerList, answer_list, timing_bars
from web.page.as_code import curl_code, python_code
from web.page.json_answers import PATH
from web.page.judging import JudgedInput, judged_input
from web.page.marked_text import marked_text
from web.page.page_state import current_page_state
from web.page.passages import Piece, marked_pieces
from web.page.problems import problem_of
from web.page.search_form import SearchForm, read_form
from web.request_context import page_root
from web.service import Service, current_service

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput

TASK_NAMES: dict[Task, str] = {
    "question": "Question",
    "slot-filling": "Relation",
    "entity-linking": "Entity",
    "dialogue": "Dialogue",
}
HEADLINES: dict[Task, str] = {
    "question": "Ask a question",
    "slot-filling": "Complete a relation",
    "entity-linking": "Link a name",
    "dialogue": "Ground a dialogue",
}
TEACHING: dict[Task, str] = {
    "question": "Phrases, each marked in the sentence it was read from, with the paragraph and the characters where "
    "it stands. Nothing is generated: every answer is a quotation.",
    "slot-filling": "What stands in the relation to the subject: the phrase, marked in the sentence that says so.",
    "entity-linking": "The document that a name in your text means, and the passage that speaks for it.",
    "dialogue": "Documents that the last turn is about, with the sentence that could answer it.",
}
STRATEGY_NAMES: dict[Strategy | None, tuple[str, str]] = {
    None: ("Default", "What this kind of query uses by itself."),
    "dense": ("Dense", "Finds and ranks by meaning alone; words do not count."),
    "dfs": ("Dense first", "Finds by meaning, ranks by meaning and words."),
    "sfs": ("Words first", "Finds by words, ranks by meaning and words."),
    "hybrid": ("Hybrid", "Finds by meaning and by words, ranks by both."),
}
"""What each strategy is called on the page, and what it does, in a line."""
MAX_ADDRESS_CHARS = 7500
"""Longer addresses are refused by the server; such a search is shown, but has no link."""


@dataclass(frozen=True)
class AnswerGroup:
    """The answers to one request; with several mentions each has its own."""

    name: str
    answers: AnswerList
    judged: JudgedInput


@dataclass(frozen=True)
class LinkedPiece:
    """Consecutive characters of the asked text; a mention has the id of its answers and its best title."""

    text: str
    target: str | None = None
    entity: str | None = None


def ask() -> Response:
    """Return the search page, with the answers when its address asks for something."""
    return _asked(read_form(request.args))


@access("read")
@body(*FORM_TYPES)
def ask_long() -> BaseResponse:
    """Lead to the address that holds the posted form, or answer at once where that were too long."""
    form = read_form(request.form)
    address = form.address()
    return redirect(address, 303) if len(address) <= MAX_ADDRESS_CHARS else _asked(form)


def _asked(form: SearchForm) -> Response:
    service = current_service()
    values = _form_values(form, service)
    if form.is_empty and not form.problems:
        return _page(values | _examples(form, service))
    try:
        requests, answers = answers_of(form, service, one_more=True)
    except UsageError as error:
        problem = problem_of(error)
        return _page(values | {"problem": problem}, problem.status)
    return _page(values | _results(form, requests, answers, service))


def answers_of(
    form: SearchForm, service: Service, *, one_more: bool = False
) -> tuple[list[TaskInput], list[TaskAnswer]]:
    """Return what the form asks for, one thing or one for each mention, and the answers with the parts of their scores.

    Args:
        form: What is asked.
        service: Who answers.
        one_more: Ask for an answer behind those of the page: it tells whether another page follows.

    Raises:
        TaskInputError: something is missing, too long or too much.
    """
    query = form.query()
    requests = query.requests()
    options = replace(query.options(), explain=True, truncate=True)
    if one_more:
        options = replace(options, k=min(options.k + 1, MAX_K))
    return requests, service.engine.ask(requests, options, service.deadline())


def choices_of(form: SearchForm, service: Service) -> dict[str, Any]:
    """Return what the options of a search may be: value, name and perhaps a line about each."""
    names = service.engine.knowledge_base.encoder_names
    return {
        "units": [(unit, unit.capitalize()) for unit in UNITS],
        "efforts": [(effort, effort.capitalize()) for effort in EFFORTS],
        "strategies": [(strategy or "", *words) for strategy, words in STRATEGY_NAMES.items()],
        "encoders": [("", "Default", ""), *((name, name, "") for name in names)] if len(names) > 1 else [],
        "max_k": limits.K,
        "max_read": MAX_READ,
        "is_calibrated": form.task in service.engine.answerer.calibrations_of_task(form.task).tasks,
    }


def _form_values(form: SearchForm, service: Service) -> dict[str, Any]:
    info = service.engine.info()
    counts = f"{info.documents:,} documents, {info.passages:,} passages, {info.tokens_stored:,} phrase vectors."
    return {
        "section": "page.ask",
        "form": form,
        "task_names": TASK_NAMES,
        "headlines": HEADLINES,
        "teaching": TEACHING,
        **choices_of(form, service),
        "max_text": limits.TEXT_CHARS,
        "relations": RelationTable.load() if form.task == "slot-filling" else (),
        "counts": counts,
        "is_kb_empty": not info.documents,
        "kb_name": info.path.name,
        "defaults": {"unit": DEFAULT_UNITS[form.task], "effort": SearchForm.effort, "k": str(SearchForm.k)},
        "answered": False,
        "problem": None,
    }


def _examples(form: SearchForm, service: Service) -> dict[str, Any]:
    def marked(text: str) -> tuple[Piece, ...]:
        parts = marked_text(text)
        return marked_pieces(parts.text, parts.mentions)

    return {"examples": current_page_state().examples.of(form.task, service.engine.knowledge_base), "marked": marked}


def _results(
    form: SearchForm, requests: list[TaskInput], answers: list[TaskAnswer], service: Service
) -> dict[str, Any]:
    kb_name = service.engine.info().path.name
    names = [one.name if isinstance(one, Mention) else "" for one in requests]
    lists = [answer_list(answer, kb_name=kb_name, shown=form.shown) for answer in answers]
    address, needs_key = form.address(), service.settings.require_key
    return {
        "answered": True,
        "strategy_name": STRATEGY_NAMES[form.strategy][0],
        "groups": [
            AnswerGroup(name, one, judged_input(service.engine.knowledge_base, asked))
            for name, one, asked in zip(names, lists, requests, strict=True)
        ],
        "tools": list_tools(form, lists, service.engine.knowledge_base.reader.field_choices()),
        "linked_text": _linked_text(form, lists),
        "timings": timing_bars(answers),
        "total_ms": max(one.total_ms for one in lists),
        "permalink": address if len(address) <= MAX_ADDRESS_CHARS else None,
        "json_address": form.address(f"{page_root()}{PATH}"),
        "compare_address": form.address(url_for("page.compare")),
        "curl": curl_code(form, request.url_root, needs_key=needs_key),
        "python": python_code(form, request.url_root, needs_key=needs_key),
    }


def _linked_text(form: SearchForm, lists: list[AnswerList]) -> list[LinkedPiece]:
    """Return the asked text with a link at each mention, titled with the best answer; empty for other tasks."""
    if form.task != "entity-linking":
        return []
    marked = marked_text(form.text)
    pieces, end = [], 0
    for number, (span, answers) in enumerate(zip(marked.mentions, lists, strict=True), start=1):
        entity = answers.cards[0].answer.text if answers.answer.status == "answered" and answers.cards else None
        pieces.append(LinkedPiece(marked.text[end : span.start]))
        pieces.append(LinkedPiece(marked.text[span.start : span.end], f"mention-{number}", entity))
        end = span.end
    return [*pieces, LinkedPiece(marked.text[end:])]


def _page(values: dict[str, Any], status: int = 200) -> Response:
    return make_response(render_template("page/ask.html", **values), status)
