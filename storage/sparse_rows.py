"""Sparse vectors of stored tokens: n-grams with weights, for the start and the end side, in compressed sparse rows.

A passage has a dictionary of its n-grams; a token's row names them by their place in it, which takes two bytes instead
of four, and a query looks up the n-grams of a passage once instead of once for each token. Weights are a byte each,
times one scale a passage and side: merging copies them as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from storage.container import ArraySpec
from storage.errors import InvalidOptionError, UsageError
from storage.stored_array import Stored

__all__ = [
    "SPARSE_NAMES",
    "SparseArrays",
    "SparseLengths",
    "SparsePassage",
    "SparseSide",
    "sparse_arrays",
    "sparse_specs",
]

MAX_GRAMS = 1 << 16
"""N-grams of one passage; a token names them with two bytes."""
MAX_PER_TOKEN = 255
_MAX_CODE = 255
_SIDES = ("start", "end")


@dataclass(frozen=True, eq=False)
class SparseSide:
    """The sparse vectors of a passage's t tokens on one side, rows one after the other.

    Attributes:
        counts: uint8 (t), entries of each token.
        columns: uint16 (e), place of each entry's n-gram in the passage's dictionary.
        weights: float32 (e), positive.
    """

    counts: NDArray[np.uint8]
    columns: NDArray[np.uint16]
    weights: NDArray[np.float32]

    def rows(self, keep: NDArray[np.bool_]) -> SparseSide:
        """Return the side with some of the tokens only; `keep` is bool (t)."""
        entries = np.repeat(keep, self.counts)
        return SparseSide(self.counts[keep], self.columns[entries], self.weights[entries])


@dataclass(frozen=True, eq=False)
class SparsePassage:
    """The sparse vectors of a passage's t kept tokens.

    Attributes:
        grams: uint32 (g), the passage's n-grams, strictly rising.
        start: For phrases that begin at a token.
        end: For phrases that end at a token.
        model: Fingerprint of the sparse encoder.
    """

    grams: NDArray[np.uint32]
    start: SparseSide
    end: SparseSide
    model: str

    def __post_init__(self) -> None:
        n_grams = len(self.grams)
        if n_grams > MAX_GRAMS or (self.grams[1:] <= self.grams[:-1]).any():
            raise InvalidOptionError(f"a passage has {n_grams} n-grams; wanted at most {MAX_GRAMS}, strictly rising")
        for name, side in zip(_SIDES, (self.start, self.end), strict=True):
            n_entries = int(side.counts.sum(dtype=np.int64))
            if not n_entries == len(side.columns) == len(side.weights):
                raise InvalidOptionError(
                    f"sparse rows ({name}) have {len(side.columns)} columns and {len(side.weights)} weights, wanted "
                    f"{n_entries} of each, the sum of the counts"
                )
            if n_entries and int(side.columns.max()) >= n_grams:
                raise InvalidOptionError(f"a sparse row ({name}) names n-gram {side.columns.max()} of {n_grams}")
            if not (np.isfinite(side.weights).all() and (side.weights > 0).all()):
                raise InvalidOptionError(f"sparse weights ({name}) are not all positive; the encoder is at fault")

    @property
    def n_tokens(self) -> int:
        """How many tokens have a row."""
        return len(self.start.counts)

    def rows(self, keep: NDArray[np.bool_]) -> SparsePassage:
        """Return the passage with some of the tokens only, and the n-grams that these use; `keep` is bool (t)."""
        start, end = self.start.rows(keep), self.end.rows(keep)
        used = np.zeros(len(self.grams), dtype=np.bool_)
        used[start.columns] = used[end.columns] = True
        places = (np.cumsum(used) - 1).astype(np.uint16)
        sides = [SparseSide(side.counts, places[side.columns], side.weights) for side in (start, end)]
        return SparsePassage(self.grams[used], sides[0], sides[1], self.model)


@dataclass(frozen=True)
class SparseLengths:
    """The lengths that the shapes of the sparse arrays follow from: n-grams of all passages, entries of each side."""

    n_grams: int
    n_start: int
    n_end: int


@dataclass(frozen=True)
class SparseArrays:
    """The sparse rows of a segment of n rows and p passages; in a file the names begin with `sparse_`.

    Attributes:
        grams: uint32 (g), dictionaries of the passages, one after the other, each rising.
        gram_starts: int64 (p + 1), where each passage's begins.
        scales: float16 (p, 2), scale of the passage's start and end weights; weight = code · scale.
        start_counts: uint8 (n), entries of each row.
        start_begins: int64 (p + 1), where the entries of each passage begin.
        start_columns: uint16 (e), place in the passage's dictionary.
        start_weights: uint8 (e), codes, at least 1.
        end_counts: The same four of the end side.
        end_begins: See there.
        end_columns: See there.
        end_weights: See there.
        model: Fingerprint of the sparse encoder.
    """

    grams: Stored[np.uint32]
    gram_starts: NDArray[np.int64]
    scales: NDArray[np.float16]
    start_counts: Stored[np.uint8]
    start_begins: NDArray[np.int64]
    start_columns: Stored[np.uint16]
    start_weights: Stored[np.uint8]
    end_counts: Stored[np.uint8]
    end_begins: NDArray[np.int64]
    end_columns: Stored[np.uint16]
    end_weights: Stored[np.uint8]
    model: str

    @property
    def lengths(self) -> SparseLengths:
        """How many n-grams and entries there are."""
        return SparseLengths(len(self.grams), len(self.start_columns), len(self.end_columns))

    @property
    def n_bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in self.named().values())

    def named(self) -> dict[str, Stored[Any]]:
        """Return the arrays under the names they have in a file."""
        return {name: getattr(self, name.removeprefix("sparse_")) for name in SPARSE_NAMES}

    @classmethod
    def from_named(cls, arrays: Mapping[str, Any], model: str) -> SparseArrays:
        """Return what `named` gave."""
        return cls(**{name.removeprefix("sparse_"): arrays[name] for name in SPARSE_NAMES}, model=model)

    def check(self, token_counts: NDArray[np.uint32]) -> None:
        """Raise UsageError when shapes, dtypes or numbers contradict each other or the rows of the passages."""
        n_rows = int(token_counts.sum(dtype=np.int64))
        named = self.named()
        for spec in sparse_specs(self.lengths, n_rows=n_rows, n_passages=len(token_counts)):
            array = named[spec.name]
            if array.dtype != spec.dtype or array.shape != spec.shape:
                raise UsageError(
                    f"segment array {spec.name!r} is {array.dtype} {array.shape}, expected {spec.dtype} {spec.shape}"
                )
        bounds = np.cumsum(np.concatenate([[0], token_counts.astype(np.int64)]))
        problems = {"dictionaries are not divided rightly": _divide_wrongly(self.gram_starts, len(self.grams))}
        n_grams = np.diff(self.gram_starts)
        for side in _SIDES:
            counts, begins = getattr(self, f"{side}_counts"), getattr(self, f"{side}_begins")
            columns = getattr(self, f"{side}_columns")
            sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])[bounds]
            wrong = _divide_wrongly(begins, len(columns)) or bool((sums != begins).any())
            problems[f"{side} entries are not divided rightly"] = wrong
            if not wrong and len(columns):
                limits = np.repeat(n_grams, np.diff(begins))
                problems[f"{side} entries name unknown n-grams"] = bool((columns >= limits).any())
        for problem, holds in problems.items():
            if holds:
                raise UsageError(f"sparse rows contradict each other: {problem}; expected a consistent segment")


SPARSE_NAMES = tuple(f"sparse_{name}" for name in SparseArrays.__dataclass_fields__ if name != "model")
CHECKED_SPARSE_NAMES = frozenset(
    name for name in SPARSE_NAMES if name.endswith(("grams", "counts", "columns", "weights"))
)
"""Those that have an item a token, an entry or an n-gram."""


def sparse_specs(lengths: SparseLengths, *, n_rows: int, n_passages: int) -> list[ArraySpec]:
    """Name, dtype and shape of each sparse array of a segment of these lengths."""
    p, n = n_passages, n_rows
    shapes: dict[str, tuple[type[np.generic], tuple[int, ...]]] = {
        "grams": (np.uint32, (lengths.n_grams,)),
        "gram_starts": (np.int64, (p + 1,)),
        "scales": (np.float16, (p, 2)),
    }
    for side, n_entries in zip(_SIDES, (lengths.n_start, lengths.n_end), strict=True):
        shapes[f"{side}_counts"] = (np.uint8, (n,))
        shapes[f"{side}_begins"] = (np.int64, (p + 1,))
        shapes[f"{side}_columns"] = (np.uint16, (n_entries,))
        shapes[f"{side}_weights"] = (np.uint8, (n_entries,))
    return [ArraySpec(f"sparse_{name}", np.dtype(dtype), shape) for name, (dtype, shape) in shapes.items()]


def sparse_arrays(passages: Sequence[SparsePassage]) -> SparseArrays:
    """Return the arrays of these passages, of which there is at least one, in order; weights become bytes.

    Raises:
        UsageError: The passages are of several sparse encoders.
    """
    models = sorted({passage.model for passage in passages})
    if len(models) != 1:
        raise UsageError(f"sparse rows of {len(models)} encoders in one segment ({models}), expected one")
    scales = np.ones((len(passages), 2), dtype=np.float16)
    parts: dict[str, list[NDArray[Any]]] = {f"{side}_{name}": [] for side in _SIDES for name in _ENTRY_NAMES}
    begins = {side: [0] for side in _SIDES}
    for number, passage in enumerate(passages):
        for column, (side, entries) in enumerate(zip(_SIDES, (passage.start, passage.end), strict=True)):
            codes, scales[number, column] = _coded(entries.weights)
            kept = codes > 0
            owners = np.repeat(np.arange(len(entries.counts)), entries.counts)
            counts = np.bincount(owners[kept], minlength=len(entries.counts)).astype(np.uint8)
            parts[f"{side}_counts"].append(counts)
            parts[f"{side}_columns"].append(entries.columns[kept])
            parts[f"{side}_weights"].append(codes[kept])
            begins[side].append(begins[side][-1] + int(kept.sum()))
    sides: dict[str, NDArray[Any]] = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    for side in _SIDES:
        sides[f"{side}_begins"] = np.array(begins[side], dtype=np.int64)
    return SparseArrays(
        grams=np.concatenate([passage.grams for passage in passages]),
        gram_starts=np.cumsum([0, *(len(passage.grams) for passage in passages)], dtype=np.int64),
        scales=scales,
        **sides,
        model=models[0],
    )


_ENTRY_NAMES = ("counts", "columns", "weights")


def _coded(weights: NDArray[np.float32]) -> tuple[NDArray[np.uint8], np.float16]:
    """Return the weights as bytes and their scale: the largest is 255, what is below half a step is 0."""
    largest = float(weights.max(initial=0.0))
    scale = np.float16(min(largest / _MAX_CODE, 60_000.0))
    if float(scale) * _MAX_CODE < largest:
        scale = np.nextafter(scale, np.float16(np.inf))
    if not scale > 0:
        return np.zeros(len(weights), dtype=np.uint8), np.float16(1.0)
    return np.minimum(np.rint(weights / np.float32(scale)), _MAX_CODE).astype(np.uint8), scale


def _divide_wrongly(starts: NDArray[np.int64], n: int) -> bool:
    return int(starts[0]) != 0 or int(starts[-1]) != n or bool((np.diff(starts) < 0).any())
