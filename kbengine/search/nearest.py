"""The candidates of queries in one shard: nearest tokens and passages, and passages by words and by names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.search.query_vectors import LexicalScores
from kbengine.search.shard_answers import CandidateAnswer, Candidates, Nearest, Ranked
from kbengine.search.shard_requests import CandidateQuery, CandidateRequest, NameScores

if TYPE_CHECKING:
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

PASSAGES_OF_A_DOCUMENT = 8
"""Passages of a document that are candidates by names alone, at most."""

_NO_NUMBERS: Int64 = np.zeros(0, dtype=np.int64)
_NO_SCORES: Float32 = np.zeros(0, dtype=np.float32)
_NOTHING = Ranked(_NO_NUMBERS, _NO_SCORES, _NO_NUMBERS)
_NOWHERE = Nearest(_NOTHING, _NO_SCORES, 0)


def candidates_of(
    snapshot: Snapshot, request: CandidateRequest, lexical: Sequence[LexicalScores | None]
) -> CandidateAnswer:
    """Return the candidates of queries.

    Args:
        snapshot: what is searched.
        request: the queries.
        lexical: the lexical scores of each.

    Raises:
        StateError: there are other shards, and what the index finds here depends on how documents are dealt out.
    """
    near = [query for query in request.queries if query.by_vectors]
    tokens, n_indexed, is_every_list = _tokens(snapshot, request, near)
    passages = iter(_passages(snapshot, request, near))
    nearest = iter(tokens)
    is_alone = request.scope.is_alone
    found = []
    for query, scores in zip(request.queries, lexical, strict=True):
        start, end = next(nearest) if query.by_vectors else (_NOWHERE, _NOWHERE)
        of_words = _by_words(snapshot, query, scores, is_alone)
        named, words = _NOTHING, _NO_SCORES
        if query.names is not None and query.n_named:
            named, words = _by_names(snapshot, query.names, scores, query.n_named, is_alone)
        found.append(
            Candidates(
                start,
                end,
                next(passages) if query.by_vectors else _NOTHING,
                *of_words,
                gate=_best_documents(scores, query.n_gate),
                named=named,
                named_words=words,
            )
        )
    return CandidateAnswer(tuple(found), n_indexed, is_every_list)


def _tokens(
    snapshot: Snapshot, request: CandidateRequest, near: Sequence[CandidateQuery]
) -> tuple[list[tuple[Nearest, Nearest]], int, bool]:
    """Return the tokens nearest to each query's start and end, how many can be found, and whether in all lists."""
    if not near:
        return [], 0, True
    # One text under several weights, or asked for by several callers at once, is looked for once.
    vectors = [each for query in near for each in (query.start, query.end)]
    chosen, places = _distinct(vectors)
    queries = np.stack([vectors[i] for i in chosen])
    found: list[Nearest] = []
    if request.scope.is_alone or request.is_exact or snapshot.scans_all("tokens"):
        scores, rows = snapshot.search_tokens(
            queries,
            request.n_tokens,
            nprobe=request.nprobe,
            nprobe_factor=request.nprobe_factor,
            exact=request.is_exact,
        )
        for own_scores, own_rows in zip(scores, rows, strict=True):
            kept = own_rows[own_rows >= 0]
            ids = _NO_NUMBERS if request.scope.is_alone else snapshot.token_ids_of_rows(kept)
            found.append(Nearest(Ranked(kept, own_scores[: len(kept)], ids), _NO_SCORES, 0))
        n_indexed, is_every_list = 0, True
    else:
        coded = snapshot.coded_tokens(
            queries,
            request.n_tokens,
            nprobe=request.nprobe,
            nprobe_factor=request.nprobe_factor,
            n_more=request.n_more,
        )
        if coded is None:
            raise _not_comparable("tokens")
        found = [
            Nearest(
                Ranked(each.numbers, each.scores, snapshot.token_ids_of_rows(each.numbers)),
                each.coarse,
                coded.n_fetched,
            )
            for each in coded.rows
        ]
        n_indexed, is_every_list = coded.n_rows, coded.is_every_list
    pairs = [(found[places[2 * i]], found[places[2 * i + 1]]) for i in range(len(near))]
    return pairs, n_indexed, is_every_list


