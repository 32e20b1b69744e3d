"""The name signal of a query: how surely the thing asked about is named by a passage or by its document, from 0 to 1.

Unlike BM25 it knows no statistics of the collection: a name that means one document says as much among a hundred
documents as among six million.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.inputs import Mention
from kbengine.search.meanings import meanings_of, writing_it_small
from kbengine.search.query import Query, Weights
from kbengine.search.sayings import Sought, sayings_of
from kbengine.search.shard_requests import LexicalQuery, NameScores, Scope
from kbengine.search.verbatim import OTHER_SCORE, READ_FOR_OTHERS, READ_PASSAGES, other_names, spoken_names

if TYPE_CHECKING:
    from kbengine.search.shards import Shards
    from kbengine.search.term_statistics import TermStatistics

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

SURE = 0.75
"""A document that scores as much is what the name means: its other names are looked for in passages as well."""


@dataclass
class _Found:
    """What one query's names were found to give: passages and scores in each shard, and what is still sought."""

    query: Query
    lexical: tuple[LexicalQuery, ...] | None
    parts: list[list[tuple[Int64, Float32]]]
    sought: list[tuple[str, float, int]] = field(default_factory=list)


def name_signals(
    shards: Shards,
    scope: Scope,
    statistics: TermStatistics,
    queries: Sequence[Query],
    weights: Sequence[Weights],
    lexical: Sequence[tuple[LexicalQuery, ...] | None],
) -> list[tuple[NameScores, ...] | None]:
    """Return each query's name scores in each shard, None where they do not count.

    Args:
        shards: all of the generation.
        scope: what is searched.
        statistics: what the shards said about the names.
        queries: what is asked.
        weights: of each query.
        lexical: each query's words for each shard: what is looked into first.
    """
    found: list[_Found | None] = []
    for query, weight, words in zip(queries, weights, lexical, strict=True):
        counts = weight.name > 0 and bool(query.names or query.said)
        found.append(_named(shards, scope, statistics, query, words) if counts else None)
    _add_sayings(shards, scope, statistics.languages, [each for each in found if each is not None])
    return [None if each is None else tuple(map(_best_of_each, each.parts)) for each in found]


def _named(
    shards: Shards,
    scope: Scope,
    statistics: TermStatistics,
    query: Query,
    lexical: tuple[LexicalQuery, ...] | None,
) -> _Found:
    """Return the passages of documents that the query names, and what is sought in passages besides."""
    of_documents: dict[int, float] = {}
    asked = query.input
    in_text = isinstance(asked, Mention)
    is_inside = isinstance(asked, Mention) and not begins_sentence(asked.left)
    for name, weight in query.names:
        small = partial(writing_it_small, shards, scope, statistics)
        meanings = meanings_of(statistics, name, in_text=in_text, is_inside=is_inside, writing_small=small)
        for document_id, score in meanings.items():
            of_documents[document_id] = max(of_documents.get(document_id, 0.0), weight * score)
    found = _Found(query, lexical, [[] for _ in shards.members])
    for document_id, score in of_documents.items():
        place = statistics.places[document_id]
        own = np.arange(place.first, place.stop, dtype=np.int64)
        found.parts[place.shard].append((own, np.full(len(own), score, dtype=np.float32)))
    for name, weight in query.said:
        found.sought += [(spoken, weight * share, READ_PASSAGES) for spoken, share in spoken_names(name)]
        sure = [document_id for document_id, score in of_documents.items() if score >= SURE]
        if len(sure) == 1:
            others = other_names(shards.records, name, sure[0])
            found.sought += [(other, weight * OTHER_SCORE, READ_FOR_OTHERS) for other in others]
    return found


def _add_sayings(shards: Shards, scope: Scope, languages: tuple[str, ...], found: Sequence[_Found]) -> None:
    """Add the passages that say the queries' names; all are sought at once."""
    sought = [Sought(name, limit, each.lexical, languages) for each in found for name, _, limit in each.sought]
    sayings = iter(sayings_of(shards, scope, sought))
    for each in found:
        for _, share, _ in each.sought:
            for part, own in zip(each.parts, next(sayings), strict=True):
                part.append((own.passages, own.scores * np.float32(share)))


def begins_sentence(left: str) -> bool:
    """Return whether what follows this text begins a sentence, where any word has a capital letter.

    >>> begins_sentence("She lives in "), begins_sentence('He came. "'), begins_sentence("")
    (False, True, True)
    """
    return (
        not left.strip()
        or left.rstrip().rstrip("\"'“”‘’([*-").rstrip()[-1:] in ("", ".", "!", "?", ":", "…")
        or left.endswith("\n")
    )


def _best_of_each(found: Sequence[tuple[Int64, Float32]]) -> NameScores:
    """Return the passages found, each once and rising, with their best scores."""
    if not found:
        return NameScores(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
    passages, scores = (np.concatenate(each) for each in zip(*found, strict=True))
    distinct, places = np.unique(passages, return_inverse=True)
    best = np.zeros(len(distinct), dtype=np.float32)
    np.maximum.at(best, places, scores)
    return NameScores(distinct, best)
