"""Approximate nearest neighbours of one segment: FAISS lists over the segment's own int8 codes.

The file in `index/` holds only centroids and the order of rows; the lists themselves are filled from the codes
when the segment is loaded. FAISS sees the codes as bytes of an 8-bit scalar quantiser whose range is chosen such
that a byte decodes to exactly the int8 value: one common scale then turns its scores into inner products.
Whatever FAISS returns is scored again from the codes and each row's own scale.
"""

from __future__ import annotations

import itertools
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.ann_lists import (
    AnnKind,
    AnnLists,
    AnnOptions,
    AnnSource,
    Progress,
    ann_path,
    build_lists,
    read_lists,
    write_lists,
)
from storage.code_block import BlockPart, as_faiss_bytes, decode_exactly
from storage.codes import check_scale, dequantise
from storage.errors import CorruptError, InvalidOptionError, KBError
from storage.exact import Found, check_queries, score_rows, search_codes
from storage.segment import Segment

__all__ = ["AnnKind", "AnnOptions", "Progress", "TokenAnn", "ann_path", "ann_source", "build_ann", "load_ann"]

_log = logging.getLogger(__name__)
_FILL_ROWS = 1 << 16
# Below this share of live rows FAISS skips dead ones itself; above it, fetching a few more is faster.
_SELECT_BELOW = 0.5
# Fetched beyond k: rows whose own scale FAISS does not see may deserve a better place.
_SPARE_ROWS = 16


class TokenAnn:
    """Search over the token vectors, or the passage vectors, of one segment; safe to share between threads.

    Attributes:
        source: The vectors.
        options: How the lists were built and are asked.
        lists: The lists; None where every search is exact.
    """

    def __init__(self, source: AnnSource, lists: AnnLists | None, options: AnnOptions) -> None:
        self.source = source
        self.options = options
        self.lists = lists
        self._index = None if lists is None else _FilledIndex.of(source, lists)

    @property
    def n_rows(self) -> int:
        """How many vectors can be found."""
        return len(self.source.codes)

    @property
    def is_exact(self) -> bool:
        """Whether every search scans all rows."""
        return self._index is None

    def search(
        self,
        queries: NDArray[np.float32],
        k: int,
        *,
        nprobe: int | None = None,
        nprobe_factor: float = 1.0,
        exact: bool = False,
        live: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """The scores float32 (m, k), falling, and rows int64 (m, k) of each query's best rows.

        Scores are inner products with the stored vectors, row scales included; equal scores go to the lower row.
        Where there are fewer than k rows, score −inf and row −1 fill up.

        Args:
            queries: float32 (m, d).
            k: How many rows per query.
            nprobe: Lists read per query, at most all of them; None takes the default of the options.
            nprobe_factor: Multiplies that default: less or more effort whatever the segment's size.
            exact: Look at every row.
            live: bool (n), which rows may be returned; None allows all.
        """
        queries = check_queries(queries, k, d=self.source.codes.shape[1])
        if nprobe is not None and nprobe < 1:
            raise InvalidOptionError(f"nprobe is {nprobe}, expected at least 1")
        if exact or self._index is None:
            found = search_codes(self.source.codes, self.source.scales, queries, k, live=live)
        else:
            nlist = len(self._index.lists.centroids)
            probes = round(self.options.probes_for(nlist) * nprobe_factor) if nprobe is None else nprobe
            probes = max(1, min(probes, nlist))
            found = self._probe(queries, k, probes=probes, live=live)
        return found.scores, found.rows

    def block_part(self, *, first_row: int, live: NDArray[np.bool_] | None) -> BlockPart:
        """The live rows, numbered from `first_row`, for scanning together with other segments."""
        rows = np.arange(self.n_rows) if live is None else np.flatnonzero(live)
        return BlockPart(self.source.codes[rows], self.source.scales[rows], rows + first_row)

    def _probe(self, queries: NDArray[np.float32], k: int, *, probes: int, live: NDArray[np.bool_] | None) -> Found:
        n_live = self.n_rows if live is None else int(np.count_nonzero(live))
        share = n_live / max(self.n_rows, 1)
        selector = None
        fetch = k + _SPARE_ROWS
        if live is not None and share < _SELECT_BELOW:
            selector = _Selector.of(live)
        elif live is not None:
            fetch = math.ceil(1.1 * fetch / share)
        return self._fetch(queries, k, fetch, probes, live=live, selector=selector, wanted=min(k, n_live))

    def _fetch(
        self,
        queries: NDArray[np.float32],
        k: int,
        fetch: int,
        probes: int,
        *,
        live: NDArray[np.bool_] | None,
        selector: _Selector | None,
        wanted: int,
    ) -> Found:
        """The best k live rows; asks again, for the queries that got fewer than `wanted`, with more effort.

        Each query's effort depends on its own results alone, never on the queries it came with.
        """
        assert self._index is not None
        fetch = min(fetch, self.n_rows)
        rows = self._index.search(queries, fetch, probes, selector)
        exhausted = rows[:, -1] < 0
        if live is not None and selector is None:
            rows = np.where((rows >= 0) & live[rows], rows, -1)
        found = self._scored(queries, rows, k)
        lacking = (found.rows >= 0).sum(axis=1) < wanted
        nlist = len(self._index.lists.centroids)
        for group, more_fetch, more_probes in (
            (lacking & ~exhausted, fetch * 4, probes),
            (lacking & exhausted, fetch, probes * 4),
        ):
            chosen = np.flatnonzero(group)
            if len(chosen) and (fetch < self.n_rows or probes < nlist):
                again = self._fetch(
                    queries[chosen],
                    k,
                    more_fetch,
                    min(more_probes, nlist),
                    live=live,
                    selector=selector,
                    wanted=wanted,
                )
                found.scores[chosen], found.rows[chosen] = again.scores, again.rows
        return found

    def _scored(self, queries: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> Found:
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        for index, query in enumerate(queries):
            valid = rows[index] >= 0
            chosen = rows[index, valid]
            vectors = dequantise(self.source.codes[chosen], self.source.scales[chosen])
            scores[index, valid] = score_rows(vectors, query)
        if rows.shape[1] < k:
            padding = ((0, 0), (0, k - rows.shape[1]))
            scores = np.pad(scores, padding, constant_values=-np.inf)
            rows = np.pad(rows, padding, constant_values=-1)
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return Found(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))


@dataclass(frozen=True)
class _Selector:
    """A FAISS selector of live rows, with the bitmap it points into."""

    bitmap: NDArray[np.uint8]
    selector: Any

    @classmethod
    def of(cls, live: NDArray[np.bool_]) -> _Selector:
        bitmap = np.packbits(live, bitorder="little")
        return cls(bitmap, faiss.IDSelectorBitmap(len(bitmap), faiss.swig_ptr(bitmap)))


@dataclass(frozen=True)
class _FilledIndex:
    """A FAISS index filled from a segment's codes, with the objects that it points to."""

    lists: AnnLists
    index: Any
    quantizer: Any
    inverted_lists: Any

    @classmethod
    def of(cls, source: AnnSource, lists: AnnLists) -> _FilledIndex:
        nlist, d = lists.centroids.shape
        quantizer = faiss.IndexFlatIP(d)
        quantizer.add(np.ascontiguousarray(lists.centroids, dtype=np.float32))
        index = faiss.IndexIVFScalarQuantizer(
            quantizer, d, nlist, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.by_residual = False
        decode_exactly(index.sq, d)
        index.is_trained = True
        inverted_lists = faiss.ArrayInvertedLists(nlist, index.code_size)
        _fill(inverted_lists, source, lists)
        index.replace_invlists(inverted_lists, False)
        index.ntotal = len(lists.order)
        return cls(lists, index, quantizer, inverted_lists)

    def search(
        self, queries: NDArray[np.float32], k: int, nprobe: int, selector: _Selector | None
    ) -> NDArray[np.int64]:
        """The rows int64 (m, k) that FAISS finds, −1 where there are fewer."""
        # The keywords are FAISS's own addition to a generated class, unknown to its type stubs.
        parameters = faiss.SearchParametersIVF(  # type: ignore[call-arg]
            nprobe=nprobe, sel=None if selector is None else selector.selector
        )
        _, rows = self.index.search(queries, k, params=parameters)
        return np.asarray(rows, dtype=np.int64)


def _fill(inverted_lists: Any, source: AnnSource, lists: AnnLists) -> None:
    starts = lists.list_starts
    common = np.float16(check_scale(source.common))
    n_lists = len(starts) - 1
    first = 0
    while first < n_lists:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _FILL_ROWS, side="right")) - 1)
        base = int(starts[first])
        rows = lists.order[base : int(starts[last])].astype(np.int64)
        codes = source.codes[rows]
        scales = source.scales[rows]
        own = np.flatnonzero(scales != common)
        if len(own):
            # FAISS knows one scale: rows with a larger one are shown to it at the common scale, as far as they fit.
            ratio = scales[own].astype(np.float32) / np.float32(common)
            codes[own] = np.clip(np.rint(codes[own] * ratio[:, None]), -127, 127).astype(np.int8)
        raw = as_faiss_bytes(codes)
        bounds = (starts[first : last + 1] - base).tolist()
        for number, (start, end) in enumerate(itertools.pairwise(bounds), start=first):
            if end > start:
                part, ids = raw[start:end], rows[start:end]
                inverted_lists.add_entries(number, end - start, faiss.swig_ptr(ids), faiss.swig_ptr(part))
        first = last


