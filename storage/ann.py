"""Approximate nearest neighbours of one segment: FAISS lists give candidates, the stored vectors their scores.

Where the int8 vectors are stored, whatever FAISS returns is scored again from the codes and each row's own scale.
Otherwise scores come from the decoded quantised vectors: what the index really serves.

The file in `index/` of kind `ivf-sq8` holds only centroids and the order of rows; the lists are filled from the
segment's codes when it is loaded. FAISS sees these as bytes of an 8-bit scalar quantiser whose range is chosen such
that a byte decodes to exactly the int8 value: one common scale then turns its scores into inner products.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors, build_codes, codes_path, read_codes, write_codes
from storage.ann_lists import (
    AnnKind,
    AnnLists,
    AnnSource,
    Progress,
    ann_path,
    build_lists,
    read_lists,
    write_lists,
)
from storage.ann_options import AnnOptions
from storage.code_block import BlockPart
from storage.codes import quantise
from storage.errors import CorruptError, InvalidOptionError, KBError
from storage.exact import Found, RowVectors, check_queries, score_rows, search_rows
from storage.filled_index import FilledIndex, Selector
from storage.gpu import IndexDevice, uses_gpu
from storage.quantiser import Quantiser
from storage.segment import Segment

__all__ = [
    "AnnKind",
    "AnnOptions",
    "Progress",
    "TokenAnn",
    "ann_path",
    "ann_source",
    "build_ann",
    "load_ann",
    "prepare_ann",
    "stored_codes",
]

_log = logging.getLogger(__name__)
# Below this share of live rows FAISS skips dead ones itself; above it, fetching a few more is faster.
_SELECT_BELOW = 0.5
# Fetched beyond k: rows whose own scale FAISS does not see may deserve a better place.
_SPARE_ROWS = 16


class TokenAnn:
    """Search over the token vectors, or the passage vectors, of one segment; safe to share between threads.

    Attributes:
        source: The vectors that scores come from.
        served: The vectors that candidates are sought among: the same, or quantised ones.
        options: How the index was built and is asked.
        lists: The lists of kind `ivf-sq8`; None for other kinds and where every search is exact.
    """

    def __init__(
        self,
        source: AnnSource | CodedVectors,
        found_in: AnnLists | CodedVectors | None,
        options: AnnOptions,
        *,
        device: IndexDevice = "cpu",
    ) -> None:
        self.source: RowVectors = source
        self.served: RowVectors = source
        self.options = options
        self.lists = found_in if isinstance(found_in, AnnLists) else None
        self._plain = source if isinstance(source, AnnSource) else None
        self._index: FilledIndex | None = None
        self._refine = 1
        # Rows that a scan of int8 codes alone underrates: where the scan is to be exact they are always candidates.
        self._always = np.empty(0, dtype=np.int64)
        if isinstance(found_in, CodedVectors):
            self.served = found_in
            self._index = FilledIndex.of_codes(found_in)
            if source is not found_in:
                self._refine = options.refine or options.index_kind.refine
        elif found_in is not None:
            assert isinstance(source, AnnSource)
            self._index = FilledIndex.of_lists(source, found_in)
            if len(found_in.centroids) == 1:
                self._always = np.flatnonzero(source.scales != np.float16(source.common))
        if self._index is not None and uses_gpu(device):
            self._index = self._index.on_gpu()

    @property
    def n_rows(self) -> int:
        """How many vectors can be found."""
        return self.source.n_rows

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
        if exact or self._index is None:
            found = search_rows(self.source, queries, k, live=live)
        else:
            nlist = self._index.nlist
            probes = round(self.options.probes_for(nlist) * nprobe_factor) if nprobe is None else nprobe
            probes = max(1, min(probes, nlist))
            found = self._probe(queries, k, probes=probes, live=live)
        return found.scores, found.rows

    @property
    def has_codes(self) -> bool:
        """Whether int8 codes are stored: only then a block can be made of them."""
        return self._plain is not None

    def block_part(self, *, first_row: int, live: NDArray[np.bool_] | None) -> BlockPart:
        """Return the live rows, numbered from `first_row`, to be scanned with other segments; of int8 codes only."""
        assert self._plain is not None
        rows = np.arange(self.n_rows) if live is None else np.flatnonzero(live)
        return BlockPart(self._plain.codes[rows], self._plain.scales[rows], rows + first_row)

    @property
    def common_scale(self) -> float:
        """The common scale of the int8 codes."""
        assert self._plain is not None
        return self._plain.common

    def _probe(self, queries: NDArray[np.float32], k: int, *, probes: int, live: NDArray[np.bool_] | None) -> Found:
        n_live = self.n_rows if live is None else int(np.count_nonzero(live))
        share = n_live / max(self.n_rows, 1)
        selector = None
        fetch = (k + _SPARE_ROWS) * self._refine
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

        Each query's effort depends on its own results alone, never on the queries it came with.
        """
        assert self._index is not None
        fetch = min(fetch, self.n_rows)
        rows = self._index.search(queries, fetch, probes, selector)
        exhausted = rows[:, -1] < 0
        if len(self._always):
            others = np.where(np.isin(rows, self._always), -1, rows)
            rows = np.concatenate([others, np.broadcast_to(self._always, (len(rows), len(self._always)))], axis=1)
        if live is not None:
            rows = np.where((rows >= 0) & live[rows], rows, -1)
        found = self._scored(queries, rows, k)
        lacking = (found.rows >= 0).sum(axis=1) < wanted
        nlist = self._index.nlist
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
            scores[index, valid] = score_rows(self.source.vectors(chosen), query)
        if rows.shape[1] < k:
            padding = ((0, 0), (0, k - rows.shape[1]))
            scores = np.pad(scores, padding, constant_values=-np.inf)
            rows = np.pad(rows, padding, constant_values=-1)
        order = np.lexsort((rows, -scores), axis=1)[:, :k]
        return Found(np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1))


