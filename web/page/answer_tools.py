"""What stands above and below the answers: their order, fewer of them by field, and the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kbengine.search.query import MAX_K
from web.page.answer_order import ORDERS, SORTED
from web.page.narrowing import NarrowField, narrow_fields, sort_choices

if TYPE_CHECKING:
    from storage.document_listing import FieldChoice
    from web.page.answer_view import AnswerList
    from web.page.search_form import SearchForm


@dataclass(frozen=True)
class ListTools:
    """The tools of a list of answers.

    Attributes:
        summary: Which answers are shown.
        orders: How they can be sorted: value and name.
        narrow: The fields that they can be narrowed by.
        own: What the form asks for, without order and page: names and values.
        previous: The state of the page before; None on the first.
        next: The state of the page after; None on the last.
        first: The state of the first page.
    """

    summary: str
    orders: tuple[tuple[str, str], ...]
    narrow: tuple[NarrowField, ...]
    own: tuple[tuple[str, str], ...]
    previous: SearchForm | None
    next: SearchForm | None
    first: SearchForm


def list_tools(form: SearchForm, lists: Sequence[AnswerList], choices: Sequence[FieldChoice]) -> ListTools:
    """Return the tools of the answers to a form; several mentions have them in common."""
    first = replace(form, page=1)
    n_shown = max((len(each.cards) for each in lists), default=0)
    has_more = any(each.has_more for each in lists) and form.k * (form.page + 1) <= MAX_K
    orders = (*ORDERS, *sort_choices(choices))
    if form.sort and form.sort not in dict(orders):
        orders = (*orders, (form.sort, form.sort))
    return ListTools(
        summary=_summary(form, n_shown, has_more),
        orders=orders,
        narrow=narrow_fields(choices, form.where, lambda where: first.address(where=where)),
        own=tuple(each for each in first.parameters() if each[0] not in ("sort", "page")),
        previous=replace(form, page=form.page - 1) if form.page > 1 else None,
        next=replace(form, page=form.page + 1) if has_more else None,
        first=first,
    )


def _summary(form: SearchForm, n_shown: int, has_more: bool) -> str:
    if not n_shown:
        return "No more answers" if form.page > 1 else "No answers"
    start = (form.page - 1) * form.k + 1
    whole = form.page == 1 and not has_more
    told = (
        ("1 answer" if n_shown == 1 else f"{n_shown:,} answers")
        if whole
        else f"Answers {start:,}–{start + n_shown - 1:,}"
    )
    return f"{told} of the best {SORTED}" if form.sort and not whole else told
