"""Retrieving distinct answers: the places of several phrases may all say the same."""

from __future__ import annotations

import functools
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.tasks.confidence import Confidence, Float64, features_of
from adapters.tasks.grouping import Group, answer_key, groups_of, searched_unit
from adapters.tasks.irreflexive import impossible_object
from adapters.tasks.subjects import WantedObject
from kbengine.inputs import Slot, TaskInput
from kbengine.search.query import Query, SearchOptions, Unit

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from kbengine.search.results import Hit, SearchResult

GROUNDING_PASSAGES = 5
"""Passages shown of a document that is an answer."""


@dataclass(frozen=True)
class Retrieved:
    """The distinct answers to one query, best first, at least the k wanted where there are so many.

    Attributes:
        query: What was searched.
        groups: The answers.
        round_ends: How many answers there were at the end of each round of the search.
        result: The places they were found in.
        aliased: Ids of the documents of which the subject or mention is another name.
    """

    query: Query
    groups: tuple[Group, ...]
    round_ends: tuple[int, ...]
    result: SearchResult
    aliased: Set[str] = frozenset()

    def features(self, round_number: int = 0) -> Float64:
        """Return the features of the answers that a round of the search ended with, float64 (n, features)."""
        return self._features[round_number]

    @functools.cached_property
    def _features(self) -> list[Float64]:
        """Return the features of each round: probabilities and the question's own chance are made of the same."""
        return [features_of(self.query, self.query.unit, self.groups[:end], self.aliased) for end in self.round_ends]

    def probabilities(self, confidence: Confidence) -> list[float]:
        """Return how likely each answer is right; those of the first round whatever a further round found."""
        found: list[float] = []
        for number in range(len(self.round_ends)):
            found += confidence.probabilities(self.features(number))[len(found) :]
        return [min(found[: i + 1]) for i in range(len(found))]


def retrieve(
    knowledge_base: KnowledgeBase, asked: Sequence[TaskInput], queries: Sequence[Query], options: SearchOptions
) -> list[Retrieved]:
    """Return the distinct answers to each query, in order; each is what the query would get alone.

    Answers are of the query's own unit. The subject of a slot is none where it cannot be; of a slot asked backwards
    only places where the object stands are answers. Timings are those of the whole call.

    Args:
        knowledge_base: what is searched.
        asked: what each query is made from.
        queries: with the weights and units in force.
        options: how many answers, and what `KnowledgeBase.search` takes; unit, weights and strategy are the queries'.

    Raises:
        QueryError: a query is empty or too long; its place is that in `queries`.
    """
    impossible = [
        impossible_object(each) if query.unit == "phrase" else "" for each, query in zip(asked, queries, strict=True)
    ]

    wanted = [_wanted_object(knowledge_base, each) for each in asked]

    def key_of(place: int, hit: Hit) -> str | None:
        key = answer_key(queries[place].unit, hit)
        is_possible = key != impossible[place] and wanted[place].allows(hit)
        return key if is_possible else None

    results = knowledge_base.search(
        [replace(query, unit=searched_unit(query.unit)) for query in queries],
        replace(options, unit=None, weights=None, strategy=None, explain=True),
        key_of=key_of,
    )
    aliased = [
        frozenset(document.doc_id for name, _ in query.names for document, _ in knowledge_base.alias_matches(name))
        for query in queries
    ]
    return [_retrieved(*each) for each in zip(queries, results, aliased, strict=True)]


def shown_hits(unit: Unit, group: Group) -> tuple[Hit, ...]:
    """Return the places of an answer that are shown as its evidence: all of a phrase's, the best of a document's."""
    return group.hits[:GROUNDING_PASSAGES] if unit == "document" else group.hits


def _wanted_object(knowledge_base: KnowledgeBase, asked: TaskInput) -> WantedObject:
    if not isinstance(asked, Slot) or asked.object is None:
        return WantedObject()
    known = knowledge_base.alias_matches(asked.object)
    return WantedObject.of(asked.object, [document.title for document, _ in known])


def _retrieved(query: Query, result: SearchResult, aliased: Set[str]) -> Retrieved:
    groups = tuple(groups_of(query.unit, result.hits))
    # No answer has places of two rounds, so each round's answers end where those of its hits do.
    ends = tuple(sum(group.hits[0].rank <= end for group in groups) for end in result.round_ends)
    return Retrieved(query, groups, ends, result, aliased)
