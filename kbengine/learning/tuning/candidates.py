"""What the knowledge base gives for a query now: phrases with the vectors it serves, and which of them are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.learning.tuning.judging import FoundPhrases, Judge
from kbengine.learning.tuning.losses import Loss
from kbengine.learning.tuning.reading import PassageReader, ReaderScores, ReadingTeacher
from kbengine.learning.tuning.rows import TuningRow
from kbengine.learning.tuning.stored_texts import StoredTexts
from kbengine.search.query import Effort, Query, SearchOptions, Weights
from kbengine.search.weighted_candidates import signals_of

if TYPE_CHECKING:
    from kbengine.encoders.encoder import QueryVectors
    from kbengine.search.aggregation import ScoredPhrases
    from kbengine.search.searcher import Searcher
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

Retrieval = Literal["dense", "fused", "both"]
RETRIEVALS: tuple[Retrieval, ...] = get_args(Retrieval)
PHRASES_ALONE = Weights(phrase=1.0, passage=0.0, lexical=0.0, sparse=0.0)
_MAX_RETRIES = 5


@dataclass(frozen=True)
class Candidates:
    """The candidates of B queries, padded to C phrases and P passages each.

    Attributes:
        start: float32 (B, C, d), the vectors of first tokens that ranking uses, not normalised.
        end: float32 (B, C, d), of last tokens.
        is_phrase: bool (B, C), false at padding.
        is_right: bool (B, C), what the loss calls right.
        passage: float32 (B, P, d), the vectors of the passages that the phrases are of, of norm 1.
        is_passage: bool (B, P), false at padding.
        is_right_passage: bool (B, P), passages that hold a right phrase.
        passage_of: int64 (B, C), the place among the P of each phrase's passage, 0 at padding.
        lexical: float32 (B, C), the weighted lexical and name parts of each phrase's fused score, 0 at padding.
        reader: float32 (B, C), a reader's score of each phrase, 0 where it read none.
        is_read: bool (B, C), phrases that a reader scored; false everywhere without a reader.
    """

    start: Float32
    end: Float32
    is_phrase: Bool
    is_right: Bool
    passage: Float32
    is_passage: Bool
    is_right_passage: Bool
    passage_of: Int64
    lexical: Float32
    reader: Float32
    is_read: Bool


class CandidateSource:
    """Retrieves candidates with query vectors that may be another encoder's every time.

    The vectors are those that ranking uses, so that what is learned holds for it: int8 ones, also where the index seeks
    among codes, and decoded codes where int8 ones were dropped.
    """

    def __init__(
        self,
        searcher: Searcher,
        *,
        top_k: int,
        retrieval: Retrieval,
        loss: Loss,
        effort: Effort = "normal",
        with_lexical: bool = True,
        reader: PassageReader | None = None,
        n_read: int = 10,
    ) -> None:
        """Search the knowledge base that the searcher reads.

        Args:
            searcher: of any encoder; what searches is given to `find`.
            top_k: phrases of each query and way of retrieval.
            retrieval: "dense": the best by phrase vectors alone; "fused": the best by all signals, which finds answers
                that the vectors miss; "both": all of these.
            loss: what is right.
            effort: of the searches.
            with_lexical: whether `Candidates.lexical` is wanted; it is all zeros else, and costs nothing.
            reader: scores the phrases of the passages that are best; None: nothing is read.
            n_read: passages that it reads of each query.
        """
        self._reader = searcher.reader
        self._searcher = searcher
        self._retrieval = retrieval
        self._options = SearchOptions(k=top_k, effort=effort)
        texts = StoredTexts(searcher.reader)
        self._judge = Judge(texts, loss)
        self._loss = loss
        self._with_lexical = with_lexical
        self._teacher = None if reader is None else ReadingTeacher(reader, texts, n_passages=n_read)

    @property
    def reader_fingerprint(self) -> str | None:
        """Return the fingerprint of the reader, None without one."""
        return None if self._teacher is None else self._teacher.fingerprint

    def find(self, rows: Sequence[TuningRow], encoded: QueryVectors) -> Candidates:
        """Return the candidates of the rows' queries, found by their vectors in the newest commit."""
        queries = [row.query for row in rows]
        for _ in range(_MAX_RETRIES):
            snapshot = self._reader.snapshot()
            searched = self._searcher.candidates(
                snapshot,
                queries,
                encoded,
                self._options,
                self._weightings(queries),
                of_ends_too=[self._tells_boundaries(row) for row in rows],
            )
            found = [_distinct(each) for each in searched]
            judged = self._judge.judge(snapshot, rows, found)
            taught = self._teach(snapshot, rows, found, searched)
            if judged is not None and taught is not None:
                return _padded(snapshot, found, judged, self._lexical(snapshot, queries, found), taught)
        raise StateError(f"the knowledge base was compacted {_MAX_RETRIES} times during one search; try again")

    def _tells_boundaries(self, row: TuningRow) -> bool:
        """Return whether one phrase of a place may be right and another wrong.

        Where all phrases of a document are right alike, more of them at one place would only leave room for fewer
        documents.
        """
        return self._teacher is not None or row.right_by(self._loss) in ("phrase", "joint")

    def _teach(
        self,
        snapshot: Snapshot,
        rows: Sequence[TuningRow],
        found: Sequence[FoundPhrases],
        searched: Sequence[Sequence[ScoredPhrases]],
    ) -> list[ReaderScores] | None:
        """Return what the reader says about each row's phrases; None when a commit forgot some of them."""
        if self._teacher is None:
            counts = [len(each.passages) for each in found]
            return [ReaderScores(np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.bool_)) for n in counts]
        return self._teacher.teach(snapshot, rows, found, [[each.passages for each in lists] for lists in searched])

    def _weightings(self, queries: Sequence[Query]) -> list[list[Weights]]:
        """Return the weights to search with, one for each query."""
        both = [[PHRASES_ALONE] * len(queries), [query.weights for query in queries]]
        return {"dense": both[:1], "fused": both[1:], "both": both}[self._retrieval]

    def _lexical(self, snapshot: Snapshot, queries: Sequence[Query], found: Sequence[FoundPhrases]) -> list[Float32]:
        """Return the weighted lexical and name parts of each phrase's fused score, float32 (c,) for each query."""
        if not self._with_lexical:
            return [np.zeros(len(each.passages), dtype=np.float32) for each in found]
        parts = []
        weights = [query.weights for query in queries]
        for query, each, signals in zip(
            queries, found, signals_of(self._reader, snapshot, queries, weights), strict=True
        ):
            scores = np.zeros(len(each.passages), dtype=np.float32)
            if signals.lexical is not None:
                scores = signals.lexical.of(each.passages) * np.float32(query.weights.lexical)
            if signals.names is not None:
                scores = scores + signals.names.of(each.passages) * np.float32(query.weights.name)
            parts.append(scores.astype(np.float32))
        return parts


