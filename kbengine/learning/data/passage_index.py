"""BM25 over passages in memory: for mining negatives, and for finding evidence of questions that come without any."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbengine.errors import MissingExtraError


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
