"""A snapshot: all segments of one generation seen as one, with its deleted documents left out.

Rows and passages are numbered through all segments in token-id order. Nothing here changes after it was made, so
any number of threads may search one snapshot while the next is being opened.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.ann import AnnKind, TokenAnn
from storage.code_block import CodeBlock
from storage.coded_search import CodedRows, coded_rows, n_fetched, n_probed, search_coded
from storage.codes import dequantise, quantise
from storage.errors import CorruptError, UsageError
from storage.exact import Found, best_of, check_queries, empty_found
from storage.lexical_view import LexicalView
from storage.live_words import LiveWords
from storage.liveness import Liveness
from storage.postings import Bm25Options
from storage.segment import Segment
from storage.sparse_scores import SparseQuery, sparse_scores
from storage.stored_array import Stored
from storage.text_scores import TextScores

# Rows of small segments copied together for one scan; more than that are scanned where they lie.
_MAX_BLOCK_ROWS = 500_000
SCANNED_ROWS = 30_000
"""Up to so many rows that pass a filter every one is looked at: about what an index of millions reads for a query."""


@dataclass(frozen=True)
class LoadedSegment:
    """A checked segment with its two vector searches."""

    segment: Segment
    token_ann: TokenAnn
    passage_ann: TokenAnn


@dataclass(frozen=True)
class CodedNearest:
    """What a part of a search gives that seeks tokens, or passages, by their codes.

    Attributes:
        rows: Of each query the best live rows, one more than are fetched and those as good as the last.
        n_fetched: How many rows of all parts are fetched.
        n_rows: How many rows can be found here, live or not.
        is_every_list: Whether all lists were looked into.
    """

    rows: Sequence[CodedRows]
    n_fetched: int
    n_rows: int
    is_every_list: bool


class Snapshot:
    """The searchable content of one generation; immutable.

    Attributes:
        generation: The commit it shows.
        segments: The loaded segments, in token-id order.
        d: Dimension of the vectors, 0 when there are no segments.
        n_rows: Rows over all segments, dead ones included.
        n_passages: Passages over all segments, dead ones included.
        passage_ids: int64 (n_passages), strictly rising.
        document_ids: int64 (n_passages), each passage's document.
        first_token_ids: int64 (n_passages), token id of each passage's first row.
        first_rows: int64 (n_passages), row (of the snapshot) of each passage's first row.
        token_counts: int64 (n_passages), rows of each passage.
        live_passages: bool (n_passages), whether the passage's document is not deleted, and passes the filter if there
            is one.
    """

    def __init__(
        self,
        generation: int,
        segments: Sequence[LoadedSegment],
        dead_document_ids: NDArray[np.int64],
        *,
        bm25: Bm25Options | None = None,
    ) -> None:
        self.generation = generation
        self.segments = tuple(segments)
        contents = [loaded.segment.arrays for loaded in self.segments]
        _check_order(self.segments)
        self.d = contents[0].d if contents else 0
        self._row_starts = np.cumsum([0, *(content.n_rows for content in contents)])
        self._passage_starts = np.cumsum([0, *(len(content.passage_ids) for content in contents)])
        self.n_rows = int(self._row_starts[-1])
        self.n_passages = int(self._passage_starts[-1])
        self.passage_ids = _joined([content.passage_ids for content in contents])
        self.document_ids = _joined([content.document_ids for content in contents])
        self.first_token_ids = _joined([content.first_token_ids for content in contents])
        self.first_rows = _joined(
            [content.first_rows + start for content, start in zip(contents, self._row_starts, strict=False)]
        )
        self.token_counts = _joined([content.token_counts for content in contents])
        self._is_numbered = any(loaded.segment.stored_numbers is not None for loaded in self.segments)
        self._bm25 = bm25
        self._show(~np.isin(self.document_ids, dead_document_ids), scan_few=False)

    def _show(self, passages: NDArray[np.bool_], *, scan_few: bool) -> None:
        """Let searches find these passages only, bool (n_passages); `scan_few`: without an index if they are few."""
        self.live_passages = passages
        self._scan_few = scan_few
        self._live = Liveness(passages, self._passage_starts, self.token_counts)
        self._block_lock = threading.Lock()
        self._blocks: dict[AnnKind, tuple[frozenset[int], CodeBlock | None]] = {}

    @property
    def n_live_passages(self) -> int:
        """How many passages can be found."""
        return self._live.n_passages

    @property
    def n_live_rows(self) -> int:
        """How many rows can be found, whether or not an index starts from them."""
        return self._live.n_rows

    def restricted_to(self, document_ids: NDArray[np.int64]) -> Snapshot:
        """Return the same snapshot with only these of its live documents to be found; idf stays that of the whole."""
        restricted = copy.copy(self)
        restricted.words = self.words  # counted here, if it was not yet, for all restrictions
        restricted._show(self.live_passages & np.isin(self.document_ids, document_ids), scan_few=True)
        return restricted

    def without(self, document_ids: NDArray[np.int64]) -> Snapshot:
        """Return the same snapshot as if these documents had been deleted: their words do not count any more."""
        lesser = copy.copy(self)
        lesser.__dict__.pop("words", None)  # counted anew when it is asked for
        lesser._show(self.live_passages & ~np.isin(self.document_ids, document_ids), scan_few=False)
        return lesser

    # --- what a row or passage is -----------------------------------------------------------------------------

    def passages_of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the passage index of each row, int64 of the same shape."""
        self._check(rows, self.n_rows, "row")
        return np.searchsorted(self.first_rows, rows, side="right") - 1

    def token_ids_of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the token id of each row, int64 of the same shape."""
        passages = self.passages_of_rows(rows)
        ids: NDArray[np.int64] = self.first_token_ids[passages] + self._numbers(rows, passages)
        return ids

    def _numbers(self, rows: NDArray[np.int64], passages: NDArray[np.int64]) -> NDArray[np.int64]:
        """Token id of each row less the first token id of its passage, int64 of the same shape."""
        numbers = rows - self.first_rows[passages]
        if not self._is_numbered:
            return numbers
        owners = np.searchsorted(self._row_starts, rows, side="right") - 1
        for owner in np.unique(owners).tolist():
            stored = self.segments[owner].segment.stored_numbers
            if stored is not None:
                chosen = owners == owner
                numbers[chosen] = stored[rows[chosen] - self._row_starts[owner]]
        return numbers

    def passages_of_document(self, document_id: int) -> range:
        """Return the passage indices of a live document; empty for one that is not in the snapshot.

        Document ids rise with passage ids: both are allotted in the order of adding, and merging keeps it.
        """
        first, stop = np.searchsorted(self.document_ids, [document_id, document_id + 1]).tolist()
        return range(first, stop) if first < stop and self.live_passages[first] else range(0)

    def token_ordinals(self, rows: NDArray[np.int64], passages: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the position of each row (n) among all tokens of its passage, before filtering, int64 (n).

        Args:
            rows: int64 (n).
            passages: int64 (n), the passage index of each row, where it is known; None: it is looked up.
        """
        self._check(rows, self.n_rows, "row")
        stored = [loaded.segment.arrays.token_ordinals for loaded in self.segments]
        if all(each is not None for each in stored):
            return self._gather("token_ordinals", rows).astype(np.int64)
        # Where all tokens of a passage are stored, a row's place in it is the ordinal.
        ordinals = rows - self.first_rows[self.passages_of_rows(rows) if passages is None else passages]
        if any(each is not None for each in stored):
            owners = np.searchsorted(self._row_starts, rows, side="right") - 1
            for owner, own in enumerate(stored):
                if own is not None:
                    chosen = owners == owner
                    ordinals[chosen] = own[rows[chosen] - self._row_starts[owner]]
        return ordinals

    def best_logits(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the larger one of each row's filter logits, float32 (n)."""
        logits = np.concatenate(
            [np.empty(0, dtype=np.float16), *(loaded.segment.best_logits for loaded in self.segments)]
        )
        self._check(rows, self.n_rows, "row")
        return logits[rows].astype(np.float32)

    def gather(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Return the codes int8 (n, d) and scales float32 (n) of rows (n), in any order; vector = code · scale.

        Where only quantised vectors are stored they are decoded and coded as int8.
        """
        if any(loaded.segment.arrays.codes is None for loaded in self.segments):
            scale = self.segments[0].segment.arrays.token_scale
            codes, scales = quantise(self.vectors(rows), scale)
            return codes, scales.astype(np.float32)
        return self._gather("codes", rows), self._gather("scales", rows).astype(np.float32)

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the token vectors float32 (n, d) of rows (n), in any order, not normalised, as scores use them.

        They are the int8 vectors, or, where these were dropped, the decoded quantised ones.
        """
        return self._of_tokens(rows, self.d, lambda ann, own: ann.source.vectors(own))

    def served_vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the token vectors float32 (n, d) of rows (n) as the index sees them while it seeks candidates.

        Decoded codes where the index has a quantiser, whether or not other vectors are stored too; not normalised.
        Rows that are not indexed are as stored. What ranks is `vectors`.
        """
        return self._of_tokens(rows, self.d, lambda ann, own: ann.served_vectors(own))

    def inner_products(self, rows: NDArray[np.int64], targets: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the inner products float32 (n, t) of `vectors(rows)` with targets float32 (d, t), made in passing."""
        return self._of_tokens(rows, targets.shape[1], lambda ann, own: ann.source.inner_products(own, targets))

    def passage_vectors(self, passages: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors float32 (n, d) of passage indices (n), of norm 1 up to the rounding of the codes."""
        codes = self._gather("passage_codes", passages, of_passages=True)
        return dequantise(codes, self._gather("passage_scales", passages, of_passages=True))

    @property
    def has_sparse_rows(self) -> bool:
        """Whether sparse rows are stored beside the vectors."""
        return any(loaded.segment.arrays.sparse is not None for loaded in self.segments)

    def sparse_scores(
        self, rows: NDArray[np.int64], query: SparseQuery
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the sparse inner products of rows (n) with a query, start and end side, both float32 (n).

        Raises:
            UsageError: The stored rows are of another sparse encoder, or there are none.
        """
        self._check(rows, self.n_rows, "row")
        scores = np.zeros((2, len(rows)), dtype=np.float32)
        owners = np.searchsorted(self._row_starts, rows, side="right") - 1
        for owner in np.unique(owners).tolist():
            arrays = self.segments[owner].segment.arrays
            if arrays.sparse is None or arrays.sparse.model != query.model:
                stored = "none" if arrays.sparse is None else arrays.sparse.model[:12]
                raise UsageError(
                    f"segment {self.segments[owner].segment.name} has sparse rows of {stored}, the query's vectors are "
                    f"of {query.model[:12]}; use the encoder the knowledge base was built with"
                )
            chosen = np.flatnonzero(owners == owner)
            own = rows[chosen] - self._row_starts[owner]
            scores[:, chosen] = sparse_scores(
                arrays.sparse,
                query,
                own,
                passages=self.segments[owner].segment.passage_of_rows(own),
                first_rows=arrays.first_rows,
                token_counts=arrays.token_counts.astype(np.int64),
            )
        return scores[0], scores[1]

    # --- searching --------------------------------------------------------------------------------------------

    def search_tokens(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        nprobe: int | None = None,
        nprobe_factor: float = 1.0,
        exact: bool = False,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Search the best tokens of live documents: scores float32 (m, k), falling, and rows int64 (m, k).

        Scores are inner products with the stored vectors; equal scores go to the lower row; score −inf and row −1
        fill up where there are fewer than k.

        Args:
            queries: float32 (m, d).
            k: How many rows per query.
            nprobe: Lists read per query and segment; None takes each segment's default.
            nprobe_factor: Multiplies that default.
            exact: Look at every row.
        """
        return self._search("tokens", queries, k, nprobe, nprobe_factor, exact)

    def search_passages(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        nprobe: int | None = None,
        nprobe_factor: float = 1.0,
        exact: bool = False,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Search the best live passages: scores float32 (m, k), falling, and passage indices int64 (m, k).

        Arguments and order as in `search_tokens`; queries are compared with the passage vectors.
        """
        return self._search("passages", queries, k, nprobe, nprobe_factor, exact)

    def scans_all(self, kind: AnnKind) -> bool:
        """Return whether every search looks at all rows, or passages, so that parts can be searched one by one."""
        return all(ann.scans_all for ann in self._anns(kind))

    def coded_nearest(
        self,
        kind: AnnKind,
        queries: NDArray[np.float32],
        k: int,
        *,
        nprobe: int | None = None,
        nprobe_factor: float = 1.0,
        n_more: int = 0,
    ) -> CodedNearest | None:
        """Search the tokens, or passages, that are best by their codes, for a search of which this is a part.

        Args:
            kind: Which vectors.
            queries: float32 (m, d).
            k: How many rows per query are wanted of all parts.
            nprobe: As in `search_tokens`.
            nprobe_factor: As in `search_tokens`.
            n_more: How often less effort found too little.

        Returns:
            None where the segments have not one quantiser, so that what is found here says nothing about elsewhere.
        """
        anns = self._anns(kind)
        quantiser = next((ann.quantiser for ann in anns), None)
        if quantiser is None or any(ann.quantiser is None or ann.quantiser.name != quantiser.name for ann in anns):
            return None
        queries = check_queries(queries, k, d=self.d)
        masks = self._live.by_segment(kind)
        parts = [
            ann.coded_part(first_row=int(start), live=live)
            for ann, start, live in zip(anns, self._starts(kind), masks, strict=False)
        ]
        fetch = n_fetched(k, anns[0].refine, n_more)
        probes = n_probed(quantiser, anns[0].probes(quantiser.nlist, nprobe, nprobe_factor), n_more)
        rows = coded_rows(quantiser, parts, queries, fetch, probes)
        return CodedNearest(rows, fetch, sum(part.n_rows for part in parts), probes >= quantiser.nlist)

    def lexical_scores(self, query: Mapping[str, float] | str) -> NDArray[np.float32]:
        """Return the BM25 scores float32 (n_passages) of a text or of weighted terms; 0 for dead passages."""
        return self._live.silence(self.words.own_scores(query))

    def found(self, scores: TextScores) -> TextScores:
        """Return the scores of those of some passages that can be found."""
        return scores if self._live.is_all else scores.where(self.live_passages[scores.numbers])

    def found_documents(self, scores: TextScores) -> TextScores:
        """Return the scores of those of some documents, numbered from 0 in order, that can be found."""
        if self._live.is_all:
            return scores
        return scores.where(self.live_passages[self.words.first_passages[scores.numbers]])

    def passages_with_term(self, term: str) -> NDArray[np.int64]:
        """Return the live passages that have a term (see `storage.terms`), their indices rising, int64 (n)."""
        passages = self.words.passages_with_term(term)
        return passages[self.live_passages[passages]]

    def document_lexical_scores(self, query: Mapping[str, float] | str) -> NDArray[np.float32]:
        """Return the BM25 score of each passage's whole document, float32 (n_passages); 0 for dead passages."""
        scores = self.words.own_document_scores(query)
        if not len(scores):
            return np.zeros(self.n_passages, dtype=np.float32)
        return self._live.silence(scores[self.words.document_numbers])

    @cached_property
    def words(self) -> LiveWords:
        """The words of the documents that are not deleted, whether or not a filter lets them pass."""
        view = LexicalView([loaded.segment.arrays.postings for loaded in self.segments], self._bm25)
        return LiveWords(view, self.document_ids, self.live_passages)

    def _search(
        self,
        kind: AnnKind,
        queries: NDArray[np.float32],
        k: int,
        nprobe: int | None,
        nprobe_factor: float,
        exact: bool,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        d = self.d if self.segments else queries.shape[-1]
        queries = check_queries(queries, k, d=d)
        found: list[Found] = [empty_found(len(queries), k)]
        in_block, block = self._block(kind)
        if block is not None:
            found.append(block.search(queries, k))
        exact = exact or self._has_few(kind)
        starts, anns = self._starts(kind), self._anns(kind)
        coded = {} if exact else self._coded(kind, in_block)
        for members in coded.values():
            ann = anns[members[0]]
            assert ann.quantiser is not None
            masks = self._live.by_segment(kind)
            parts = [anns[number].coded_part(first_row=int(starts[number]), live=masks[number]) for number in members]
            probes = ann.probes(ann.quantiser.nlist, nprobe, nprobe_factor)
            found.append(search_coded(ann.quantiser, parts, queries, k, nprobe=probes, refine=ann.refine))
        apart = in_block.union(*coded.values())
        for number, ann in enumerate(anns):
            if number in apart:
                continue
            live = self._live.by_segment(kind)[number]
            scores, rows = ann.search(queries, k, nprobe=nprobe, nprobe_factor=nprobe_factor, exact=exact, live=live)
            found.append(Found(scores, np.where(rows >= 0, rows + starts[number], -1)))
        best = best_of(found, k)
        return best.scores, best.rows

    def _coded(self, kind: AnnKind, in_block: frozenset[int]) -> dict[str, list[int]]:
        """Return the segments, but for those in the block, that are searched together, by what codes them."""
        members: dict[str, list[int]] = {}
        for number, ann in enumerate(self._anns(kind)):
            if number not in in_block and ann.quantiser is not None:
                members.setdefault(ann.quantiser.name, []).append(number)
        return members

    def _anns(self, kind: AnnKind) -> list[TokenAnn]:
        return [loaded.token_ann if kind == "tokens" else loaded.passage_ann for loaded in self.segments]

    def _starts(self, kind: AnnKind) -> NDArray[np.int64]:
        """Return where the numbers of each segment's rows, or passages, start."""
        return self._row_starts if kind == "tokens" else self._passage_starts

    def _has_few(self, kind: AnnKind) -> bool:
        """Return whether a filter leaves so few rows that looking at each is faster, and sure to find k."""
        return self._scan_few and self._live.count(kind) <= SCANNED_ROWS

    def _block(self, kind: AnnKind) -> tuple[frozenset[int], CodeBlock | None]:
        """Return the segments that are searched in one scan of their live rows, and these, copied at the first search.

        They are the small segments, unless these are too many together, and all when few rows are live.
        """
        with self._block_lock:
            if kind not in self._blocks:
                anns, live = self._anns(kind), self._live.by_segment(kind)
                few = self._has_few(kind)
                chosen = [i for i, ann in enumerate(anns) if ann.is_exact or (few and ann.has_codes)]
                found = [(anns[i], anns[i].findable(live[i])) for i in chosen]
                n_rows = sum(ann.n_rows if mask is None else int(mask.sum()) for ann, mask in found)
                if not chosen or n_rows > _MAX_BLOCK_ROWS:
                    self._blocks[kind] = frozenset(), None
                else:
                    starts = self._starts(kind)
                    parts = [anns[i].block_part(first_row=int(starts[i]), live=live[i]) for i in chosen]
                    block = CodeBlock(parts, common=anns[chosen[0]].common_scale, d=self.d)
                    self._blocks[kind] = frozenset(chosen), block
            return self._blocks[kind]

    # --- gathering --------------------------------------------------------------------------------------------

    def _gather(self, name: str, numbers: NDArray[np.int64], *, of_passages: bool = False) -> NDArray[Any]:
        """Return the entries of one array of the segments for rows or passages of the snapshot, in the order asked."""
        starts = self._passage_starts if of_passages else self._row_starts
        self._check(numbers, int(starts[-1]), "passage" if of_passages else "row")
        arrays: list[Stored[Any]] = [getattr(loaded.segment.arrays, name) for loaded in self.segments]
        if len(arrays) == 1:
            return arrays[0][numbers]
        if not len(numbers):
            width = (self.d,) if name in ("codes", "passage_codes") else ()
            return np.empty((0, *width), dtype=arrays[0].dtype if arrays else np.int8)
        # Segments store small numbers in as many bytes as each of them needs.
        gathered = np.empty(
            (len(numbers), *arrays[0].shape[1:]), dtype=np.result_type(*(array.dtype for array in arrays))
        )
        if (numbers[1:] >= numbers[:-1]).all():
            cuts = np.searchsorted(numbers, starts)
            for array, start, first, stop in zip(arrays, starts[:-1], cuts[:-1], cuts[1:], strict=True):
                if first < stop:
                    gathered[first:stop] = array[numbers[first:stop] - start]
            return gathered
        owners = np.searchsorted(starts, numbers, side="right") - 1
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            chosen = np.flatnonzero(owners == owner)
            gathered[chosen] = arrays[owner][numbers[chosen] - starts[owner]]
        return gathered

    def _of_tokens(
        self,
        rows: NDArray[np.int64],
        width: int,
        compute: Callable[[TokenAnn, NDArray[np.int64]], NDArray[np.float32]],
    ) -> NDArray[np.float32]:
        """Return what `compute` gives for rows of each segment, float32 (n, width), in the order asked."""
        self._check(rows, self.n_rows, "row")
        if len(self.segments) == 1:
            return compute(self.segments[0].token_ann, rows)
        gathered = np.empty((len(rows), width), dtype=np.float32)
        if (rows[1:] >= rows[:-1]).all():
            cuts = np.searchsorted(rows, self._row_starts).tolist()
            for owner, (first, stop) in enumerate(itertools.pairwise(cuts)):
                if first < stop:
                    own = rows[first:stop] - self._row_starts[owner]
                    gathered[first:stop] = compute(self.segments[owner].token_ann, own)
            return gathered
        owners = np.searchsorted(self._row_starts, rows, side="right") - 1
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            chosen = np.flatnonzero(owners == owner)
            gathered[chosen] = compute(self.segments[owner].token_ann, rows[chosen] - self._row_starts[owner])
        return gathered

    def _check(self, numbers: NDArray[np.int64], end: int, noun: str) -> None:
        # Negative numbers would silently count from the end in numpy.
        if numbers.size and not (int(numbers.min()) >= 0 and int(numbers.max()) < end):
            raise UsageError(
                f"{noun} numbers run from {numbers.min()} to {numbers.max()}, the snapshot has {end}; "
                f"use the numbers of the same snapshot and drop the −1 of missing results"
            )


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    joined = np.concatenate([np.empty(0, dtype=np.int64), *parts]).astype(np.int64, copy=False)
    joined.flags.writeable = False
    return joined


def _check_order(segments: Sequence[LoadedSegment]) -> None:
    for left, right in itertools.pairwise(loaded.segment for loaded in segments):
        if left.d != right.d:
            raise CorruptError(
                f"segment {left.name} has dimension {left.d}, segment {right.name} has {right.d}, expected one for all"
            )
        ids_rise = left.arrays.passage_ids[-1] < right.arrays.passage_ids[0]
        if left.file.end_token_id > right.file.first_token_id or not ids_rise:
            raise CorruptError(
                f"segments {left.name} and {right.name} overlap or are out of order: tokens up to "
                f"{left.file.end_token_id}, then from {right.file.first_token_id}; expected token-id order"
            )
