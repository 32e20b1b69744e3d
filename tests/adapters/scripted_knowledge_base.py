"""A knowledge base of prepared places: scores, units and depths as the real search treats them, without vectors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbengine.errors import EmptyQueryError
from kbengine.search.boundaries import trimmed_span
from kbengine.search.query import Query, SearchOptions
from kbengine.search.results import DocumentRef, Hit, PassageRef, ScoreParts, SearchResult
from kbengine.span import Span
from tests.adapters.fake_knowledge_base import UNASKABLE, text_of


@dataclass(frozen=True)
class Place:
    """A phrase of a passage with the unweighted parts of its score; `text` is the passage, the phrase is in it once."""

    phrase: str
    text: str
    page: str
    start: float = 0.0
    passage: float = 0.0
    lexical: float = 0.0
    passage_id: int = 1
    sparse: float = 0.0
    name: float = 0.0

    def score(self, query: Query) -> float:
        """The weighted score."""
        weights = query.weights
        of_phrase = self.start + weights.sparse * self.sparse
        return (
            weights.phrase * of_phrase
            + weights.passage * self.passage
            + weights.lexical * self.lexical
            + weights.name * self.name
        )


class ScriptedKnowledgeBase:
    """Answers each query with the places that its text is scripted to have; remembers what it was asked for."""

    def __init__(
        self, script: Callable[[str], Sequence[Place]], *, fingerprint: str = "f" * 64, sparse: bool = False
    ) -> None:
        self.path = Path("scripted-kb")
        self.encoder = SimpleNamespace(fingerprint=fingerprint)
        self.generation = 1
        self.settings: dict[str, Any] = {}
        self.asked: list[tuple[int, int]] = []
        self.on_search: Callable[[], None] = lambda: None
        self._script = script
        self._sparse = sparse

    def has_sparse(self, encoder: str | None = None) -> bool:
        return self._sparse

    def encoder_for(self, name: str | None = None, *, task: Any = None) -> Any:
        return self.encoder if name is None else SimpleNamespace(fingerprint=name * 8)

    def encoder_name(self, name: str | None = None, *, task: Any = None) -> str | None:
        return name

    is_read_by_default = False

    def alias_matches(self, name: str) -> list[Any]:
        return []

    def setting(self, key: str) -> Any:
        return self.settings.get(key)

    def set_setting(self, key: str, value: Any) -> None:
        self.settings[key] = value
        self.generation += 1

    def search(
        self, queries: Sequence[Query], options: SearchOptions | None = None, *, key_of: Any = None, **changes: Any
    ) -> list[SearchResult]:
        """Places ranked by the query's weights, the best of each unit; `asked` is told how many queries and k."""
        options = replace(options or SearchOptions(), **changes)
        for i, query in enumerate(queries):
            if text_of(query) == UNASKABLE:
                raise EmptyQueryError(f"query {i}: text has no visible character; give its text")
        self.asked.append((len(queries), options.k))
        results = [
            self._result(query, options.unit or query.unit, options.k, key_of and functools.partial(key_of, i))
            for i, query in enumerate(queries)
        ]
        self.on_search()
        return results

    def _result(self, query: Query, unit: str, k: int, key_of: Callable[[Hit], Any] | None) -> SearchResult:
        places = sorted(self._script(text_of(query)), key=lambda place: -place.score(query))
        if unit in ("passage", "document"):
            key = (lambda p: (p.page, p.text)) if unit == "passage" else (lambda p: p.page)
            places = list({key(place): place for place in reversed(places)}.values())[::-1]
            places.sort(key=lambda place: -place.score(query))
        found = [_hit(rank, unit, place, query) for rank, place in enumerate(places, start=1)]
        hits, ends = (found[:k], [min(k, len(found))]) if key_of is None else _rounds(found, k, key_of)
        return SearchResult(
            tuple(hits), self.generation, self.encoder.fingerprint, 5, False, {"total": 1.0}, tuple(ends)
        )


def _rounds(found: Sequence[Hit], k: int, key_of: Callable[[Hit], Any]) -> tuple[list[Hit], list[int]]:
    """Hits in rounds of 50 places, 200, 800 and 1,000, until k keys are there."""
    hits: list[Hit] = []
    ends: list[int] = []
    known: set[Any] = set()
    begin = 0
    for n_places in (50, 200, 800, 1000):
        keyed = [(key_of(hit), hit) for hit in found[begin:n_places]]
        hits += [hit for key, hit in keyed if key is not None and key not in known]
        known |= {key for key, _ in keyed} - {None}
        ends.append(len(hits))
        begin = n_places
        if len(known) >= k or n_places >= len(found):
            break
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1)], ends


def _hit(rank: int, unit: Any, place: Place, query: Query) -> Hit:
    start = place.text.index(place.phrase)
    phrase = trimmed_span(place.text, Span(start, start + len(place.phrase)))
    weights = query.weights
    return Hit(
        rank=rank,
        unit=unit,
        text=place.page if unit == "document" else place.phrase if unit == "phrase" else place.text,
        score=place.score(query),
        document=DocumentRef(place.page.casefold(), place.page, None),
        passage=PassageRef(place.passage_id, 1, place.text),
        span=phrase if unit == "phrase" else Span(0, len(place.text)),
        phrase=phrase,
        first_token_id=0,
        last_token_id=0,
        parts=ScoreParts(
            weights.phrase * place.start,
            0.0,
            weights.passage * place.passage,
            weights.lexical * place.lexical,
            weights.phrase * weights.sparse * place.sparse,
            weights.name * place.name,
        ),
    )
