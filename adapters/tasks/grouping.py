"""From hits to distinct answers: phrases with the same normalised string, passages of the same document.

A group's score is that of its best place, so that answers rank as their best phrases do and more places never push a
worse phrase up; how many places agree goes into the answer's probability instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from adapters.tasks.answering import trimmed_span
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


def groups_of(unit: Unit, hits: Iterable[Hit]) -> list[Group]:
    """Return the distinct answers of the unit, best first, from hits of `searched_unit(unit)`, best first.

    Phrases are one answer when they are equal after KILT's normalisation (case, ASCII punctuation and English articles
    do not count); those of nothing but punctuation are left out. Documents are one answer by their id. Sentences and
    passages stay as they are.
    """
    if unit == "phrase":
        return _phrase_groups(hits)
    if unit == "document":
        of_document: dict[str, list[Hit]] = {}
        for hit in hits:
            of_document.setdefault(hit.document.doc_id, []).append(hit)
        return [Group(members[0].document.title, tuple(members)) for members in of_document.values()]
    return [Group(hit.text, (hit,)) for hit in hits]


def _phrase_groups(hits: Iterable[Hit]) -> list[Group]:
    texts: dict[str, list[str]] = {}
    members: dict[str, list[Hit]] = {}
    for hit in hits:
        span = trimmed_span(hit.passage.text, hit.phrase)
        text = hit.passage.text[span.start : span.end]
        if not text:
            continue
        key = norm(text) or text.casefold()  # "The The" and "?!" normalise to nothing
        texts.setdefault(key, []).append(text)
        members.setdefault(key, []).append(hit)
    return [Group(_best_cased(texts[key]), tuple(members[key])) for key in members]


def _best_cased(texts: Sequence[str]) -> str:
    """Return the best place's text in its commonest letter case: "WARSAW" of a headline gives way to "Warsaw" twice."""
    best = texts[0]
    writings = Counter(text for text in texts if text.casefold() == best.casefold())
    commonest = max(writings.values())
    return next(text for text in writings if writings[text] == commonest)
