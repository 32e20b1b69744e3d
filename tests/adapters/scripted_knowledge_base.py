"""A knowledge base of prepared places: scores, units and depths as the real search treats them, without vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kbengine.corpus.span import Span
from kbengine.errors import EmptyQueryError
from kbengine.search.query import Query
from kbengine.search.results import DocumentRef, Hit, PassageRef, ScoreParts, SearchResult
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

    def score(self, query: Query) -> float:
        """The weighted score."""
        weights = query.weights
        of_phrase = self.start + weights.sparse * self.sparse
        return weights.phrase * of_phrase + weights.passage * self.passage + weights.lexical * self.lexical


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

    def encoder_for(self, name: str | None = None) -> Any:
        return self.encoder if name is None else SimpleNamespace(fingerprint=name * 8)

    def setting(self, key: str) -> Any:
        return self.settings.get(key)

    def set_setting(self, key: str, value: Any) -> None:
        self.settings[key] = value
        self.generation += 1

    def search(self, queries: Sequence[Query], *, k: int, unit: Any = None, **options: Any) -> list[SearchResult]:
        """Places ranked by the query's weights, the best of each unit, `k` of them; `asked` is told how many and k."""
        for i, query in enumerate(queries):
            if text_of(query) == UNASKABLE:
                raise EmptyQueryError(f"query {i}: text has no visible character; give its text")
        self.asked.append((len(queries), k))
        results = [self._result(query, unit or query.unit, k) for query in queries]
        self.on_search()
        return results

    def _result(self, query: Query, unit: str, k: int) -> SearchResult:
        places = sorted(self._script(text_of(query)), key=lambda place: -place.score(query))
        if unit in ("passage", "document"):
            key = (lambda p: (p.page, p.text)) if unit == "passage" else (lambda p: p.page)
            places = list({key(place): place for place in reversed(places)}.values())[::-1]
            places.sort(key=lambda place: -place.score(query))
        hits = tuple(_hit(rank, unit, place, query) for rank, place in enumerate(places[:k], start=1))
        return SearchResult(hits, self.generation, self.encoder.fingerprint, 5, False, {"total": 1.0})


def _hit(rank: int, unit: Any, place: Place, query: Query) -> Hit:
    start = place.text.index(place.phrase)
    phrase = Span(start, start + len(place.phrase))
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
        ),
    )