def _passages(snapshot: Snapshot, request: CandidateRequest, near: Sequence[CandidateQuery]) -> list[Ranked]:
    """Return the passages nearest to each query."""
    if not near:
        return []
    if not request.scope.is_alone and not request.is_exact and not snapshot.scans_all("passages"):
        raise _not_comparable("passages")
    vectors = [query.passage for query in near]
    chosen, places = _distinct(vectors)
    scores, numbers = snapshot.search_passages(
        np.stack([vectors[i] for i in chosen]),
        request.n_passages,
        nprobe=request.nprobe,
        nprobe_factor=request.nprobe_factor,
        exact=request.is_exact,
    )
    found = []
    for own_scores, own in zip(scores, numbers, strict=True):
        kept = own[own >= 0]
        found.append(_ranked(snapshot, kept, own_scores[: len(kept)], request.scope.is_alone))
    return [found[place] for place in places]


def _by_words(
    snapshot: Snapshot, query: CandidateQuery, scores: LexicalScores | None, is_alone: bool
) -> tuple[Ranked, Ranked | None, Ranked, Int64, Int64]:
    """Return the best passages by all words, by their own, all of the best documents, and which documents these are.

    All passages of a document share its score, so that one long document could take all places: where whole documents
    count, as many are taken by their own words too.
    """
    if scores is None or not query.n_lexical:
        return _NOTHING, None, _NOTHING, _NO_NUMBERS, _NO_NUMBERS
    best = scores.best(query.n_lexical)
    lexical, own = _ranked(snapshot, best, scores.before_gate(best), is_alone), None
    if scores.documents is not None:
        others = scores.own.best(query.n_lexical)
        own = _ranked(snapshot, others, scores.own.of(others), is_alone)
        best = np.concatenate([best, others])
    if not query.n_documents:
        return lexical, own, _NOTHING, _NO_NUMBERS, _NO_NUMBERS
    lexical_documents = snapshot.document_ids[best]
    chosen = list(dict.fromkeys(lexical_documents.tolist()))[: query.n_documents]
    ranges = [snapshot.passages_of_document(document_id) for document_id in chosen]
    numbers = np.concatenate([_NO_NUMBERS, *(np.arange(each.start, each.stop, dtype=np.int64) for each in ranges)])
    in_documents = _ranked(snapshot, numbers, scores.before_gate(numbers), is_alone)
    documents = np.repeat(np.array(chosen, dtype=np.int64), [len(each) for each in ranges])
    return lexical, own, in_documents, documents, lexical_documents


def _by_names(
    snapshot: Snapshot, names: NameScores, lexical: LexicalScores | None, n: int, is_alone: bool
) -> tuple[Ranked, Float32]:
    """Return the best passages by names, of each document a few, and their lexical scores."""
    words = np.zeros(len(names.passages), dtype=np.float32) if lexical is None else lexical.before_gate(names.passages)
    order = np.lexsort((names.passages, -words, -names.scores))
    order = order[snapshot.live_passages[names.passages[order]]]
    # Of each document the first few: places within groups of equal ids, in the order of a stable sort.
    documents = snapshot.document_ids[names.passages[order]]
    by_document = np.argsort(documents, kind="stable")
    begins = np.flatnonzero(np.diff(documents[by_document], prepend=-1))
    lengths = np.diff(np.append(begins, len(documents)))
    within = np.empty(len(documents), dtype=np.int64)
    within[by_document] = np.arange(len(documents)) - np.repeat(begins, lengths)
    best = order[within < PASSAGES_OF_A_DOCUMENT][:n]
    return _ranked(snapshot, names.passages[best], names.scores[best], is_alone), words[best]


def _best_documents(lexical: LexicalScores | None, n: int) -> Float32:
    """Return the n best scores of whole documents that can be found, falling; those of 0 are left out."""
    if lexical is None or lexical.documents is None:
        return _NO_SCORES
    return lexical.documents.of(lexical.documents.best(n))


def _ranked(snapshot: Snapshot, passages: Int64, scores: Float32, is_alone: bool) -> Ranked:
    return Ranked(passages, scores, _NO_NUMBERS if is_alone else snapshot.passage_ids[passages])


def _distinct(rows: Sequence[Float32]) -> tuple[list[int], list[int]]:
    """Return the index of the first of each kind of rows, and for each row which of these it equals."""
    # numpy.unique over an axis makes a record type of as many fields as there are columns: 4 ms for a single row.
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    places: list[int] = []
    for i, row in enumerate(rows):
        number = numbers.setdefault(row.tobytes(), len(first))
        if number == len(first):
            first.append(i)
        places.append(number)
    return first, places


def _not_comparable(kind: str) -> StateError:
    return StateError(
        f"what a shard's index of {kind} finds depends on how documents are dealt out to shards; build the shards with "
        "common settings, or ask with effort exact"
    )
