"""The candidates of queries in one shard: nearest tokens and passages, and passages by words and by names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.search.query_vectors import LexicalScores
from kbengine.search.shard_answers import CandidateAnswer, Candidates, Nearest, Ranked, Sought
from kbengine.search.shard_requests import CandidateQuery, CandidateRequest, NameScores

if TYPE_CHECKING:
    from storage.ann_lists import AnnKind
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

PASSAGES_OF_A_DOCUMENT = 8
"""Passages of a document that are candidates by names alone, at most."""

_NO_NUMBERS: Int64 = np.zeros(0, dtype=np.int64)
_NO_SCORES: Float32 = np.zeros(0, dtype=np.float32)
_NOTHING = Ranked(_NO_NUMBERS, _NO_SCORES, _NO_NUMBERS)
_NOWHERE = Nearest(_NOTHING, _NO_SCORES, 0)
_EVERYTHING = Sought(0, is_every_list=True)


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
    # Each query's first and last token side by side.
    tokens, tokens_among = _nearest(
        snapshot, request, "tokens", [v for query in near for v in (query.start, query.end)]
    )
    passages, passages_among = _nearest(snapshot, request, "passages", [query.passage for query in near])
    of_tokens, of_passages = iter(tokens), iter(passages)
    is_alone = request.scope.is_alone
    found = []
    for query, scores in zip(request.queries, lexical, strict=True):
        start, end, passage = _NOWHERE, _NOWHERE, _NOWHERE
        if query.by_vectors:
            start, end, passage = next(of_tokens), next(of_tokens), next(of_passages)
        of_words = _by_words(snapshot, query, scores, is_alone)
        named, words = _NOTHING, _NO_SCORES
        if query.names is not None and query.n_named:
            named, words = _by_names(snapshot, query.names, scores, query.n_named, is_alone)
        found.append(
            Candidates(
                start,
                end,
                passage,
                *of_words,
                gate=_best_documents(scores, query.n_gate),
                named=named,
                named_words=words,
            )
        )
    return CandidateAnswer(tuple(found), tokens_among, passages_among)


def _nearest(
    snapshot: Snapshot, request: CandidateRequest, kind: AnnKind, vectors: Sequence[Float32]
) -> tuple[list[Nearest], Sought]:
    """Return the tokens, or passages, nearest to each vector, and among what they were sought."""
    if not vectors:
        return [], _EVERYTHING
    of_tokens, is_alone = kind == "tokens", request.scope.is_alone
    k, scans = (request.n_tokens, request.is_exact) if of_tokens else (request.n_passages, request.scans_passages)
    # One text under several weights, or asked for by several callers at once, is looked for once.
    chosen, places = _distinct(vectors)
    queries = np.stack([vectors[i] for i in chosen])
    if is_alone or scans or snapshot.scans_all(kind):
        search = snapshot.search_tokens if of_tokens else snapshot.search_passages
        scores, numbers = search(queries, k, nprobe=request.nprobe, nprobe_factor=request.nprobe_factor, exact=scans)
        kept = [own[own >= 0] for own in numbers]
        found = [
            Nearest(_with_ids(snapshot, kind, own, own_scores[: len(own)], is_alone), _NO_SCORES, 0)
            for own, own_scores in zip(kept, scores, strict=True)
        ]
        return [found[place] for place in places], _EVERYTHING
    coded = snapshot.coded_nearest(
        kind, queries, k, nprobe=request.nprobe, nprobe_factor=request.nprobe_factor, n_more=request.n_more
    )
    if coded is None:
        raise _not_comparable(kind)
    found = [
        Nearest(_with_ids(snapshot, kind, each.numbers, each.scores, is_alone), each.coarse, coded.n_fetched)
        for each in coded.rows
    ]
    return [found[place] for place in places], Sought(coded.n_rows, coded.is_every_list)


def _with_ids(snapshot: Snapshot, kind: AnnKind, numbers: Int64, scores: Float32, is_alone: bool) -> Ranked:
    if kind == "passages":
        return _ranked(snapshot, numbers, scores, is_alone)
    return Ranked(numbers, scores, _NO_NUMBERS if is_alone else snapshot.token_ids_of_rows(numbers))


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