def ann_source(segment: Segment, kind: AnnKind) -> AnnSource:
    """The vectors of a segment that a search of this kind looks at."""
    arrays = segment.arrays
    if kind == "tokens":
        return AnnSource(segment.file.sha256, kind, arrays.codes, arrays.scales, arrays.token_scale)
    return AnnSource(segment.file.sha256, kind, arrays.passage_codes, arrays.passage_scales, arrays.passage_scale)


def build_ann(
    segment: Segment, kind: AnnKind, options: AnnOptions | None = None, *, progress: Progress | None = None
) -> TokenAnn:
    """Search over a segment's vectors, built from scratch in memory."""
    options = options or AnnOptions()
    source = ann_source(segment, kind)
    if len(source.codes) < max(options.exact_below_rows, 1):
        return TokenAnn(source, None, options)
    return TokenAnn(source, build_lists(source, options, progress=progress), options)


def load_ann(
    directory: Path,
    segment: Segment,
    kind: AnnKind,
    options: AnnOptions | None = None,
    *,
    progress: Progress | None = None,
) -> TokenAnn:
    """Search over a segment's vectors, from the file in the index directory.

    A missing, damaged or outdated file is built again and written; where it cannot be written (full disk,
    read-only directory) the result is used all the same and a warning logged.
    """
    options = options or AnnOptions()
    source = ann_source(segment, kind)
    if len(source.codes) < max(options.exact_below_rows, 1):
        return TokenAnn(source, None, options)
    path = ann_path(directory, segment.name, kind)
    try:
        return TokenAnn(source, read_lists(path, source, options), options)
    except CorruptError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            _log.warning("rebuilding %s: %s", path, error)
    except KBError as error:
        _log.warning("rebuilding %s in memory: %s", path, error)
    lists = build_lists(source, options, progress=progress)
    try:
        write_lists(path, lists, source, options)
    except KBError as error:
        _log.warning("%s will be built again at the next start: %s", path, error)
    return TokenAnn(source, lists, options)
