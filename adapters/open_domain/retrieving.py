"""Passages for a question: what ranks them, and how they are searched for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from adapters.open_domain.questions import OpenQuestion
from kbengine.errors import InvalidOptionError
from kbengine.inputs import Question
from kbengine.search.in_halves import in_halves
from kbengine.search.query import MAX_K, Effort, SearchOptions, Weights

if TYPE_CHECKING:
    from adapters.tasks.answerer import Answerer
    from kbengine.search.results import Hit

Retriever = Literal["all", "phrases", "vectors", "bm25"]
"""What ranks passages: all signals as they answer, phrase vectors, passage vectors, or words alone."""
RETRIEVERS: tuple[Retriever, ...] = get_args(Retriever)
WEIGHTS: Mapping[Retriever, Weights | None] = {
    "all": None,
    "phrases": Weights(phrase=1.0, passage=0.0, lexical=0.0, sparse=0.0, reader=0.0),
    "vectors": Weights(phrase=0.0, passage=1.0, lexical=0.0, sparse=0.0, reader=0.0),
    "bm25": Weights(phrase=0.0, passage=0.0, lexical=1.0, sparse=0.0, reader=0.0),
}

BATCH = 32
"""Questions searched together."""


@dataclass(frozen=True)
class RetrievingOptions:
    """How many passages of each question are found, and by what.

    Attributes:
        k: Passages.
        retriever: What ranks them.
        effort: How many candidates are looked at.
        read: How many of them a reader reads before they are ranked; None as many as for an answer, 0 none.
        where: A filter over the fields of documents.
    """

    k: int = 100
    retriever: Retriever = "all"
    effort: Effort = "normal"
    read: int | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if self.retriever not in RETRIEVERS:
            raise InvalidOptionError(f"the retriever is {self.retriever!r}, wanted one of {', '.join(RETRIEVERS)}")
        if not 1 <= self.k <= MAX_K:
            raise InvalidOptionError(f"{self.k} passages are wanted, give 1 to {MAX_K}")
        self.search_options()  # checks the others

    def search_options(self) -> SearchOptions:
        """Return the options of the search."""
        return SearchOptions(
            k=self.k,
            unit="passage",
            weights=WEIGHTS[self.retriever],
            strategy="dense" if self.retriever in ("phrases", "vectors") else None,
            effort=self.effort,
            read=self.read if self.retriever == "all" else 0,
            where=self.where,
            truncate=True,
        )


def retrieve_passages(
    answerer: Answerer, questions: Sequence[OpenQuestion], options: RetrievingOptions
) -> list[tuple[Hit, ...]]:
    """Return the passages of each question, best first; none for one that cannot be asked."""

    def search(some: Sequence[Question]) -> list[tuple[Hit, ...]]:
        return [result.hits for result in answerer.search(some, options.search_options())]

    asked: list[Question] = [Question(each.text) for each in questions]
    return in_halves(search, asked, lambda _: ())
