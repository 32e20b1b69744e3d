"""The lexical signal of a query: BM25 of passages and of whole documents, words of titles, and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.search.candidates import top_passages
from kbengine.search.lexical_gate import gate_features
from kbengine.search.naming import add_name_scores, find_names
from kbengine.search.query import Query, Weights
from storage.terms import name_term, spotted_name_terms, terms_of, title_word_terms

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
WeightedTexts = Sequence[tuple[str, float]]


@dataclass(frozen=True)
class LexicalSignal:
    """One query's lexical scores of all passages.

    Attributes:
        scores: float32 (n_passages,), what counts in the score of a passage.
        own: float32 (n_passages,), the same without what whole documents add; the same array where they add nothing.
        factor: What a gate multiplied both by; None where nothing decides about it.
    """

    scores: Float32
    own: Float32
    factor: float | None = None

    def candidates(self, snapshot: Snapshot, k: int) -> Int64:
        """Return the k best passages; as many by their own words too, when whole documents count.

        All passages of a document share its score, so that one long document could take all k places.
        """
        best = top_passages(self.scores, snapshot.live_passages, k)
        if self.own is self.scores:
            return best
        return np.concatenate([best, top_passages(self.own, snapshot.live_passages, k)])


def lexical_signals(
    reader: KBReader, snapshot: Snapshot, queries: Sequence[Query], weights: Sequence[Weights]
) -> list[LexicalSignal | None]:
    """Return each query's signal, None where it does not count."""
    named = [query for query, weight in zip(queries, weights, strict=True) if weight.lexical > 0 and not weight.name]
    matches = find_names(reader, [name for query in named for name, _ in query.names])
    found: list[LexicalSignal | None] = []
    for query, weight in zip(queries, weights, strict=True):
        if weight.lexical <= 0:
            found.append(None)
            continue
        # Names count once: where they have no signal of their own, as words of titles do.
        own = snapshot.lexical_scores(_passage_terms(query if weight.name == 0 else replace(query, names=())))
        if matches and weight.name == 0:
            add_name_scores(own, snapshot, query.names, matches)
        document_terms = _term_weights((query.documents, terms_of))
        documents = snapshot.document_lexical_scores(document_terms) if document_terms else None
        total = own if documents is None else own + documents
        found.append(_gated(query, snapshot, documents, LexicalSignal(total, own)))
    return found


def _gated(query: Query, snapshot: Snapshot, documents: Float32 | None, signal: LexicalSignal) -> LexicalSignal:
    """Return the signal, multiplied by what the query's gate makes of its documents' scores, if it has one."""
    if query.gate is None or documents is None:
        return signal
    features = gate_features(documents, snapshot.document_ids)
    if features is None:
        return signal
    factor = query.gate.factor(features)
    # The order of passages stays, and with it the candidates: the gate only says how much the order counts.
    return LexicalSignal(signal.scores * np.float32(factor), signal.own * np.float32(factor), factor)


def _passage_terms(query: Query) -> dict[str, float]:
    return _term_weights(
        (query.lexical, terms_of),
        (query.titles, title_word_terms),
        (query.names, _name_terms),
        (query.spotted, spotted_name_terms),
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
