"""Searching until there are enough distinct answers: the places of several phrases may all say the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from adapters.tasks.grouping import Group, groups_of, searched_unit
from kbengine.search.query import MAX_K, Effort, Query, Unit

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.search.results import Hit, SearchResult

FIRST_PLACES = 50
"""Places searched for at first: what supports an answer, and what competes with it, is counted among these."""
GROWTH = 4
"""How many times more are searched for while there are too few distinct answers."""
GROUNDING_PASSAGES = 5
"""Passages shown of a document that is an answer."""


@dataclass(frozen=True)
class FindOptions:
    """How to search for answers: how many distinct ones, and what `KnowledgeBase.search` takes."""

    k: int = 10
    effort: Effort = "normal"
    nprobe: int | None = None
    truncate: bool = False
    encoder: str | None = None


@dataclass(frozen=True)
class Found:
    """The distinct answers to one query, best first, at least the k wanted where there are so many."""

    groups: tuple[Group, ...]
    generation: int
    encoder: str
    n_query_tokens: int
    truncated: bool
    timings_ms: Mapping[str, float] = field(default_factory=dict)


def find(knowledge_base: KnowledgeBase, queries: Sequence[Query], options: FindOptions) -> list[Found]:
    """Return the distinct answers to each query, in order; each is what the query would get alone.

    Answers are of the query's own unit. A query with too few distinct ones among its first places is searched again
    for more of them, up to `MAX_K` places. Timings are those of the whole call.

    Raises:
        QueryError: a query is empty or too long; its place is that in `queries`.
    """
    searched = [_searched(query) for query in queries]
    found: dict[int, Found] = {}
    open_places = list(range(len(queries)))
    n_places = FIRST_PLACES
    timings: dict[str, float] = {}
    while open_places:
        results = knowledge_base.search(
            [searched[i] for i in open_places],
            k=n_places,
            effort=options.effort,
            nprobe=options.nprobe,
            explain=True,
            truncate=options.truncate,
            encoder=options.encoder,
        )
        for name, value in results[0].timings_ms.items():
            timings[name] = timings.get(name, 0.0) + value
        for i, result in zip(open_places, results, strict=True):
            found[i] = _found(queries[i].unit, result, timings)
        n_results = {i: len(result.hits) for i, result in zip(open_places, results, strict=True)}
        open_places = [i for i in open_places if len(found[i].groups) < options.k and n_results[i] >= n_places]
        if n_places == MAX_K:
            break
        n_places = min(GROWTH * n_places, MAX_K)
    return [found[i] for i in range(len(queries))]


def shown_hits(unit: Unit, group: Group) -> tuple[Hit, ...]:
    """Return the places of an answer that are shown as its evidence: all of a phrase's, the best of a document's."""
    return group.hits[:GROUNDING_PASSAGES] if unit == "document" else group.hits


def _searched(query: Query) -> Query:
    return replace(query, unit=searched_unit(query.unit))


def _found(unit: Unit, result: SearchResult, timings: Mapping[str, float]) -> Found:
    return Found(
        groups=tuple(groups_of(unit, result.hits)),
        generation=result.generation,
        encoder=result.encoder,
        n_query_tokens=result.n_query_tokens,
        truncated=result.truncated,
        timings_ms=timings,  # one mapping for the whole call: it is complete when the call returns
    )
