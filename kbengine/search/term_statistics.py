"""What all shards have counted for the queries of a search, and the queries' words weighed by that.

A term weighs by how many passages of the whole generation have it, wherever they lie; a name by how many documents.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kbengine.search.naming import FORM_FACTORS, MAX_TITLED
from kbengine.search.query import Query, Weights
from kbengine.search.shard_answers import CountAnswer
from kbengine.search.shard_requests import CountRequest, LexicalQuery, Scope
from kbengine.search.shards import Shards
from storage.alias_look_up import joined_spellings, matches_of
from storage.alias_records import AliasMatch
from storage.live_words import idf
from storage.reader import MAX_MATCHES
from storage.terms import (
    LANGUAGE_TERMS,
    is_title_term,
    name_term,
    query_terms,
    spotted_name_terms,
    term_hash,
    title_word_terms,
)

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
WeightedTexts = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class DocumentPlace:
    """Where a document lies: the number of its shard, and its passages there; none where it cannot be found."""

    shard: int
    first: int
    stop: int


@dataclass(frozen=True)
class TermStatistics:
    """What all shards counted, added up.

    Attributes:
        n_documents: Live documents.
        n_passages: Their passages.
        n_terms: The lengths of these, summed up.
        n_found_passages: Passages that pass the filter.
        n_found_rows: Rows of these.
        n_rows: Rows of all shards.
        has_sparse_rows: Whether sparse rows are stored.
        passage_frequencies: Passages that have each term asked for.
        document_frequencies: Documents that have each term asked for.
        matches: What each name can mean by other names of documents; nothing for a name without any.
        titled: The ids of the first documents that have each name as their title, rising.
        places: Where these documents, and those of `matches`, lie.
        titles: The titles of those of `titled`, and of those whose titles stand in for other names.
        languages: Those other than English by whose rules words of some live documents are stemmed.
    """

    n_documents: int
    n_passages: int
    n_terms: int
    n_found_passages: int
    n_found_rows: int
    n_rows: int
    has_sparse_rows: bool
    passage_frequencies: Mapping[str, int]
    document_frequencies: Mapping[str, int]
    matches: Mapping[str, Sequence[AliasMatch]]
    titled: Mapping[str, Sequence[int]]
    places: Mapping[int, DocumentPlace]
    titles: Mapping[int, str]
    languages: tuple[str, ...] = ()


def count(shards: Shards, scope: Scope, queries: Sequence[Query], weights: Sequence[Weights]) -> TermStatistics:
    """Return what the shards hold of the words and names of some queries.

    Args:
        shards: all of the generation.
        scope: what is searched.
        queries: what is asked.
        weights: of each query.
    """
    counted = _count(shards, scope, queries, weights, ())
    languages = tuple(code for code, term in LANGUAGE_TERMS.items() if counted.passage_frequencies[term])
    return _count(shards, scope, queries, weights, languages) if languages else counted


def _count(
    shards: Shards, scope: Scope, queries: Sequence[Query], weights: Sequence[Weights], languages: tuple[str, ...]
) -> TermStatistics:
    """Return what the shards hold of the words, as they are stemmed in English and in some other languages."""
    terms: dict[str, None] = dict.fromkeys(LANGUAGE_TERMS.values())
    document_terms: dict[str, None] = {}
    aliases: dict[str, None] = {}
    titles: dict[str, None] = {}
    for query, weight in zip(queries, weights, strict=True):
        if weight.lexical > 0:
            terms |= dict.fromkeys(passage_terms(query, weight, languages))
            document_terms |= dict.fromkeys(_document_terms(query, languages))
        if (weight.lexical > 0 and not weight.name) or weight.name > 0:
            aliases |= dict.fromkeys(name for name, _ in query.names)
        if weight.name > 0:
            titles |= dict.fromkeys(name for name, _ in query.names if name_term(name) != name_term(""))
    request = CountRequest(scope, _hashes(terms), _hashes(document_terms), tuple(aliases), tuple(titles))
    answers = shards.each(lambda _, shard: shard.count(request))
    counted = _added_up(answers, list(terms), list(document_terms), list(aliases), list(titles))
    return replace(counted, languages=languages)


def lexical_queries(
    statistics: TermStatistics, queries: Sequence[Query], weights: Sequence[Weights], n_shards: int
) -> list[tuple[LexicalQuery, ...] | None]:
    """Return each query's words for each shard, None where they do not count."""
    search = uuid.uuid4().bytes
    found: list[tuple[LexicalQuery, ...] | None] = []
    for number, (query, weight) in enumerate(zip(queries, weights, strict=True)):
        if weight.lexical <= 0:
            found.append(None)
            continue
        terms = passage_terms(query, weight, statistics.languages)
        document_terms = _document_terms(query, statistics.languages)
        whole = LexicalQuery(
            key=search + number.to_bytes(4, "big"),
            terms=_hashes(terms),
            is_title=np.array([is_title_term(term) for term in terms], dtype=np.bool_),
            factors=_factors(terms, statistics.passage_frequencies, statistics.n_passages),
            average_length=statistics.n_terms / max(statistics.n_passages, 1),
            document_terms=_hashes(document_terms),
            document_factors=_factors(document_terms, statistics.document_frequencies, statistics.n_documents),
            average_document_length=statistics.n_terms / max(statistics.n_documents, 1),
            named_first=np.zeros(0, dtype=np.int64),
            named_stop=np.zeros(0, dtype=np.int64),
            named_scores=np.zeros(0, dtype=np.float32),
        )
        # Names count once: where they have no signal of their own, as words of titles do.
        named = {} if weight.name else _named_scores(statistics, query.names)
        found.append(tuple(_of_shard(whole, statistics, named, shard) for shard in range(n_shards)))
    return found


