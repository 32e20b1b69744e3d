"""Approximate nearest neighbours of one segment: FAISS lists give candidates, the stored vectors their scores.

Whatever FAISS returns is scored again from what is stored: int8 codes with each row's own scale, or quantised vectors.
All rows have scores; the index is made of those that a search may start from, which the filter chose.

The file in `index/` of kind `ivf-sq8` holds only centroids and the order of rows; the lists are filled from the
segment's codes when it is loaded. FAISS sees these as bytes of an 8-bit scalar quantiser whose range is chosen such
that a byte decodes to exactly the int8 value: one common scale then turns its scores into inner products.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors, DecodedSource
from storage.ann_lists import AnnKind, AnnLists, AnnSource, Progress, ann_path
from storage.ann_options import AnnOptions
from storage.ann_parts import AnnParts, AnnRequest, SomeRows, ann_parts, ann_source, stored_codes
from storage.code_block import BlockPart
from storage.coded_search import CodedPart, search_coded
from storage.errors import InvalidOptionError
from storage.exact import Found, RowVectors, check_queries, may_lack_equals, score_rows, search_rows
from storage.filled_index import FilledIndex, Selector
from storage.gpu import IndexDevice, uses_gpu
from storage.quantiser import Quantiser
from storage.segment import Segment

__all__ = [
    "AnnKind",
    "AnnOptions",
    "AnnRequest",
    "Progress",
    "TokenAnn",
    "ann_path",
    "ann_source",
    "build_ann",
    "load_ann",
    "prepare_ann",
    "stored_codes",
]

# Below this share of live rows FAISS skips dead ones itself; above it, fetching a few more is faster.
_SELECT_BELOW = 0.5
# Fetched beyond k: rows whose own scale FAISS does not see may deserve a better place.
_SPARE_ROWS = 16


class TokenAnn:
    """Search over the token vectors, or the passage vectors, of one segment; safe to share between threads.

    Inside, those that can be found are numbered from 0: their *places*.

    Attributes:
        source: The vectors that scores come from, of all rows.
        options: How the index was built and is asked.
        lists: The lists of kind `ivf-sq8`; None for other kinds and where every search is exact.
        refine: Rows rescored for each one wanted.
        served: The vectors as the index sees them; None where it sees what is stored.
    """

    def __init__(self, parts: AnnParts, options: AnnOptions, *, device: IndexDevice = "cpu") -> None:
        self.source: RowVectors = parts.source
        self.options = options
        found_in = parts.found_in
        self.lists = found_in if isinstance(found_in, AnnLists) else None
        self._rows = parts.rows
        self._sought: RowVectors = parts.source if parts.rows is None else SomeRows(parts.source, parts.rows)
        # What is decoded depends a little on what is decoded with it; its inner products do not.
        self._is_decoded = isinstance(parts.source, CodedVectors)
        self.served: RowVectors | None = None
        self._plain = parts.plain
        self._index: FilledIndex | None = None
        # FAISS decodes the very codes that scores come from: looking into all lists is looking at every row.
        self._is_decoded_exactly = isinstance(parts.listed, DecodedSource) and isinstance(found_in, AnnLists)
        self.refine = 1
        # Places that a scan of int8 codes alone underrates: where the scan is to be exact they are always candidates.
        self._always = np.empty(0, dtype=np.int64)
        if isinstance(found_in, CodedVectors):
            self.served = found_in
            self._index = FilledIndex.of_codes(found_in)
            if not parts.is_all_there_is:
                self.refine = options.refine or found_in.quantiser.kind.refine
        elif found_in is not None:
            assert parts.listed is not None
            self._index = FilledIndex.of_lists(parts.listed, found_in)
            if len(found_in.centroids) == 1 and isinstance(parts.listed, AnnSource):
                self._always = np.flatnonzero(np.asarray(parts.listed.scales) != np.float16(parts.listed.common))
        if self._index is not None and uses_gpu(device):
            self._index = self._index.on_gpu()

    @property
    def n_rows(self) -> int:
        """How many vectors can be found."""
        return self._sought.n_rows

    def findable(self, live: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Return which of the vectors that can be found are live, bool (n_rows), from a mask of all rows."""
        return live if live is None or self._rows is None else live[np.asarray(self._rows)]

    def served_vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of rows float32 (rows, d) as the index sees them; of those it does not see as stored."""
        if self.served is None:
            return self.source.vectors(rows)
        if self._rows is None:
            return self.served.vectors(rows)
        places = np.minimum(np.searchsorted(np.asarray(self._rows), rows), max(len(self._rows) - 1, 0))
        is_seen = self._rows[places] == rows
        vectors = self.source.vectors(rows)
        vectors[is_seen] = self.served.vectors(places[is_seen])
        return vectors

    @property
    def quantiser(self) -> Quantiser | None:
        """What codes the rows that are scanned, where segments that it codes can be searched together."""
        together = isinstance(self.served, CodedVectors) and self._index is not None and self._index.gpu is None
        return self.served.quantiser if together and isinstance(self.served, CodedVectors) else None

    def coded_part(self, *, first_row: int, live: NDArray[np.bool_] | None) -> CodedPart:
        """Return what can be found here, for a search in all segments with the same `quantiser`.

        Args:
            first_row: Number of the segment's first row.
            live: bool (n), of all rows; None: all are.
        """
        assert self._index is not None
        return CodedPart(self._index, self._sought, self._rows, first_row, self.findable(live))

    def probes(self, nlist: int, nprobe: int | None, factor: float) -> int:
        """Return how many of the lists a query looks into: `nprobe` of them, or the options' number times a factor."""
        probes = round(self.options.probes_for(nlist) * factor) if nprobe is None else nprobe
        return max(1, min(probes, nlist))

    @property
    def is_exact(self) -> bool:
        """Whether every search scans all rows."""
        return self._index is None

    @property
    def scans_all(self) -> bool:
        """Whether every search looks at all rows, so that nothing depends on which rows lie in one segment."""
        return self._index is None or (self.lists is not None and len(self.lists.centroids) == 1)

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
        """Search the best rows of each query: scores float32 (m, k), falling, and rows int64 (m, k).

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
        queries = check_queries(queries, k, d=self.source.d)
        if nprobe is not None and nprobe < 1:
            raise InvalidOptionError(f"nprobe is {nprobe}, expected at least 1")
        quantiser = self.quantiser
        if quantiser is not None and not exact:
            parts = [self.coded_part(first_row=0, live=live)]
            probes = self.probes(quantiser.nlist, nprobe, nprobe_factor)
            together = search_coded(quantiser, parts, queries, k, nprobe=probes, refine=self.refine)
            return together.scores, together.rows
        live = self.findable(live)
        if self._index is not None and exact and self._is_decoded_exactly:
            found = self._probe(queries, k, probes=self._index.nlist, live=live)
        elif exact or self._index is None:
            found = search_rows(self._sought, queries, k, live=live, is_decoded=self._is_decoded)
        else:
            probes = self.probes(self._index.nlist, nprobe, nprobe_factor)
            found = self._probe(queries, k, probes=probes, live=live)
        if self._rows is not None:
            return found.scores, np.where(found.rows >= 0, self._rows[found.rows], -1)
        return found.scores, found.rows

    @property
    def has_codes(self) -> bool:
        """Whether there are int8 codes: only then a block can be made of them."""
        return self._plain is not None

    def block_part(self, *, first_row: int, live: NDArray[np.bool_] | None) -> BlockPart:
        """Return what can be found and is live, to be scanned with other segments; of int8 codes only.

        Args:
            first_row: Number of the segment's first row.
            live: bool (n), of all rows; None: all are.
        """
        assert self._plain is not None
        live = self.findable(live)
        places = np.arange(self.n_rows) if live is None else np.flatnonzero(live)
        rows = places if self._rows is None else self._rows[places]
        some = self._plain.some(places)
        return BlockPart(np.asarray(some.codes), np.asarray(some.scales), rows + first_row)

    @property
    def common_scale(self) -> float:
        """The common scale of the int8 codes."""
        assert self._plain is not None
        return self._plain.common

    def _probe(self, queries: NDArray[np.float32], k: int, *, probes: int, live: NDArray[np.bool_] | None) -> Found:
        n_live = self.n_rows if live is None else int(np.count_nonzero(live))
        share = n_live / max(self.n_rows, 1)
        selector = None
        fetch = (k + _SPARE_ROWS) * self.refine
        if live is not None and share < _SELECT_BELOW:
            selector = Selector.of(live)
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
        selector: Selector | None,
        wanted: int,
    ) -> Found:
        """Fetch the best k live rows; ask again, with more effort, for the queries that got fewer than `wanted`.

        And for those that may have got some of several equal rows.

        Each query's effort depends on its own results alone, never on the queries it came with.
        """
        assert self._index is not None
        fetch = min(fetch, self.n_rows)
        coarse, rows = self._index.search(queries, fetch, probes, selector)
        exhausted = rows[:, -1] < 0
        is_doubtful = may_lack_equals(coarse, rows >= 0 if live is None else (rows >= 0) & live[rows], wanted)
        is_doubtful &= wanted > 0 and fetch < self.n_rows
        if len(self._always):
            others = np.where(np.isin(rows, self._always), -1, rows)
            rows = np.concatenate([others, np.broadcast_to(self._always, (len(rows), len(self._always)))], axis=1)
        if live is not None:
            rows = np.where((rows >= 0) & live[rows], rows, -1)
        found = self._scored(queries, rows, k)
        lacking = (found.rows >= 0).sum(axis=1) < wanted
        nlist = self._index.nlist
        for group, more_fetch, more_probes in (
            ((lacking | is_doubtful) & ~exhausted, fetch * 4, probes),
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
            if self._is_decoded:
                scores[index, valid] = self._sought.inner_products(chosen, query[:, None])[:, 0]
            else:
                scores[index, valid] = score_rows(self._sought.vectors(chosen), query)
        if rows.shape[1] < k:
            padding = ((0, 0), (0, k - rows.shape[1]))
            scores = np.pad(scores, padding, constant_values=-np.inf)
            rows = np.pad(rows, padding, constant_values=-1)
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return Found(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))


def build_ann(
    segment: Segment,
    kind: AnnKind,
    options: AnnOptions | None = None,
    *,
    quantiser: Quantiser | None = None,
    progress: Progress | None = None,
) -> TokenAnn:
    """Search over a segment's vectors, built from scratch in memory."""
    options = options or AnnOptions()
    return TokenAnn(ann_parts(segment, AnnRequest(kind, options, quantiser, progress=progress)), options)