def _distinct(found: Sequence[ScoredPhrases]) -> FoundPhrases:
    """Return the phrases of several searches, each once."""
    stacked = np.stack(
        [np.concatenate([getattr(each, name) for each in found]) for name in ("first_rows", "last_rows", "passages")],
        axis=1,
    )
    _, at = np.unique(stacked[:, :2], axis=0, return_index=True)
    kept = stacked[np.sort(at)]
    return FoundPhrases(kept[:, 0], kept[:, 1], kept[:, 2])


def _padded(
    snapshot: Snapshot,
    found: Sequence[FoundPhrases],
    judged: Sequence[Bool],
    lexical_parts: Sequence[Float32],
    taught: Sequence[ReaderScores],
) -> Candidates:
    """Return the phrases of all queries as arrays, each vector decoded once."""
    B, C = len(found), max(1, *(len(each.first_rows) for each in found))
    rows, places = np.unique(
        np.concatenate([np.concatenate([each.first_rows, each.last_rows]) for each in found]), return_inverse=True
    )
    vectors = snapshot.vectors(rows)
    d = snapshot.d
    start, end = (np.zeros((B, C, d), dtype=np.float32) for _ in range(2))
    is_phrase, is_right = (np.zeros((B, C), dtype=np.bool_) for _ in range(2))
    distinct = [np.unique(each.passages) for each in found]
    P = max(1, *(len(each) for each in distinct))
    passage = np.zeros((B, P, d), dtype=np.float32)
    is_passage, is_right_passage = (np.zeros((B, P), dtype=np.bool_) for _ in range(2))
    passage_of = np.zeros((B, C), dtype=np.int64)
    lexical, reader = (np.zeros((B, C), dtype=np.float32) for _ in range(2))
    is_read = np.zeros((B, C), dtype=np.bool_)
    position = 0
    for i, each in enumerate(found):
        n = len(each.first_rows)
        start[i, :n] = vectors[places[position : position + n]]
        end[i, :n] = vectors[places[position + n : position + 2 * n]]
        position += 2 * n
        is_phrase[i, :n] = True
        is_right[i, :n] = judged[i]
        passage_of[i, :n] = np.searchsorted(distinct[i], each.passages)
        lexical[i, :n] = lexical_parts[i]
        reader[i, :n], is_read[i, :n] = taught[i].scores, taught[i].is_read
        passage[i, : len(distinct[i])] = snapshot.passage_vectors(distinct[i])
        is_passage[i, : len(distinct[i])] = True
        is_right_passage[i, : len(distinct[i])] = np.isin(distinct[i], each.passages[judged[i]])
    return Candidates(
        start, end, is_phrase, is_right, passage, is_passage, is_right_passage, passage_of, lexical, reader, is_read
    )
