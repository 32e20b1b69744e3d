"""Vectors as codes of a few bytes: the list of the nearest centroid, and quantised what is left after it.

    x ≈ centroid[list] + Rᵀ · dequantised(code),   code = quantised(R · (x − centroid[list]))

R is a rotation (to the principal axes; optimised product quantisation), or nothing. Only `Quantiser.rotated` multiplies
with R, only `Quantiser.unrotated` with its transpose; callers see vectors in their own basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.errors import UsageError
from storage.exact import multiply_rows
from storage.index_kind import IndexKind
from storage.mixed_codes import MixedCodes, MixedTargets

__all__ = ["Quantiser"]

Float32 = NDArray[np.float32]
MAX_LISTS = 1 << 16
# Decoded at once: they stay in the processor's cache.
_PRODUCT_ROWS = 512
# Targets remembered, of some 5 kB each.
_KNOWN_TARGETS = 256


@dataclass(frozen=True, eq=False)
class Quantiser:
    """A trained quantiser; immutable and safe to share between threads.

    Attributes:
        name: 32 hex digits; what was coded with it names it.
        kind: What index it belongs to.
        centroids: float32 (nlist, d), with float16 values, so that they take half the room in a file.
        rotation: float32 (d, d), orthonormal rows; with groups of unequal size float32 (groups · width, d), the rows of
            each group followed by rows of zeros up to the widest one's number; None where nothing is rotated.
        codebooks: float32 (groups, 2^bits, width) of a product quantiser, width being d / groups where all groups are
            of one size; else None.
        ranges: float32 (2, d) of a scalar quantiser: least value and width in each dimension; of a mixed one: least
            value and step; else None.
        bits: uint8 (d) of a mixed quantiser: bits of each dimension, see `storage.mixed_codes`; else None.
    """

    name: str
    kind: IndexKind
    centroids: Float32
    rotation: Float32 | None = None
    codebooks: Float32 | None = None
    ranges: Float32 | None = None
    bits: NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        d, groups = self.d, self.kind.groups(self.d)
        width = d // groups
        if self.kind.has_uneven_groups and self.codebooks is not None:
            width = self.codebooks.shape[-1]
        turned = groups * width if self.kind.coding == "product" else d
        wanted: dict[str, tuple[int, ...] | None] = {
            "centroids": (self.nlist, d),
            "rotation": (turned, d) if self.kind.rotated else None,
            "codebooks": (groups, 2**self.kind.bits, width) if self.kind.coding == "product" else None,
            "ranges": (2, d) if self.kind.coding in ("scalar", "mixed") else None,
            "bits": (d,) if self.kind.coding == "mixed" else None,
        }
        for name, shape in wanted.items():
            array: NDArray[Any] | None = getattr(self, name)
            if (None if array is None else array.shape) != shape:
                seen = None if array is None else array.shape
                raise UsageError(f"quantiser {self.kind.name}: {name} has shape {seen}, expected {shape}")
        if not 1 <= self.nlist <= MAX_LISTS:
            raise UsageError(f"quantiser {self.kind.name} has {self.nlist} lists, expected 1 to {MAX_LISTS}")

    @property
    def d(self) -> int:
        """Dimension of the vectors."""
        return int(self.centroids.shape[1])

    @property
    def coded_d(self) -> int:
        """Dimension of the basis that is coded."""
        return self.d if self.rotation is None else len(self.rotation)

    @property
    def nlist(self) -> int:
        """How many lists there are."""
        return len(self.centroids)

    @cached_property
    def largest_norm(self) -> float:
        """The largest Euclidean norm of a centroid."""
        return float(np.sqrt(np.einsum("ld,ld->l", self.centroids, self.centroids).max(initial=0.0)))

    @property
    def code_bytes(self) -> int:
        """Bytes of a coded vector, without its list number."""
        return self.kind.code_bytes(self.d) if self._mixed is None else self._mixed.code_bytes

    def rotated(self, vectors: Float32) -> Float32:
        """Return the vectors float32 (n, d) in the basis that is coded, float32 (n, coded_d)."""
        if self.rotation is None:
            return vectors
        turned: Float32 = vectors @ self.rotation.T
        return turned

    def unrotated(self, vectors: Float32) -> Float32:
        """Return what `rotated` gave, float32 (n, coded_d), back in the basis of the encoder, float32 (n, d)."""
        if self.rotation is None:
            return vectors
        turned: Float32 = vectors @ self.rotation
        return turned

    def encode(self, vectors: Float32, list_numbers: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
        """Return the codes uint8 (n, code_bytes) of vectors float32 (n, d) that lie in these lists (n)."""
        if not len(vectors):
            return np.empty((0, self.code_bytes), dtype=np.uint8)
        residuals = self.rotated(vectors - self.centroids[list_numbers])
        codes: NDArray[np.uint8] = self._codec.compute_codes(np.ascontiguousarray(residuals, dtype=np.float32))
        return codes

    def decode(self, list_numbers: NDArray[np.integer[Any]], codes: NDArray[np.uint8]) -> Float32:
        """Return the vectors float32 (n, d) that list numbers (n) and codes uint8 (n, code_bytes) stand for."""
        decoded: Float32 = self.centroids[list_numbers] + self.unrotated(self._dequantised(codes))
        return decoded

    def inner_products(
        self,
        list_numbers: NDArray[np.integer[Any]],
        codes: NDArray[np.uint8],
        rows: NDArray[np.int64],
        targets: Float32,
    ) -> Float32:
        """Return the inner products float32 (n, t) of decoded vectors with targets float32 (d, t).

        The few targets are rotated instead of the many vectors rotated back: x·q = centroid·q + dequantised·(R·q).

        Args:
            list_numbers: int (m), of all vectors.
            codes: uint8 (m, code_bytes), of all vectors.
            rows: int64 (n), which of them.
            targets: float32 (d, t).
        """
        if self._mixed is not None:
            return self._mixed.inner_products(codes, rows, self._mixed_targets(targets))
        turned = np.ascontiguousarray(self.rotated(targets.T))
        list_numbers, codes = list_numbers[rows], codes[rows]
        products = np.empty((len(turned), len(codes)), dtype=np.float32)
        for start in range(0, len(codes), _PRODUCT_ROWS):
            block = slice(start, start + _PRODUCT_ROWS)
            multiply_rows(self._dequantised(codes[block]), turned, products[:, block])
        lists, places = np.unique(list_numbers, return_inverse=True)
        of_lists = np.empty((len(turned), len(lists)), dtype=np.float32)
        multiply_rows(self.centroids[lists], np.ascontiguousarray(targets.T), of_lists)
        products += of_lists[:, places]
        return products.T

    def _mixed_targets(self, targets: Float32) -> MixedTargets:
        """Return targets float32 (d, t) for mixed codes; those of a query are asked for with each segment's rows."""
        key = targets.tobytes()
        known = self._known_targets.get(key)
        if known is None:
            plain = self.mixed.targets(np.ascontiguousarray(self.rotated(targets.T)))
            known = plain._replace(constants=plain.constants + targets.T @ self.centroids[0])
            if len(self._known_targets) >= _KNOWN_TARGETS:
                self._known_targets.clear()
            self._known_targets[key] = known
        return known

    @cached_property
    def _known_targets(self) -> dict[bytes, MixedTargets]:
        return {}

    def _dequantised(self, codes: NDArray[np.uint8]) -> Float32:
        if not len(codes):
            return np.empty((0, self.coded_d), dtype=np.float32)
        decoded: Float32 = self._codec.decode(np.ascontiguousarray(codes))
        return decoded

    @property
    def mixed(self) -> MixedCodes:
        """What codes rotated vectors in a mixed quantiser; UsageError in another."""
        if self._mixed is None:
            raise UsageError(f"quantiser {self.kind.name} has no mixed codes")
        return self._mixed

    @cached_property
    def _mixed(self) -> MixedCodes | None:
        if self.bits is None or self.ranges is None:
            return None
        return MixedCodes(self.bits, self.ranges)

    @cached_property
    def _codec(self) -> Any:
        if self._mixed is not None:
            return self._mixed
        if self.ranges is not None:
            scalar = faiss.ScalarQuantizer(self.d, faiss.ScalarQuantizer.QT_4bit)
            faiss.copy_array_to_vector(self.ranges.ravel(), scalar.trained)
            return scalar
        assert self.codebooks is not None
        product = faiss.ProductQuantizer(self.coded_d, self.kind.groups(self.d), self.kind.bits)
        faiss.copy_array_to_vector(self.codebooks.ravel(), product.centroids)
        return product

    def empty_index(self) -> tuple[Any, Any]:
        """Return a FAISS index that codes as this quantiser does, without vectors, and its coarse quantiser.

        It lives in the rotated basis: queries have to be `rotated`.
        """
        d = self.coded_d
        coarse = faiss.IndexFlatIP(d)
        coarse.add(np.ascontiguousarray(self.rotated(self.centroids)))
        index: Any
        if self.ranges is not None:
            index = faiss.IndexIVFScalarQuantizer(
                coarse, d, self.nlist, faiss.ScalarQuantizer.QT_4bit, faiss.METRIC_INNER_PRODUCT
            )
            faiss.copy_array_to_vector(self.ranges.ravel(), index.sq.trained)
        else:
            groups, bits = self.kind.groups(self.d), self.kind.bits
            index = faiss.IndexIVFPQ(coarse, d, self.nlist, groups, bits, faiss.METRIC_INNER_PRODUCT)
            assert self.codebooks is not None
            faiss.copy_array_to_vector(self.codebooks.ravel(), index.pq.centroids)
        index.by_residual = True
        index.is_trained = True
        return index, coarse
