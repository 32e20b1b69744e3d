"""From hits to distinct answers: phrases with the same normalised string, passages of the same document.

A group's score is that of its best place, so that answers rank as their best phrases do and more places never push a
worse phrase up; how many places agree goes into the answer's probability instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kbengine.corpus.normalise import norm
from kbengine.search.query import Unit
from kbengine.search.results import Hit


@dataclass(frozen=True)
class Group:
    """The places that give one answer, best first (never empty), and its text."""

    text: str
    hits: tuple[Hit, ...]

    @property
    def score(self) -> float:
        """Return the score of the best place."""
        return self.hits[0].score


def searched_unit(unit: Unit) -> Unit:
    """Return the unit to search for: a document's passages, so that it comes with several; else the unit itself."""
    return "passage" if unit == "document" else unit


def answer_key(unit: Unit, hit: Hit) -> str | None:
    """Return what hits of `searched_unit(unit)` that are one answer have in common; None for one that is no answer.

    Phrases are one answer when they are equal after KILT's normalisation (case, ASCII punctuation and English articles
    do not count). Documents are one answer by their id. Sentences and
    passages stay as they are.
    """
    if unit == "phrase":
        text = hit.phrase_text
        return norm(text) or text.casefold() or None  # "The The" and "?!" normalise to nothing
    if unit == "document":
        return hit.document.doc_id
    return f"{hit.passage.passage_id} {hit.span.start} {hit.span.end}"


def groups_of(unit: Unit, hits: Iterable[Hit]) -> list[Group]:
    """Return the distinct answers of the unit, best first, from hits of `searched_unit(unit)`, best first."""
    members: dict[str, list[Hit]] = {}
    for hit in hits:
        key = answer_key(unit, hit)
        if key is not None:
            members.setdefault(key, []).append(hit)
    return [Group(_text(unit, places), tuple(places)) for places in members.values()]


def _text(unit: Unit, places: Sequence[Hit]) -> str:
    if unit == "phrase":
        return _best_cased([hit.phrase_text for hit in places])
    return places[0].document.title if unit == "document" else places[0].text


def _best_cased(texts: Sequence[str]) -> str:
    """Return the best place's text in its commonest letter case: "WARSAW" of a headline gives way to "Warsaw" twice."""
    best = texts[0]
    writings = Counter(text for text in texts if text.casefold() == best.casefold())
    commonest = max(writings.values())
    return next(text for text in writings if writings[text] == commonest)