def ann_source(segment: Segment, kind: AnnKind) -> AnnSource | None:
    """Return the int8 vectors of a segment that a search of this kind looks at; None where it has codes only."""
    arrays = segment.arrays
    if kind == "passages":
        return AnnSource(segment.file.sha256, kind, arrays.passage_codes, arrays.passage_scales, arrays.passage_scale)
    if arrays.codes is None or arrays.scales is None:
        return None
    return AnnSource(segment.file.sha256, kind, arrays.codes, arrays.scales, arrays.token_scale)


def stored_codes(segment: Segment, quantiser: Quantiser | None) -> CodedVectors:
    """Return the quantised vectors that a segment stores in place of int8 ones; CorruptError without a quantiser."""
    arrays = segment.arrays
    if quantiser is None or quantiser.name != arrays.quantiser:
        raise CorruptError(
            f"{segment.path} is coded with quantiser {arrays.quantiser!r}, the knowledge base has "
            f"{None if quantiser is None else quantiser.name!r}; restore kb.sqlite and segments/ from one backup"
        )
    assert arrays.list_numbers is not None
    assert arrays.quantised is not None
    fits = arrays.quantised.shape[1] == quantiser.code_bytes and segment.d == quantiser.d
    if not fits or int(arrays.list_numbers.max(initial=0)) >= quantiser.nlist:
        raise CorruptError(f"{segment.path}: codes do not fit quantiser {quantiser.name}; restore it from a backup")
    return CodedVectors(quantiser, arrays.list_numbers, arrays.quantised)


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
    return TokenAnn(*_parts(None, segment, kind, options, quantiser, progress), options)


def load_ann(
    directory: Path,
    segment: Segment,
    kind: AnnKind,
    options: AnnOptions | None = None,
    *,
    quantiser: Quantiser | None = None,
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
        quantiser: The knowledge base's.
        device: Where searches run.
        progress: Told while something is built.
    """
    options = options or AnnOptions()
    return TokenAnn(*_parts(directory, segment, kind, options, quantiser, progress), options, device=device)


def prepare_ann(
    directory: Path,
    segment: Segment,
    kind: AnnKind,
    options: AnnOptions,
    *,
    quantiser: Quantiser | None = None,
    progress: Progress | None = None,
) -> None:
    """Make the file that `load_ann` with the same arguments reads, if there is to be one."""
    needs_no_file = kind == "tokens" and ann_source(segment, kind) is None
    # Before a quantiser is trained nobody is to read the index.
    untrained = kind == "tokens" and options.index_kind.needs_quantiser and quantiser is None
    if not needs_no_file and not untrained:
        _parts(directory, segment, kind, options, quantiser, progress)


def _parts(
    directory: Path | None,
    segment: Segment,
    kind: AnnKind,
    options: AnnOptions,
    quantiser: Quantiser | None,
    progress: Progress | None,
) -> tuple[AnnSource | CodedVectors, AnnLists | CodedVectors | None]:
    """Return what scores come from, and what candidates are sought in: None where all rows are scanned."""
    source = ann_source(segment, kind)
    n_rows = segment.n_rows if kind == "tokens" else segment.n_passages
    is_small = n_rows < max(options.exact_below_rows, 1)
    if source is None:
        coded = stored_codes(segment, quantiser)
        if not is_small:
            return coded, coded
        # Decoded once: scanned with the other small segments as if it had int8 vectors.
        codes, scales = quantise(coded.vectors(slice(None)), segment.arrays.token_scale)
        source = AnnSource(segment.file.sha256, kind, codes, scales, segment.arrays.token_scale)
    if is_small:
        return source, None
    if options.kind == "exact":
        return source, _one_list(source)
    if kind == "tokens" and options.index_kind.needs_quantiser and quantiser is not None:
        return source, _codes(directory, segment, source, quantiser, progress)
    return source, _lists(directory, segment, source, options, progress)


def _one_list(source: AnnSource) -> AnnLists:
    """Return all rows in one list, which every search scans."""
    n = source.n_rows
    return AnnLists(np.zeros((1, source.d), np.float32), np.arange(n, dtype=np.uint32), np.array([0, n]))


def _lists(
    directory: Path | None, segment: Segment, source: AnnSource, options: AnnOptions, progress: Progress | None
) -> AnnLists:
    if directory is None:
        return build_lists(source, options, progress=progress)
    path = ann_path(directory, segment.name, source.kind)
    try:
        return read_lists(path, source, options)
    except KBError as error:
        _tell(path, error)
    lists = build_lists(source, options, progress=progress)
    try:
        write_lists(path, lists, source, options)
    except KBError as error:
        _log.warning("%s will be built again at the next start: %s", path, error)
    return lists


def _codes(
    directory: Path | None, segment: Segment, source: AnnSource, quantiser: Quantiser, progress: Progress | None
) -> CodedVectors:
    if directory is None:
        return build_codes(source, quantiser, progress=progress)
    path = codes_path(directory, segment.name, quantiser.name)
    try:
        return read_codes(path, source, quantiser)
    except KBError as error:
        _tell(path, error)
    coded = build_codes(source, quantiser, progress=progress)
    try:
        write_codes(path, coded, source)
    except KBError as error:
        _log.warning("%s will be built again at the next start: %s", path, error)
    return coded


def _tell(path: Path, error: KBError) -> None:
    """Log why a file is built again, unless it was just not there yet."""
    if not isinstance(error, CorruptError):
        _log.warning("rebuilding %s in memory: %s", path, error)
    elif not isinstance(error.__cause__, FileNotFoundError):
        _log.warning("rebuilding %s: %s", path, error)
