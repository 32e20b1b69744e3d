"""What a reader says about candidates: it reads a query with the passages that were found, and scores the phrases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from kbengine.encoders.encoder import PassageText
from kbengine.learning.tuning.judging import FoundPhrases
from kbengine.learning.tuning.rows import TuningRow
from kbengine.learning.tuning.stored_texts import StoredTexts, phrase_offsets

if TYPE_CHECKING:
    from kbengine.inputs import TaskInput
    from kbengine.reading.inputs import Passage
    from kbengine.reading.spans import PassageLogits
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

MAX_READINGS = 1 << 16
"""Passages whose logits are kept: some 100 MB. Every epoch finds most of them again."""


class PassageReader(Protocol):
    """What reads for tuning; `kbengine.reading.reader.Reader` does."""

    @property
    def fingerprint(self) -> str:
        """A text that differs between readers."""

    def logits(
        self, queries: Sequence[TaskInput], passages: Sequence[Passage], *, truncate: bool = False
    ) -> list[PassageLogits]:
        """Return all that it says about each pair of a query and a passage."""


@dataclass(frozen=True)
class ReaderScores:
    """What a reader says about the c phrases of a query.

    Attributes:
        scores: float32 (c,), start + end logit − that of "no answer" + the passage's relevance; 0 where not read.
        is_read: bool (c,), phrases of the passages that were read.
    """

    scores: Float32
    is_read: Bool


class ReadingTeacher:
    """Scores the phrases of the best passages of each query by a reader; what was read once is kept."""

    def __init__(self, reader: PassageReader, texts: StoredTexts, *, n_passages: int) -> None:
        """Read with this reader.

        Args:
            reader: the reader.
            texts: what is stored.
            n_passages: how many passages are read for a query: those that its searches rank best, in turn.
        """
        self.fingerprint = reader.fingerprint
        self._reader = reader
        self._texts = texts
        self._n_passages = n_passages
        self._queries: dict[str, int] = {}
        self._readings: dict[tuple[int, int], PassageLogits] = {}

    def teach(
        self,
        snapshot: Snapshot,
        rows: Sequence[TuningRow],
        found: Sequence[FoundPhrases],
        ranked: Sequence[Sequence[Int64]],
    ) -> list[ReaderScores] | None:
        """Return what the reader says about each row's phrases; None when a commit forgot some of their passages.

        Args:
            snapshot: what was searched.
            rows: what was asked.
            found: the distinct phrases of each row.
            ranked: for each row and search the passages of its phrases, best first: int64 (c,), with repetitions.
        """
        chosen = [best_passages(lists, self._n_passages) for lists in ranked]
        together = np.unique(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.int64)
        self._texts.use(snapshot)
        if not self._texts.read_documents(snapshot.document_ids[together]):
            return None
        if not self._texts.read_passages(snapshot.passage_ids[together]):
            return None
        self._read(snapshot, rows, chosen)
        taught = []
        for row, each, passages in zip(rows, found, chosen, strict=True):
            scores = self._scores(snapshot, row, each, passages)
            if scores is None:
                return None
            taught.append(scores)
        return taught

    def _read(self, snapshot: Snapshot, rows: Sequence[TuningRow], chosen: Sequence[Int64]) -> None:
        """Read the passages of each row that were not read with its query before."""
        if len(self._readings) > MAX_READINGS:
            self._readings = {}
        queries: list[TaskInput] = []
        passages: list[PassageText] = []
        keys = []
        for row, some in zip(rows, chosen, strict=True):
            for passage_id, document_id in zip(
                snapshot.passage_ids[some].tolist(), snapshot.document_ids[some].tolist(), strict=True
            ):
                key = (self._number(row), passage_id)
                if key not in self._readings:
                    queries.append(_asked(row))
                    passages.append(
                        PassageText(self._texts.documents[document_id].title, self._texts.passages[passage_id].text)
                    )
                    keys.append(key)
        if keys:
            logits = self._reader.logits(queries, passages, truncate=True)
            self._readings |= dict(zip(keys, logits, strict=True))

    def _scores(self, snapshot: Snapshot, row: TuningRow, found: FoundPhrases, chosen: Int64) -> ReaderScores | None:
        scores = np.zeros(len(found.passages), dtype=np.float32)
        is_read = np.zeros(len(found.passages), dtype=np.bool_)
        for passage, passage_id in zip(chosen.tolist(), snapshot.passage_ids[chosen].tolist(), strict=True):
            at = np.flatnonzero(found.passages == passage)
            first, last = (snapshot.token_ids_of_rows(each[at]) for each in (found.first_rows, found.last_rows))
            offsets = phrase_offsets(self._texts.passages[passage_id], first, last)
            if offsets is None:
                return None
            scores[at], is_read[at] = span_scores(self._readings[self._number(row), passage_id], *offsets)
        return ReaderScores(scores, is_read)

    def _number(self, row: TuningRow) -> int:
        """Return a number for what the row asks, the same for equal ones."""
        return self._queries.setdefault(repr(_asked(row)), len(self._queries))


def _asked(row: TuningRow) -> TaskInput:
    """Return what a reader is asked, as a search asks it."""
    return row.query.reading or row.query.input


def best_passages(ranked: Sequence[Int64], n: int) -> Int64:
    """Return the first n distinct passages of several rankings, taken in turn: int64 (at most n,).

    >>> best_passages([np.array([4, 4, 7]), np.array([5, 4, 6])], 3)
    array([4, 5, 7])
    """
    turns = zip_longest(*(each.tolist() for each in ranked))
    distinct = dict.fromkeys(passage for turn in turns for passage in turn if passage is not None)
    return np.array(list(distinct)[:n], dtype=np.int64)


def span_scores(logits: PassageLogits, begins: Int64, ends: Int64) -> tuple[Float32, Bool]:
    """Return the reader's score of each span of a passage, float32 (c,), and which it has tokens for, bool (c,).

    A span is scored from the reader's token that holds its first character to the one that holds its last: its
    score − that of "no answer" + relevance.

    Args:
        logits: of the passage.
        begins: int64 (c,), the first character of each span.
        ends: int64 (c,), the character after its last.
    """
    n = len(logits.starts)
    if not n or not len(begins):
        return np.zeros(len(begins), dtype=np.float32), np.zeros(len(begins), dtype=np.bool_)
    first = np.searchsorted(logits.starts, begins, side="right") - 1
    last = np.searchsorted(logits.ends, ends, side="left")
    has_tokens = (first >= 0) & (last < n) & (first <= last)
    first, last = np.where(has_tokens, first, 0), np.where(has_tokens, last, 0)
    has_tokens &= (logits.ends[first] > begins) & (logits.starts[last] < ends)
    scores = logits.score(first, last) + np.float32(logits.relevance - logits.no_answer)
    return np.where(has_tokens, scores, 0).astype(np.float32), has_tokens
