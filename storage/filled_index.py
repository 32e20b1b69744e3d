"""FAISS inverted lists with the vectors of one segment: what candidates are sought in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.ann_codes import CodedVectors
from storage.ann_lists import AnnLists, ListSource
from storage.gpu import GpuIndex
from storage.list_filling import ListFilling
from storage.quantiser import Quantiser

__all__ = ["FilledIndex", "Selector"]

# Rows of a block of FAISS's fast scan, and which rows share a byte there: the first half of the order with the second.
_BLOCK_ROWS = 32
_BLOCK_ORDER = np.arange(_BLOCK_ROWS).reshape(2, 2, 8).transpose(0, 2, 1).ravel()
# FAISS's fast scan looks into each list with all queries at once that want it. Few queries share hardly any lists: up
# to so many are looked for one after the other, which finds the same in nine tenths of the time.
_FEW_QUERIES = 8
_QUERY_BY_QUERY = 11


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
        filling: Fills the lists that are looked into.
        quantiser: Rotates queries into the basis of the codes; None where nothing is rotated.
        gpu: A copy on a graphics processor.
        for_few: The same lists for a search of few queries; None: they are searched as many are.
    """

    index: Any
    nlist: int
    quantizer: Any
    filling: ListFilling
    quantiser: Quantiser | None = None
    gpu: GpuIndex | None = None
    for_few: Any | None = None

    def on_gpu(self) -> FilledIndex:
        """Return the same index with a copy on the graphics processor; itself where that has no kernel for it."""
        if not GpuIndex.takes(self.index):
            return self
        self.filling.need_all()
        return replace(self, gpu=GpuIndex(self.index))

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
        filling = ListFilling(index, lists.order, lists.list_starts, source.faiss_bytes, add=_add_rows)
        return cls(index, nlist, quantizer, filling, source.basis)

    @classmethod
    def of_codes(cls, coded: CodedVectors) -> FilledIndex:
        """Return the index over quantised vectors."""
        quantiser = coded.quantiser
        index, quantizer = quantiser.empty_index()
        for_few = None
        if quantiser.kind.fast_scan:
            # Made of the empty index and filled with blocks, so that codes are never in memory twice.
            plain, index = index, faiss.IndexIVFPQFastScan(index)
            for_few = faiss.IndexIVFPQFastScan(plain)
            assert index.invlists is not None
            for_few.replace_invlists(index.invlists, False)  # it has none of its own
            for_few.implem = _QUERY_BY_QUERY
        add = _add_blocks if quantiser.kind.fast_scan else _add_rows
        grouped = coded.by_list

        def raw_of(rows: NDArray[np.int64]) -> NDArray[np.uint8]:
            return np.ascontiguousarray(coded.codes[rows])

        filling = ListFilling(
            index, grouped.order, grouped.starts, raw_of, grouped.codes, add=add, release=coded.release
        )
        return cls(index, quantiser.nlist, quantizer, filling, quantiser, for_few=for_few)

    def search(
        self, queries: NDArray[np.float32], k: int, nprobe: int, selector: Selector | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Search with FAISS; return its scores, falling, and rows, −1 where there are fewer, both (m, k)."""
        if self.quantiser is not None:
            queries = np.ascontiguousarray(self.quantiser.rotated(queries))
        if self.gpu is not None and selector is None and self.gpu.can(k, nprobe):
            return self.gpu.search(queries, k, nprobe)
        biases, lists = self.quantizer.search(queries, nprobe)
        return self.search_lists(queries, k, lists, biases, selector)

    def search_lists(
        self,
        queries: NDArray[np.float32],
        k: int,
        lists: NDArray[np.int64],
        biases: NDArray[np.float32],
        selector: Selector | None,
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Search in these lists; return scores by the codes, falling, and rows, −1 where there are fewer, both (m, k).

        Args:
            queries: float32 (m, coded_d), rotated already.
            k: How many rows.
            lists: int64 (m, nprobe).
            biases: float32 (m, nprobe), inner products with the centroids of the lists.
            selector: Which rows count; None: all.
        """
        self.filling.need(lists)
        # The keywords are FAISS's own addition to a generated class, unknown to its type stubs.
        parameters = faiss.SearchParametersIVF(  # type: ignore[call-arg]
            nprobe=lists.shape[1], sel=None if selector is None else selector.selector
        )
        scores = np.empty((len(queries), k), dtype=np.float32)
        rows = np.empty((len(queries), k), dtype=np.int64)
        # The wrapper that FAISS puts around it takes no parameters, and so neither a number of lists nor a selector.
        arrays = [np.ascontiguousarray(array) for array in (queries, lists, biases)]
        of_queries, *of_others = [faiss.swig_ptr(array) for array in (*arrays, scores, rows)]
        index = self.index if self.for_few is None or len(queries) > _FEW_QUERIES else self.for_few
        index.search_preassigned_c(len(queries), of_queries, k, *of_others, False, parameters)
        return scores, rows


def _add_blocks(index: Any, number: int, n: int, ids: NDArray[np.int64], codes: NDArray[np.uint8]) -> None:
    """Add rows to an empty list of a fast-scan index, whose codes stand in blocks as registers take them.

    A block has 32 rows: for each byte of a code, which has two groups, the lower halves of 32 rows and then the upper
    ones, two rows in a byte.
    """
    padded = np.zeros((-(-n // _BLOCK_ROWS) * _BLOCK_ROWS, codes.shape[1]), dtype=np.uint8)
    padded[:n] = codes
    bytes_ = padded.reshape(-1, _BLOCK_ROWS, codes.shape[1]).transpose(0, 2, 1)[:, :, _BLOCK_ORDER]
    first, second = bytes_[:, :, : _BLOCK_ROWS // 2], bytes_[:, :, _BLOCK_ROWS // 2 :]
    # A name of its own: FAISS's pointer does not keep the copy alive.
    blocks = np.ascontiguousarray(np.concatenate([first & 15 | second << 4, first >> 4 | second & 240], axis=2))
    index.invlists.add_entries(number, n, faiss.swig_ptr(ids), faiss.swig_ptr(blocks))


def _add_rows(index: Any, number: int, n: int, ids: NDArray[np.int64], codes: NDArray[np.uint8]) -> None:
    """Add rows to a list, one after the other."""
    index.invlists.add_entries(number, n, faiss.swig_ptr(ids), faiss.swig_ptr(codes))