def passage_terms(query: Query, weights: Weights, languages: Sequence[str] = ()) -> dict[str, float]:
    """Return the terms that are matched against passages, with their weights.

    Args:
        query: what is asked.
        weights: of its signals.
        languages: of documents, beside English.
    """
    return _term_weights(
        (query.lexical, partial(query_terms, languages=languages)),
        (query.titles, partial(title_word_terms, languages=languages)),
        ((), _name_terms) if weights.name else (query.names, _name_terms),
        (query.spotted, spotted_name_terms),
    )


def _document_terms(query: Query, languages: Sequence[str]) -> dict[str, float]:
    """Return the terms that are matched against whole documents, with their weights."""
    return _term_weights((query.documents, partial(query_terms, languages=languages)))


def _added_up(
    answers: Sequence[CountAnswer],
    terms: Sequence[str],
    document_terms: Sequence[str],
    aliases: Sequence[str],
    titles: Sequence[str],
) -> TermStatistics:
    spellings = joined_spellings([answer.spellings for answer in answers], limit=MAX_MATCHES)
    matches = zip(aliases, matches_of(aliases, spellings), strict=True) if spellings else ()
    titled = {
        title: sorted(int(each) for answer in answers for each in answer.titled[i])[:MAX_TITLED]
        for i, title in enumerate(titles)
    }
    places: dict[int, DocumentPlace] = {}
    known_titles: dict[int, str] = {}
    for number, answer in enumerate(answers):
        named = answer.documents
        for document_id, first, stop, title in zip(
            named.ids.tolist(), named.first.tolist(), named.stop.tolist(), named.titles, strict=True
        ):
            places[document_id] = DocumentPlace(number, first, stop)
            if title:
                known_titles[document_id] = title
    of_passages = np.sum([answer.passage_frequencies for answer in answers], axis=0).tolist()
    of_documents = np.sum([answer.document_frequencies for answer in answers], axis=0).tolist()
    return TermStatistics(
        n_documents=sum(answer.n_documents for answer in answers),
        n_passages=sum(answer.n_passages for answer in answers),
        n_terms=sum(answer.n_terms for answer in answers),
        n_found_passages=sum(answer.n_found_passages for answer in answers),
        n_found_rows=sum(answer.n_found_rows for answer in answers),
        n_rows=sum(answer.n_rows for answer in answers),
        has_sparse_rows=any(answer.has_sparse_rows for answer in answers),
        passage_frequencies=dict(zip(terms, of_passages, strict=True)),
        document_frequencies=dict(zip(document_terms, of_documents, strict=True)),
        matches={name: found for name, found in matches if found},
        titled=titled,
        places=places,
        titles=known_titles,
    )


def _named_scores(statistics: TermStatistics, names: WeightedTexts) -> dict[int, float]:
    """Return what documents get for their other names, to be multiplied by idf."""
    best: dict[int, float] = {}
    for name, weight in names:
        for match in statistics.matches.get(name, ()):
            # A title's own row only stands in where the lexical index cannot find the title by this name.
            if match.sources == ("title",) and name_term(name) == name_term(match.alias) != name_term(""):
                continue
            value = weight * match.prior * FORM_FACTORS[match.form]
            best[match.document_id] = max(best.get(match.document_id, 0.0), value)
    return best


def _of_shard(whole: LexicalQuery, statistics: TermStatistics, named: Mapping[int, float], shard: int) -> LexicalQuery:
    """Return the query with what the shard's documents get for their other names."""
    if not named:
        return whole
    first, stop, scores = [], [], []
    for document_id, value in named.items():
        place = statistics.places.get(document_id)
        if place is not None and place.shard == shard and place.first < place.stop:
            n = place.stop - place.first
            first.append(place.first)
            stop.append(place.stop)
            scores.append(value * math.log1p((statistics.n_passages - n + 0.5) / (n + 0.5)))
    return replace(
        whole,
        named_first=np.array(first, dtype=np.int64),
        named_stop=np.array(stop, dtype=np.int64),
        named_scores=np.array(scores, dtype=np.float32),
    )


def _term_weights(*fields: tuple[WeightedTexts, Callable[[str], list[str]]]) -> dict[str, float]:
    """Return the weight of each term of the fields' texts.

    A term counts once, with the largest weight of the texts it stands in: a dialogue that says a word ten times is not
    ten times about it (measured: 25 points of page R-precision on long dialogues).
    """
    weights: dict[str, float] = {}
    for texts, terms in fields:
        for text, weight in texts:
            for term in terms(text):
                weights[term] = max(weights.get(term, 0.0), weight)
    return weights


def _name_terms(name: str) -> list[str]:
    return [name_term(name)]


def _hashes(terms: Sequence[str] | Mapping[str, object]) -> NDArray[np.uint64]:
    return np.array([term_hash(term) for term in terms], dtype=np.uint64)


def _factors(terms: Mapping[str, float], frequencies: Mapping[str, int], n: int) -> Float32:
    """Return idf times weight of each term, float32 (t)."""
    counts = np.array([frequencies[term] for term in terms], dtype=np.int64)
    return (idf(n, counts) * np.array(list(terms.values()), dtype=np.float64)).astype(np.float32)
