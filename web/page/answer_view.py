"""Answers as the page shows them: sentences in pieces, scores as bars, evidence as citation and as KILT provenance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from kbengine.span import Span
from storage.field_rows import shown_fields
from web.page.answer_order import Shown
from web.page.passages import Piece, pieces, sentence_pieces
from web.request_context import page_root

if TYPE_CHECKING:
    from adapters.tasks.answers import Answer, Evidence, TaskAnswer
    from kbengine.search.results import PassageRef

PART_NAMES = {
    "start": "how well the phrase's first word fits the query",
    "end": "how well the phrase's last word fits the query",
    "passage": "how close the whole passage is to the query",
    "lexical": "how many of the query's rare words the title and passage share",
    "sparse": "which of the query's words stand around the phrase",
    "name": "how surely the document is called, or the passage says, what is asked about",
    "reader": "what the reader, which read query and passage together, says of this place",
}
"""What each part of a score says, in words."""


ALL_SHOWN = Shown()


@dataclass(frozen=True)
class Bar:
    """One bar of a picture, in percent of its width."""

    name: str
    value: float
    start_percent: float
    width_percent: float
    note: str = ""


@dataclass(frozen=True)
class Place:
    """One place that speaks for an answer; offsets are into the paragraph of the user's document."""

    title: str
    doc_id: str
    section: str | None
    paragraph: int
    start: int
    end: int
    score: float
    source: str | None
    sentence: tuple[Piece, ...]
    passage: tuple[Piece, ...]
    parts: tuple[Bar, ...]
    citation: str
    kilt_json: str
    fields: tuple[tuple[str, str], ...] = ()

    def address_from(self, back: str | None) -> str:
        """Return the address of its document, which then leads back to the search."""
        return _marked(self.doc_id, self.paragraph, self.start, self.end, back)


@dataclass(frozen=True)
class AnswerCard:
    """One answer with its places, best first; what the answer itself says, sentence or title, is not shown again.

    `passage` is the answer in pieces where it is a whole passage, empty otherwise.
    """

    answer: Answer
    passage: tuple[Piece, ...]
    is_long: bool
    shows_sentence: bool
    is_title: bool
    score_percent: float
    best: Place
    others: tuple[Place, ...]


@dataclass(frozen=True)
class AnswerList:
    """The answer to one request with the cards of a page, and how long it took with the time that it waited."""

    answer: TaskAnswer
    cards: tuple[AnswerCard, ...]
    total_ms: float
    has_more: bool = False


def answer_list(answer: TaskAnswer, *, kb_name: str, shown: Shown = ALL_SHOWN) -> AnswerList:
    """Return the answer as shown; scores are drawn against the best one's, on whatever page that is."""
    top = max((one.score for one in answer.answers), default=0.0)
    cards = tuple(_card(one, top, answer.generation, kb_name) for one in shown.of(answer.answers))
    return AnswerList(answer, cards, _total_ms(answer), shown.has_more(len(answer.answers)))


def timing_bars(answers: Sequence[TaskAnswer]) -> tuple[Bar, ...]:
    """Return the stages of the slowest answer side by side; what they leave of the total is 'other'."""
    slowest = max(answers, key=_total_ms)
    stages, total = _stages_ms(slowest), _total_ms(slowest)
    if total <= 0:
        return ()
    if total - sum(stages.values()) >= 0.05:
        stages["other"] = total - sum(stages.values())
    bars, start = [], 0.0
    for name, value in stages.items():
        bars.append(Bar(name, value, round(start, 2), round(100 * value / total, 2)))
        start += 100 * value / total
    return tuple(bars)


def _stages_ms(answer: TaskAnswer) -> dict[str, float]:
    return {name: max(value, 0.0) for name, value in answer.timings_ms.items() if name != "total"}


def _total_ms(answer: TaskAnswer) -> float:
    """Return the time from asking to the answer; the engine's total begins after waiting for a batch."""
    return max(answer.timings_ms.get("total", 0.0), sum(_stages_ms(answer).values()))


def safe_source(url: str | None) -> str | None:
    """Return the address if it is one of the web; None for any other scheme, `javascript:` above all."""
    if not url:
        return None
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    # Browsers drop control characters and blanks inside a scheme, so an address that has any is not shown as a link.
    if parts.scheme.lower() not in ("http", "https") or not parts.netloc or not url.isprintable() or " " in url:
        return None
    return url