def load_ann(
    directory: Path,
    segment: Segment,
    kind: AnnKind,
    options: AnnOptions | None = None,
    *,
    quantiser: Quantiser | None = None,
    stored: Quantiser | None = None,
    threshold: float | None = None,
    device: IndexDevice = "cpu",
    progress: Progress | None = None,
) -> TokenAnn:
    """Search over a segment's vectors, from the file in the index directory if there is to be one.

    A missing, damaged or outdated file is built again and written; where it cannot be written (full disk,
    read-only directory) the result is used all the same and a warning logged.

    Args:
        directory: The index directory.
        segment: Whose vectors.
        kind: Which of them.
        options: What index; a kind that needs a quantiser is served as `ivf-sq8` without one.
        quantiser: Of the index; passage vectors without one have lists of the segment's own.
        stored: What decodes stored vectors that are quantised; None: the index's own quantiser does.
        threshold: Filter logit from which on tokens can be found; None: all can.
        device: Where searches run.
        progress: Told while something is built.
    """
    options = options or AnnOptions()
    asked = AnnRequest(kind, options, quantiser, stored, threshold, directory, progress)
    return TokenAnn(ann_parts(segment, asked), options, device=device)


def prepare_ann(segment: Segment, asked: AnnRequest) -> None:
    """Make the file that `load_ann` with the same arguments reads, if there is to be one."""
    # Before a quantiser is trained nobody is to read the index.
    untrained = asked.needs_quantiser and asked.quantiser is None
    needs_no_file = (
        asked.kind == "tokens"
        and ann_source(segment, asked.kind) is None
        and asked.decoder_of(segment) is asked.quantiser
    )
    if not needs_no_file and not untrained:
        ann_parts(segment, asked)
