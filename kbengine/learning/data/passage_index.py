"""BM25 over passages in memory: for mining negatives, and for finding evidence of questions that come without any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kbengine.corpus.document import CorpusDocument
from kbengine.errors import MissingExtraError


class IndexedPassage(NamedTuple):
    """A passage with its document's id and title."""

    doc_id: str
    title: str
    text: str


def indexed_passages(
    documents: Iterable[CorpusDocument], exclude: frozenset[str] = frozenset()
) -> list[IndexedPassage]:
    """Return the passages of the documents, but for those whose ids are excluded."""
    return [
        IndexedPassage(document.doc_id, document.title, passage.text)
        for document in documents
        if document.doc_id not in exclude
        for passage in document.passages
    ]


class PassageIndex:
    """The texts of a corpus, ranked by BM25."""

    def __init__(self, texts: Sequence[str]) -> None:
        """Index the texts.

        Raises:
            MissingExtraError: bm25s is not installed.
        """
        try:
            import bm25s
        except ImportError as e:
            raise MissingExtraError.of("ranking passages by BM25", "bm25s", "training") from e
        self._bm25s: Any = bm25s
        self._n = len(texts)
        self._index: Any = bm25s.BM25()
        self._index.index(self._tokens(texts), show_progress=False)

    def best(self, queries: Sequence[str], depth: int) -> list[list[int]]:
        """Return the numbers of the best texts of each query, best first; texts without a common word are left out."""
        found = self._index.retrieve(self._tokens(queries), k=min(depth, self._n), show_progress=False, sorted=True)
        return [
            [int(number) for number, score in zip(numbers, scores, strict=True) if score > 0]
            for numbers, scores in zip(found.documents, found.scores, strict=True)
        ]

    def _tokens(self, texts: Sequence[str]) -> Any:
        return self._bm25s.tokenize(list(texts), stopwords="en", show_progress=False)