def document_address(doc_id: str, paragraph: int | None = None, *, back: str | None = None) -> str:
    """Return the address of the document's own page, at one of its paragraphs, with a way back to a search."""
    parameters = {"id": doc_id} | ({} if back is None else {"back": back})
    return f"{page_root()}/document?{urlencode(parameters)}" + ("" if paragraph is None else f"#p{paragraph}")


def marked_address(doc_id: str, passage: PassageRef, span: Span, *, back: str | None = None) -> str:
    """Return the address of the document's own page with these characters of a passage marked."""
    return _marked(doc_id, passage.ordinal, passage.char_offset + span.start, passage.char_offset + span.end, back)


def _marked(doc_id: str, paragraph: int, start: int, end: int, back: str | None) -> str:
    if start >= end:
        return document_address(doc_id, paragraph, back=back)
    parameters = {"id": doc_id, "mark": f"{paragraph}:{start}-{end}"} | ({} if back is None else {"back": back})
    return f"{page_root()}/document?{urlencode(parameters, safe=':')}#mark"


def _card(answer: Answer, top: float, generation: int, kb_name: str) -> AnswerCard:
    places = tuple(_place(evidence, generation, kb_name) for evidence in answer.evidence)
    is_passage = answer.unit == "passage"
    return AnswerCard(
        answer=answer,
        passage=places[0].passage if is_passage else (),
        is_long=answer.unit in ("sentence", "passage"),
        shows_sentence=not is_passage
        and "".join(piece.text for piece in places[0].sentence).strip() != answer.text.strip(),
        is_title=answer.text == places[0].title,
        score_percent=round(min(max(100 * answer.score / top, 0.0), 100.0), 1) if top > 0 else 0.0,
        best=places[0],
        others=places[1:],
    )


def _place(evidence: Evidence, generation: int, kb_name: str) -> Place:
    passage, document = evidence.passage, evidence.document
    start, end = passage.char_offset + evidence.span.start, passage.char_offset + evidence.span.end
    # A whole passage as the answer would be one large mark; the mark then shows nothing, so there is none.
    whole = evidence.span.end - evidence.span.start >= len(passage.text)
    mark = Span(evidence.span.start, evidence.span.start) if whole else evidence.span
    source = safe_source(document.url)
    citation = f"“{document.title}”, paragraph {passage.ordinal}, characters {start}–{end}. {kb_name}, "
    citation += f"generation {generation}, document {document.doc_id}." + (f" {source}" if source else "")
    return Place(
        title=document.title,
        doc_id=document.doc_id,
        section=passage.section,
        paragraph=passage.ordinal,
        start=start,
        end=end,
        score=evidence.score,
        source=source,
        sentence=sentence_pieces(passage.text, mark=mark, sentence=evidence.sentence),
        passage=pieces(passage.text, mark=mark, sentence=evidence.sentence),
        parts=_part_bars(evidence),
        citation=citation,
        kilt_json=json.dumps(evidence.provenance.to_json(), ensure_ascii=False, indent=2),
        fields=tuple(shown_fields(document.meta)),
    )


def _part_bars(evidence: Evidence) -> tuple[Bar, ...]:
    """Return the parts as a waterfall: each begins where the one before ended, negative ones go back."""
    if evidence.parts is None:
        return ()
    values = {name: float(getattr(evidence.parts, name)) for name in PART_NAMES}
    for name in ("sparse", "name", "reader"):
        if not values[name]:
            del values[name]  # most knowledge bases store no sparse rows; a question has no name; nothing may be read
    edges = [0.0]
    for value in values.values():
        edges.append(edges[-1] + value)
    low, high = min(edges), max(edges)
    scale = 100 / (high - low) if high > low else 0.0
    bars = [
        Bar(name, value, (min(edge, edge + value) - low) * scale, abs(value) * scale, PART_NAMES[name])
        for (name, value), edge in zip(values.items(), edges, strict=False)
    ]
    return tuple(
        replace(bar, start_percent=round(bar.start_percent, 2), width_percent=round(bar.width_percent, 2))
        for bar in bars
    )
