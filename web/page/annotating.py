"""The page that annotates: a pasted text shows its links, and below it a line for each mention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flask import Response, make_response, render_template, request

from adapters.annotating.annotator import AnnotateOptions
from adapters.annotating.linked import Annotation
from storage.errors import UsageError
from web import limits
from web.annotating import annotator_of
from web.guards import FORM_TYPES, access, body
from web.page.answer_view import document_address
from web.page.problems import problem_of
from web.service import current_service

EXAMPLE = "Marie Curie was born in Warsaw and worked in Paris."


@dataclass(frozen=True)
class MarkedText:
    """Consecutive characters of the text; those of a mention have its number and, with a link, the title."""

    text: str
    number: int | None = None
    title: str | None = None


@dataclass(frozen=True)
class MentionLine:
    """One mention as the page lists it: its candidates with the addresses of their documents."""

    number: int
    annotation: Annotation
    candidates: tuple[tuple[str, str, float], ...]


def annotate() -> Response:
    """Return the empty form."""
    return _page({})


@access("read")
@body(*FORM_TYPES)
def annotate_text() -> Response:
    """Return the posted text with its mentions linked, or what is wrong with it."""
    service = current_service()
    text = request.form.get("text", "").replace("\r\n", "\n")
    asked = {"text": text, "threshold": request.form.get("threshold", "")}
    try:
        options = AnnotateOptions(threshold=_threshold(asked["threshold"]))
        if not text.strip():
            raise UsageError("there is no text; paste one")
        if len(text) > limits.TEXT_CHARS:
            raise UsageError(
                f"the text has {len(text):,} characters, at most {limits.TEXT_CHARS:,} are taken here; "
                "longer ones by 'kbengine annotate' or POST /v1/annotate"
            )
        deadline = service.deadline()
        found = list(annotator_of(service, lambda: deadline).annotate(text, options))
    except UsageError as error:
        problem = problem_of(error)
        return _page({**asked, "problem": problem}, problem.status)
    lines = [_line(number, each) for number, each in enumerate(found, start=1)]
    linked = sum(each.link is not None for each in found)
    return _page({**asked, "pieces": _pieces(text, found), "lines": lines, "linked": linked})


def _threshold(typed: str) -> float:
    if not typed.strip():
        return AnnotateOptions.threshold
    try:
        return float(typed)
    except ValueError:
        raise UsageError(f"the threshold is {typed!r}, wanted a probability from 0 to 1") from None


def _line(number: int, annotation: Annotation) -> MentionLine:
    candidates = tuple(
        (each.title or each.doc_id, document_address(each.doc_id), each.probability) for each in annotation.candidates
    )
    return MentionLine(number, annotation, candidates)


def _pieces(text: str, found: list[Annotation]) -> list[MarkedText]:
    pieces, end = [], 0
    for number, each in enumerate(found, start=1):
        pieces.append(MarkedText(text[end : each.span.start]))
        pieces.append(MarkedText(each.text, number, each.link.title if each.link is not None else None))
        end = each.span.end
    return [*pieces, MarkedText(text[end:])]


def _page(values: dict[str, Any], status: int = 200) -> Response:
    defaults = {
        "section": "page.annotate",
        "text": "",
        "threshold": "",
        "default_threshold": AnnotateOptions.threshold,
        "max_text": limits.TEXT_CHARS,
        "example": EXAMPLE,
        "problem": None,
        "pieces": None,
    }
    return make_response(render_template("page/annotate.html", **{**defaults, **values}), status)
