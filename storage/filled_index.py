"""FAISS inverted lists filled with the vectors of one segment: what candidates are sought in."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors
from storage.ann_lists import AnnLists, ListSource
from storage.gpu import GpuIndex
from storage.quantiser import Quantiser

__all__ = ["FilledIndex", "Selector"]

_FILL_ROWS = 1 << 16


@dataclass(frozen=True)
class Selector:
    """A FAISS selector of live rows, with the bitmap it points into."""

    bitmap: NDArray[np.uint8]
    selector: Any

    @classmethod
    def of(cls, live: NDArray[np.bool_]) -> Selector:
        """Return the selector of rows with a true entry, bool (n)."""
        bitmap = np.packbits(live, bitorder="little")
        return cls(bitmap, faiss.IDSelectorBitmap(len(bitmap), faiss.swig_ptr(bitmap)))


@dataclass(frozen=True)
class FilledIndex:
    """A FAISS index of one segment; safe to share between threads.

    Attributes:
        index: The FAISS index.
        nlist: How many lists it has.
        quantizer: FAISS's coarse quantiser, which the index points to.
        quantiser: Rotates queries into the basis of the codes; None where nothing is rotated.
        gpu: A copy on a graphics processor.
    """

    index: Any
    nlist: int
    quantizer: Any
    quantiser: Quantiser | None = None
    gpu: GpuIndex | None = None

    def on_gpu(self) -> FilledIndex:
        """Return the same index with a copy on the graphics processor; itself where that has no kernel for it."""
        return replace(self, gpu=GpuIndex(self.index)) if GpuIndex.takes(self.index) else self

    @classmethod
    def of_lists(cls, source: ListSource, lists: AnnLists) -> FilledIndex:
        """Return the index over a segment's vectors as bytes, grouped in these lists."""
        nlist, d = lists.centroids.shape
        quantizer = faiss.IndexFlatIP(d)
        quantizer.add(np.ascontiguousarray(lists.centroids, dtype=np.float32))
        index = faiss.IndexIVFScalarQuantizer(
            quantizer, d, nlist, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
        )
        index.by_residual = False
        faiss.copy_array_to_vector(source.faiss_ranges, index.sq.trained)
        index.is_trained = True
        _fill(index, lists.order, lists.list_starts, source.faiss_bytes)
        return cls(index, nlist, quantizer, source.basis)

    @classmethod
    def of_codes(cls, coded: CodedVectors) -> FilledIndex:
        """Return the index over quantised vectors."""
        quantiser = coded.quantiser
        index, quantizer = quantiser.empty_index()
        lists = np.asarray(coded.list_numbers)
        starts = np.concatenate([[0], np.cumsum(np.bincount(lists, minlength=quantiser.nlist))])
        order = np.argsort(lists, kind="stable").astype(np.uint32)
        _fill(index, order, starts, lambda rows: np.ascontiguousarray(coded.codes[rows]))
        if quantiser.kind.fast_scan:
            index = faiss.IndexIVFPQFastScan(index)
        return cls(index, quantiser.nlist, quantizer, quantiser)

    def search(self, queries: NDArray[np.float32], k: int, nprobe: int, selector: Selector | None) -> NDArray[np.int64]:
        """Search with FAISS and return rows int64 (m, k), −1 where there are fewer."""
        if self.quantiser is not None:
            queries = np.ascontiguousarray(self.quantiser.rotated(queries))
        if self.gpu is not None and selector is None and self.gpu.can(k, nprobe):
            return self.gpu.search(queries, k, nprobe)
        # The keywords are FAISS's own addition to a generated class, unknown to its type stubs.
        parameters = faiss.SearchParametersIVF(  # type: ignore[call-arg]
            nprobe=nprobe, sel=None if selector is None else selector.selector
        )
        _, rows = self.index.search(queries, k, params=parameters)
        return np.asarray(rows, dtype=np.int64)


def _fill(
    index: Any,
    order: NDArray[np.uint32],
    starts: NDArray[np.int64],
    raw_of: Callable[[NDArray[np.int64]], NDArray[np.uint8]],
) -> None:
    """Fill the lists of the index with rows `order[starts[l] : starts[l + 1]]` and their bytes."""
    n_lists = len(starts) - 1
    first = 0
    while first < n_lists:
        last = max(first + 1, int(np.searchsorted(starts, starts[first] + _FILL_ROWS, side="right")) - 1)
        base = int(starts[first])
        rows = order[base : int(starts[last])].astype(np.int64)
        raw = raw_of(rows)
        bounds = (starts[first : last + 1] - base).tolist()
        for number, (start, end) in enumerate(itertools.pairwise(bounds), start=first):
            if end > start:
                part, ids = raw[start:end], rows[start:end]
                index.invlists.add_entries(number, end - start, faiss.swig_ptr(ids), faiss.swig_ptr(part))
        first = last
    index.ntotal = len(order)
