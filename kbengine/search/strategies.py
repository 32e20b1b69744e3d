"""Where a query's candidates come from: nearest vectors, words, or both (SPARC's dense-first, sparse-first, hybrid)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kbengine.search.query import Strategy, Weights

DOCUMENTS_PER_SEARCH = 5
"""Documents whose passages are all candidates when words come first, as in SPARC."""
MAX_DOCUMENT_PASSAGES = 256
"""And of these documents so many passages at most: a book would be all of the candidates."""


@dataclass(frozen=True)
class Plan:
    """How one query is searched.

    Attributes:
        weights: Of the scores, those that the strategy leaves out set to 0.
        by_vectors: Whether nearest tokens and passages are candidates.
        by_words: Whether passages found by words are.
        whole_documents: Whether all passages of the best documents by words are.
        by_names: Whether passages with a name score are.
    """

    weights: Weights
    by_vectors: bool
    by_words: bool
    whole_documents: bool
    by_names: bool

    @property
    def needs_words(self) -> bool:
        """Return whether lexical scores are needed, for candidates or for ranking."""
        return self.by_words or self.weights.lexical > 0

    @property
    def with_everything(self) -> Plan:
        """Return the plan that goes on where this one has found too little: candidates of all kinds."""
        return replace(self, by_vectors=True, by_words=self.needs_words, by_names=self.weights.name > 0)


def plan_of(strategy: Strategy, weights: Weights) -> Plan:
    """Return how to search by a strategy.

    Raises:
        InvalidOptionError: `dense` with weights of phrase and passage that are both 0.
    """
    if strategy == "dense":
        return Plan(replace(weights, lexical=0.0, sparse=0.0, name=0.0), True, False, False, False)
    if strategy == "dfs":
        return Plan(weights, True, False, False, False)
    if strategy == "sfs":
        return Plan(weights, False, True, True, weights.name > 0)
    return Plan(weights, True, weights.lexical > 0, False, weights.name > 0)
