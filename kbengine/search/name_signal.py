"""The name signal of a query: how surely the thing asked about is named by a passage or by its document, from 0 to 1.

Unlike BM25 it knows no statistics of the collection: a name that means one document says as much among a hundred
documents as among six million.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.inputs import Mention
from kbengine.search.meanings import meanings_of
from kbengine.search.naming import find_names
from kbengine.search.query import Query, Weights
from kbengine.search.verbatim import OTHER_SCORE, READ_FOR_OTHERS, READ_PASSAGES, other_names, sayings_of, spoken_names

if TYPE_CHECKING:
    from kbengine.search.lexical import LexicalSignal
    from kbengine.search.naming import Matches
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

SURE = 0.75
"""A document that scores as much is what the name means: its other names are looked for in passages as well."""
PASSAGES_OF_A_DOCUMENT = 8
"""Passages of a document that are candidates by names alone, at most."""


@dataclass(frozen=True)
class NameSignal:
    """One query's name scores, of the passages that have one.

    Attributes:
        passages: int64 (n,), snapshot passage indices, rising.
        scores: float32 (n,), each above 0 and at most 1.
        words: float32 (n,), the passages' lexical scores: of equal ones the better is a candidate first.
    """

    passages: Int64
    scores: Float32
    words: Float32

    def of(self, passages: Int64) -> Float32:
        """Return the scores of passages (n), float32 (n,); 0 for those without one."""
        if not len(self.passages):
            return np.zeros(len(passages), dtype=np.float32)
        at = np.minimum(np.searchsorted(self.passages, passages), len(self.passages) - 1)
        found: Float32 = np.where(self.passages[at] == passages, self.scores[at], np.float32(0.0))
        return found

    def candidates(self, snapshot: Snapshot, k: int) -> Int64:
        """Return up to k passages, the best first, of each document a few."""
        passages = self.passages[np.lexsort((self.passages, -self.words, -self.scores))]
        passages = passages[snapshot.live_passages[passages]]
        # Of each document the first few: places within groups of equal ids, in the order of a stable sort.
        documents = snapshot.document_ids[passages]
        by_document = np.argsort(documents, kind="stable")
        begins = np.flatnonzero(np.diff(documents[by_document], prepend=-1))
        lengths = np.diff(np.append(begins, len(documents)))
        within = np.empty(len(documents), dtype=np.int64)
        within[by_document] = np.arange(len(documents)) - np.repeat(begins, lengths)
        best: Int64 = passages[within < PASSAGES_OF_A_DOCUMENT][:k]
        return best


def name_signals(
    reader: KBReader,
    snapshot: Snapshot,
    queries: Sequence[Query],
    weights: Sequence[Weights],
    lexical: Sequence[LexicalSignal | None],
) -> list[NameSignal | None]:
    """Return each query's signal, None where it does not count.

    Args:
        reader: of names, titles and texts.
        snapshot: what is searched.
        queries: what is asked.
        weights: of each query.
        lexical: each query's lexical signal: what is looked into first.
    """
    counts = [
        weight.name > 0 and bool(query.names or query.said) for query, weight in zip(queries, weights, strict=True)
    ]
    asked = [query for query, is_counted in zip(queries, counts, strict=True) if is_counted]
    matches = find_names(reader, [name for query in asked for name, _ in query.names])
    return [
        _signal(reader, snapshot, query, matches, signal) if is_counted else None
        for query, is_counted, signal in zip(queries, counts, lexical, strict=True)
    ]


def _signal(
    reader: KBReader, snapshot: Snapshot, query: Query, matches: Matches, lexical: LexicalSignal | None
) -> NameSignal:
    of_documents: dict[int, float] = {}
    asked = query.input
    in_text = isinstance(asked, Mention)
    is_inside = isinstance(asked, Mention) and not begins_sentence(asked.left)
    for name, weight in query.names:
        meanings = meanings_of(reader, snapshot, name, matches, in_text=in_text, is_inside=is_inside)
        for document_id, score in meanings.items():
            of_documents[document_id] = max(of_documents.get(document_id, 0.0), weight * score)
    found: list[tuple[Int64, Float32]] = []
    for document_id, score in of_documents.items():
        own = snapshot.passages_of_document(document_id)
        found.append((np.arange(own.start, own.stop, dtype=np.int64), np.full(len(own), score, dtype=np.float32)))
    order = None if lexical is None else lexical.scores
    for name, weight in query.said:
        texts = [(spoken, weight * share, READ_PASSAGES) for spoken, share in spoken_names(name)]
        sure = [document_id for document_id, score in of_documents.items() if score >= SURE]
        if len(sure) == 1:
            others = other_names(reader, name, sure[0])
            texts += [(other, weight * OTHER_SCORE, READ_FOR_OTHERS) for other in others]
        for spoken, share, limit in texts:
            sayings = sayings_of(reader, snapshot, spoken, order, limit=limit)
            found.append((sayings.passages, sayings.scores * np.float32(share)))
    passages, scores = _best_of_each(found)
    words = np.zeros(len(passages), dtype=np.float32) if order is None else order[passages]
    return NameSignal(passages, scores, words)


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


def _best_of_each(found: Sequence[tuple[Int64, Float32]]) -> tuple[Int64, Float32]:
    """Return the passages found, each once and rising, with their best scores."""
    if not found:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
    passages, scores = (np.concatenate(each) for each in zip(*found, strict=True))
    distinct, places = np.unique(passages, return_inverse=True)
    best = np.zeros(len(distinct), dtype=np.float32)
    np.maximum.at(best, places, scores)
    return distinct, best
