"""Two settings side by side: the same request asked twice, and where each answer moved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flask import Response, make_response, redirect, render_template, request, url_for
from werkzeug.datastructures import MultiDict
from werkzeug.wrappers import Response as BaseResponse

from storage.errors import UsageError
from web.page.answer_view import AnswerCard, answer_list
from web.page.problems import problem_of
from web.page.search_form import OPTION_NAMES, SearchForm, read_form
from web.page.searching import answers_of, choices_of
from web.service import Service, current_service

if TYPE_CHECKING:
    from adapters.tasks.answers import TaskAnswer

OTHER_PREFIX = "b_"
"""Names of the other setting's options in the address."""


@dataclass(frozen=True)
class ComparedCard:
    """An answer, and where the other setting has it: its rank there, and how many places it rose from A to B."""

    card: AnswerCard
    other_rank: int | None
    rise: int | None


@dataclass(frozen=True)
class Column:
    """What one setting answers."""

    name: str
    form: SearchForm
    status: str
    total_ms: float
    cards: tuple[ComparedCard, ...]


def compare() -> BaseResponse:
    """Return the page of two settings; without a query, the way to the search page."""
    first = replace(read_form(request.args), sort=None, page=1)
    if first.is_empty:
        return redirect(url_for("page.ask"), 302)
    second = _other(first)
    service = current_service()
    values: dict[str, Any] = {
        "section": "page.ask",
        "first": first,
        "second": second,
        "own": [(name, value) for name, value in first.parameters() if name not in OPTION_NAMES],
        **choices_of(first, service),
        "search_address": first.address(url_for("page.ask")),
        "problem": None,
    }
    try:
        pairs = _columns(first, second, service)
    except UsageError as error:
        problem = problem_of(error)
        return _page(values | {"problem": problem, "pairs": []}, problem.status)
    return _page(values | {"pairs": pairs})


def _other(first: SearchForm) -> SearchForm:
    """Return the other setting: as the address says, by default the first one with the highest effort."""
    parameters = MultiDict([(name, value) for name, value in first.parameters() if name not in OPTION_NAMES])
    given = {name: request.args.get(OTHER_PREFIX + name) for name in OPTION_NAMES}
    if all(value is None for value in given.values()):
        return replace(first, effort="normal" if first.effort == "exact" else "exact")
    parameters.update({name: value for name, value in given.items() if value is not None})
    return read_form(parameters)


def _columns(first: SearchForm, second: SearchForm, service: Service) -> list[tuple[str, Column, Column]]:
    """Return a name and two columns for each request; several mentions are several requests."""
    answers = [answers_of(one, service)[1] for one in (first, second)]
    names = first.mentions if len(first.mentions) > 1 else ("",)
    same_unit = first.shown_unit == second.shown_unit
    return [
        (name, _column("A", first, a, b, same_unit), _column("B", second, b, a, same_unit))
        for name, a, b in zip(names, *answers, strict=True)
    ]


def _column(name: str, form: SearchForm, answer: TaskAnswer, other: TaskAnswer, same_unit: bool) -> Column:
    key: Callable[[AnswerCard], str] = (
        (lambda card: " ".join(card.answer.text.casefold().split())) if same_unit else (lambda card: card.best.doc_id)
    )
    own, others = (answer_list(one, kb_name="") for one in (answer, other))
    ranks: dict[str, int] = {}
    for card in others.cards:
        ranks.setdefault(key(card), card.answer.rank)
    cards = []
    for card in own.cards:
        rank = ranks.get(key(card))
        rise = None if rank is None else (rank - card.answer.rank if name == "B" else card.answer.rank - rank)
        cards.append(ComparedCard(card, rank, rise))
    return Column(name, form, own.answer.status, own.total_ms, tuple(cards))


def _page(values: dict[str, Any], status: int = 200) -> Response:
    return make_response(render_template("page/compare.html", **values), status)
