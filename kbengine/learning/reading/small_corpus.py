"""Reading by phrase vectors: the best phrase of one passage, or of many passages held in memory (D_small)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbengine.build.filtering import FilterOptions, kept_tokens, resolve_threshold
from kbengine.reading.spans import best_spans
from kbengine.span import Span

if TYPE_CHECKING:
    from kbengine.encoders.encoder import QueryVectors
    from kbengine.encoders.passage_windows import PassageVectors

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

_SCORE_BYTES = 1 << 28
"""Memory for the scores of the queries that are looked up together."""


class FoundPhrase(NamedTuple):
    """The best phrase for a query: the number of its passage, its characters there, its score."""

    passage: int
    span: Span
    score: float


class PhraseCorpus:
    """Phrase vectors of passages in memory, searched exactly: every phrase of every passage competes.

    Memory: 4·d bytes a kept token.
    """

    def __init__(
        self, passages: Sequence[PassageVectors], *, max_phrase_tokens: int, filter_options: FilterOptions | None = None
    ) -> None:
        """Take the passages' kept tokens; without a filter every token is kept."""
        threshold = resolve_threshold([each.filter_logits for each in passages], filter_options or FilterOptions())
        kept = [np.flatnonzero(kept_tokens(each.filter_logits, threshold)) for each in passages]
        counts = np.array([len(each) for each in kept], dtype=np.int64)
        self.max_phrase_tokens = max_phrase_tokens
        self.first_rows: Int64 = np.cumsum(counts) - counts
        self.counts: Int64 = counts
        self._ordinals: list[Int64] = [each.astype(np.int64) for each in kept]
        self._starts = [each.starts[keep] for each, keep in zip(passages, kept, strict=True)]
        self._ends = [each.ends[keep] for each, keep in zip(passages, kept, strict=True)]
        self._vectors: Float32 = np.concatenate(
            [each.vectors[keep] for each, keep in zip(passages, kept, strict=True)]
        ).astype(np.float32, copy=False)
        self._filled: Int64 = np.flatnonzero(counts > 0)

    def best_in(self, passage: int, start_vector: Float32, end_vector: Float32) -> FoundPhrase | None:
        """Return the best phrase of one passage for a query, None when the passage has no token.

        Args:
            passage: its number.
            start_vector: float32 (d,).
            end_vector: float32 (d,).
        """
        rows = slice(int(self.first_rows[passage]), int(self.first_rows[passage] + self.counts[passage]))
        vectors = self._vectors[rows]
        return self._found(passage, vectors @ start_vector, vectors @ end_vector)

    def search(self, queries: QueryVectors) -> list[FoundPhrase | None]:
        """Return the best phrase of all passages for each query, in order; None when there is no token at all.

        A passage's largest start plus its largest end score is never less than its best phrase, so passages are looked
        into in that order until none can be better.
        """
        results: list[FoundPhrase | None] = []
        n_tokens = len(self._vectors)
        if n_tokens == 0:
            return [None] * len(queries.start)
        step = max(1, _SCORE_BYTES // (8 * n_tokens))
        for begin in range(0, len(queries.start), step):
            some = slice(begin, begin + step)
            start = queries.start[some] @ self._vectors.T  # (b, n)
            end = queries.end[some] @ self._vectors.T  # (b, n)
            results += [self._best(start[i], end[i]) for i in range(len(start))]
        return results

    def _best(self, start: Float32, end: Float32) -> FoundPhrase | None:
        firsts = self.first_rows[self._filled]
        bounds = np.maximum.reduceat(start, firsts) + np.maximum.reduceat(end, firsts)
        best: FoundPhrase | None = None
        for i in np.argsort(-bounds, kind="stable").tolist():
            if best is not None and float(bounds[i]) <= best.score:
                break
            passage = int(self._filled[i])
            rows = slice(int(self.first_rows[passage]), int(self.first_rows[passage] + self.counts[passage]))
            found = self._found(passage, start[rows], end[rows])
            if found is not None and (best is None or found.score > best.score):
                best = found
        return best

    def _found(self, passage: int, start: Float32, end: Float32) -> FoundPhrase | None:
        found = best_spans(start, end, max_tokens=self.max_phrase_tokens, n=1, ordinals=self._ordinals[passage])
        if not found:
            return None
        best = found[0]
        span = Span(int(self._starts[passage][best.first]), int(self._ends[passage][best.last]))
        return FoundPhrase(passage, span, best.score)
