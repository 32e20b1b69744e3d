"""The page of one entity: its card with a permalink, each value linked to its marked phrase, and what is near it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from flask import Response, make_response, render_template, request

from adapters.profiles.card import Edge, EntityRef, Fact, FactValue, Profile
from storage.errors import UsageError
from web import limits
from web.guards import access
from web.page.answer_view import marked_address, safe_source
from web.page.passages import Piece, sentence_pieces
from web.page.problems import problem_of
from web.profiling import profiler_of
from web.request_context import page_root
from web.service import current_service

ROW = 36
"""Height of a row of the picture."""
WIDTH = 720
MIDDLE = WIDTH // 2
NODE_X = (200, WIDTH - 200)
SHOWN_NAMES = 12
_LABEL_CHARS = 26
_MIDDLE_CHARS = 20


@dataclass(frozen=True)
class ShownValue:
    """One value as the page shows it: where it is marked, its sentence in pieces, and its own card's address."""

    value: FactValue
    address: str
    entity_address: str | None
    sentence: tuple[Piece, ...]


@dataclass(frozen=True)
class ShownFact:
    """One relation with its values."""

    fact: Fact
    values: tuple[ShownValue, ...]


@dataclass(frozen=True)
class Node:
    """A related entity in the picture: where it is, and on which side of it its name stands."""

    x: int
    y: int
    text_x: int
    anchor: str
    label: str
    relation: str
    address: str


@dataclass(frozen=True)
class Picture:
    """The entity in the middle, others in two columns beside it."""

    width: int
    height: int
    middle_x: int
    middle_y: int
    label: str
    nodes: tuple[Node, ...]


@access("read")
def entity() -> Response:
    """Return the card of what the address names, what its name can mean, or the empty form."""
    service = current_service()
    name, doc_id = request.args.get("name", "").strip(), request.args.get("id", "")
    if not name and not doc_id:
        return _page({})
    try:
        if len(name) > limits.TITLE_CHARS:
            raise UsageError(f"the name has {len(name):,} characters, at most {limits.TITLE_CHARS:,} are taken")
        profiler = profiler_of(service, service.deadline())
        card = profiler.profile_of(doc_id) if doc_id else profiler.profile(name)
    except UsageError as error:
        problem = problem_of(error)
        return _page({"name": name or doc_id, "problem": problem}, problem.status)
    return _page(_card(card))


def entity_address(doc_id: str) -> str:
    """Return the permalink of an entity's card."""
    return f"{page_root()}/entity?{urlencode({'id': doc_id})}"


def picture(title: str, related: Sequence[Edge]) -> Picture | None:
    """Return the picture of what is near an entity: answers on the right, links on the left; None without any."""
    if not related:
        return None
    right = [each for each in related if each.kind == "answer"]
    left = [each for each in related if each.kind != "answer"]
    if not right or not left:  # one kind alone goes to both sides
        right, left = list(related)[::2], list(related)[1::2]
    height = ROW * max(len(left), len(right), 2)
    nodes = [
        _node(each, x, round(height * (row + 0.5) / len(side)))
        for x, side in zip(NODE_X, (left, right), strict=True)
        for row, each in enumerate(side)
    ]
    return Picture(WIDTH, height, MIDDLE, height // 2, _short(title, _MIDDLE_CHARS), tuple(nodes))


def _node(edge: Edge, x: int, y: int) -> Node:
    is_right = x > MIDDLE
    label = _short(edge.entity.title or edge.entity.doc_id, _LABEL_CHARS)
    text_x, anchor = (x + 12, "start") if is_right else (x - 12, "end")
    return Node(x, y, text_x, anchor, label, edge.label, entity_address(edge.entity.doc_id))


def _short(text: str, n_chars: int) -> str:
    return text if len(text) <= n_chars else text[: n_chars - 1].rstrip() + "…"


def _card(card: Profile) -> dict[str, Any]:
    entity = card.entity
    return {
        "name": card.name,
        "card": card,
        "source": None if entity is None else safe_source(entity.url),
        "address": None if entity is None else entity_address(entity.doc_id),
        "facts": [ShownFact(fact, tuple(map(_value, fact.values))) for fact in card.facts],
        "names": [each.name for each in card.names[:SHOWN_NAMES]],
        "picture": None if entity is None else picture(entity.title or entity.doc_id, card.related),
        "related": [(each, entity_address(each.entity.doc_id)) for each in card.related],
        "choices": [(each, entity_address(each.doc_id)) for each in card.choices],
    }


def _value(value: FactValue) -> ShownValue:
    place = value.evidence
    linked: EntityRef | None = value.entity
    return ShownValue(
        value,
        marked_address(place.document.doc_id, place.passage, place.span),
        None if linked is None else entity_address(linked.doc_id),
        sentence_pieces(place.passage.text, mark=place.span, sentence=place.sentence),
    )


def _page(values: dict[str, Any], status: int = 200) -> Response:
    defaults = {
        "section": "page.entity",
        "name": "",
        "card": None,
        "problem": None,
        "max_name": limits.TITLE_CHARS,
    }
    return make_response(render_template("page/entity.html", **{**defaults, **values}), status)
