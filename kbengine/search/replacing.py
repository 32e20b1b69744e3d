"""Phrases that may not be shown give way to the best ones in their places that may.

Scores know no sentences: the best end of a phrase may stand in the next one. What crosses over, and what is nothing but
stop words or punctuation, is therefore replaced once its text is known, by the best of all phrases that overlap it; the
codes of a few tokens are read again for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kbengine.corpus.sentences import sentence_spans
from kbengine.search.aggregation import ScoredPhrases, rank_phrases
from kbengine.search.boundaries import Place, begins_word, ends_word, may_be_shown, trimmed_span
from kbengine.search.query_vectors import QueryVectors
from kbengine.search.rescoring import inner_products, sparse_products
from kbengine.search.scoring import expand_ranges
from kbengine.search.shard_requests import ResolveQuery
from kbengine.span import Span
from storage.compiled import compiled
from storage.languages import language_of

if TYPE_CHECKING:
    from storage.records import DocumentRecord, PassageRecord
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

MAX_TRIES = 32
"""Phrases looked at in place of one that may not be shown, the best first."""


@dataclass(frozen=True)
class Texts:
    """The passages that phrases stand in, and their documents, by their ids."""

    passages: Mapping[int, PassageRecord]
    documents: Mapping[int, DocumentRecord]

    def place(self, passage_id: int, span: Span) -> Place:
        """Return the trimmed characters as a place."""
        passage = self.passages[passage_id]
        document = self.documents[passage.document_id]
        return Place(document.title, passage.text, trimmed_span(passage.text, span), language_of(document.meta))


def without(
    snapshot: Snapshot,
    texts: Texts,
    query: ResolveQuery,
    at: Sequence[int],
    *,
    max_phrase_tokens: int,
) -> ScoredPhrases:
    """Return the phrases of a query with others in the places of those at some positions, best first.

    Among phrases one without a replacement is left out. Other units keep theirs: the unit is the answer.

    Args:
        snapshot: what is searched.
        texts: of all the phrases.
        query: whose phrases.
        at: positions of those that may not be shown.
        max_phrase_tokens: the longest phrase.
    """
    phrases = query.phrases
    changed = replace(phrases, **{name: getattr(phrases, name).copy() for name in phrases.__dataclass_fields__})
    taken = _Taken(query.taken)
    kept = np.ones(len(phrases), dtype=np.bool_)
    for i, window in zip(at, _windows(snapshot, query, at, max_phrase_tokens), strict=True):
        found = _replacement(snapshot, texts, query, i, window, taken, max_phrase_tokens)
        if found is None:
            kept[i] = query.unit != "phrase"
            continue
        changed.first_rows[i], changed.last_rows[i], changed.start[i], changed.end[i], changed.sparse[i] = found
        # In the order in which rescoring adds them up.
        changed.score[i] = changed.start[i] + changed.end[i] + changed.passage[i] + changed.lexical[i]
        changed.score[i] += changed.sparse[i] + changed.name[i]
        taken.add(int(phrases.passages[i]), found[0], found[1])
    return rank_phrases(changed.take(np.flatnonzero(kept)), len(phrases))


class _Taken:
    """The rows of the phrases that were found so far, by passage."""

    def __init__(self, own: ScoredPhrases) -> None:
        self._rows: dict[int, list[tuple[int, int]]] = {}
        for passage, first, last in zip(
            own.passages.tolist(), own.first_rows.tolist(), own.last_rows.tolist(), strict=True
        ):
            self.add(passage, first, last)

    def add(self, passage: int, first: int, last: int) -> None:
        self._rows.setdefault(passage, []).append((first, last))

    def has(self, passage: int, first: int, last: int, besides: tuple[int, int]) -> bool:
        """Tell whether a phrase overlaps another than the one given."""
        return any(first <= other[1] and other[0] <= last for other in self._rows.get(passage, ()) if other != besides)


class _Window(NamedTuple):
    """The rows of phrases that may stand in the place of another.

    Attributes:
        rows: int64 (r,), of one passage.
        token_ids: int64 (r,).
        ordinals: int64 (r,), the tokens' positions in the passage.
        scores: float32 (4, r): weighted ones as start and as end, then the sparse ones.
    """

    rows: Int64
    token_ids: Int64
    ordinals: Int64
    scores: Float32


def _windows(snapshot: Snapshot, query: ResolveQuery, at: Sequence[int], max_phrase_tokens: int) -> Iterator[_Window]:
    """Yield the rows around the phrases at some positions, of which all are looked up and scored together."""
    some = np.asarray(at, dtype=np.int64)
    passages = query.phrases.passages[some]
    begin = snapshot.first_rows[passages]
    stop = begin + snapshot.token_counts[passages]
    if not _is_anywhere(query):
        begin = np.maximum(begin, query.phrases.first_rows[some] - max_phrase_tokens + 1)
        stop = np.minimum(stop, query.phrases.last_rows[some] + max_phrase_tokens)
    rows, numbers = expand_ranges(begin, stop)
    token_ids = snapshot.token_ids_of_rows(rows)
    ordinals = snapshot.token_ordinals(rows, passages[numbers]).astype(np.int64)
    scores = _scores(snapshot, rows, query)
    ends = np.cumsum(stop - begin)
    for first, last in zip((ends - (stop - begin)).tolist(), ends.tolist(), strict=True):
        own = slice(first, last)
        yield _Window(rows[own], token_ids[own], ordinals[own], scores[:, own])


def _is_anywhere(query: ResolveQuery) -> bool:
    """Tell whether any phrase of a passage stands for it."""
    return query.unit in ("passage", "document")


def _replacement(
    snapshot: Snapshot,
    texts: Texts,
    query: ResolveQuery,
    i: int,
    window: _Window,
    taken: _Taken,
    max_phrase_tokens: int,
) -> tuple[int, int, float, float, float] | None:
    """Return rows and weighted scores of the best phrase that may be shown in the place of phrase i, None without any.

    It overlaps phrase i, and among phrases no other one; for a passage or a document it is the best of the passage.
    """
    phrases = query.phrases
    index = int(phrases.passages[i])
    first, last = int(phrases.first_rows[i]), int(phrases.last_rows[i])
    rows, begin, is_anywhere = window.rows, int(window.rows[0]), _is_anywhere(query)
    passage_id = int(snapshot.passage_ids[index])
    passage = texts.passages[passage_id]
    language = language_of(texts.documents[passage.document_id].meta)
    numbers = window.token_ids - passage.first_token_id
    at = np.minimum(passage.offsets.numbers.searchsorted(numbers), len(passage.offsets.numbers) - 1)
    if not np.array_equal(passage.offsets.numbers[at], numbers):
        return None  # a filter forgets tokens meanwhile; resolving the phrases says so
    begins, ends = passage.offsets.starts[at].astype(np.int64), passage.offsets.ends[at].astype(np.int64)
    start, end, sparse_start, sparse_end = window.scores
    sentences = np.asarray([span.start for span in sentence_spans(passage.text, language)], dtype=np.int64)
    # (rows, lengths): phrase of row a and length b + 1 ends at row a + b
    totals = np.full((len(rows), min(max_phrase_tokens, len(rows))), -np.inf, dtype=np.float32)
    _add_up(
        start + sparse_start,
        end + sparse_end,
        window.ordinals,
        sentences.searchsorted(begins, side="right"),
        sentences.searchsorted(ends - 1, side="right"),
        max_phrase_tokens,
        len(rows) - 1 if is_anywhere else last - begin,
        0 if is_anywhere else first - begin,
        totals,
    )
    starts_word = _Remembering(lambda row: begins_word(passage.text, int(begins[row])))
    ends_word_at = _Remembering(lambda row: ends_word(passage.text, int(ends[row])))
    width, flat_totals = totals.shape[1], totals.ravel()
    n_tries = 0
    for flat in np.argsort(-flat_totals, kind="stable").tolist():
        if n_tries == MAX_TRIES or not np.isfinite(flat_totals[flat]):
            break
        a, b = flat // width, flat // width + flat % width
        if not (starts_word[a] and ends_word_at[b]):
            continue
        n_tries += 1
        if query.unit == "phrase" and taken.has(index, int(rows[a]), int(rows[b]), (first, last)):
            continue
        if not may_be_shown(texts.place(passage_id, Span(int(begins[a]), int(ends[b])))):
            continue
        return (
            int(rows[a]),
            int(rows[b]),
            float(start[a]),
            float(end[b]),
            float(sparse_start[a] + sparse_end[b]),
        )
    return None


class _Remembering(dict[int, bool]):
    """What a function tells of numbers, asked once of each."""

    def __init__(self, tell: Callable[[int], bool]) -> None:
        super().__init__()
        self._tell = tell

    def __missing__(self, number: int) -> bool:
        return self.setdefault(number, self._tell(number))


@compiled()
def _add_up(
    start: Float32,
    end: Float32,
    ordinals: Int64,
    sentences_of_start: Int64,
    sentences_of_end: Int64,
    max_phrase_tokens: int,
    last_start: int,
    first_end: int,
    totals: Float32,
) -> None:
    """Write the scores of phrases, float32 (rows, lengths), that keep to one sentence and are no longer than may be.

    Those begin at `last_start` at the latest and end at `first_end` at the earliest.
    """
    for a in range(min(last_start + 1, len(start))):
        for length in range(totals.shape[1]):
            b = a + length
            if b >= len(start) or ordinals[b] - ordinals[a] >= max_phrase_tokens:
                break
            if b >= first_end and sentences_of_start[a] == sentences_of_end[b]:
                totals[a, length] = start[a] + end[b]


def _scores(snapshot: Snapshot, rows: Int64, query: ResolveQuery) -> Float32:
    """Return the rows' weighted scores as start and as end, dense and sparse, float32 (4, r)."""
    vectors = QueryVectors(query.start, query.end, query.start, None, query.sparse)
    scores = np.zeros((4, len(rows)), dtype=np.float32)
    scores[:2] = inner_products(snapshot, rows, vectors)
    sparse = sparse_products(snapshot, rows, vectors, query.weights)
    if sparse is not None:
        scores[2:] = sparse
    scores *= np.float32(query.weights.phrase)
    return scores
