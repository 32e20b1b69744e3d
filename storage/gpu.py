"""The graphics processor as an index device: only with a FAISS that was built for one; everything works without."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any, Literal

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.errors import InvalidOptionError, PlatformError

__all__ = ["GpuIndex", "IndexDevice", "gpu_count", "nearest_on_gpu", "uses_gpu"]

IndexDevice = Literal["auto", "cpu", "gpu"]
# What FAISS's kernels can select and probe at once.
_MAX_K = 2048
_MAX_PROBES = 2048


def gpu_count() -> int:
    """Return how many graphics processors FAISS can use; 0 for a FAISS without support for them."""
    return int(faiss.get_num_gpus()) if hasattr(faiss, "StandardGpuResources") else 0


def uses_gpu(device: IndexDevice) -> bool:
    """Return whether the index is trained and searched on a graphics processor.

    Raises:
        PlatformError: One is asked for and there is none.
    """
    if device not in ("auto", "cpu", "gpu"):
        raise InvalidOptionError(f"index device is {device!r}; wanted auto, cpu or gpu")
    available = gpu_count() > 0
    if device == "gpu" and not available:
        built = "finds none" if hasattr(faiss, "StandardGpuResources") else "is built for processors only"
        raise PlatformError(
            f"index device 'gpu' was asked for, but FAISS {faiss.__version__} {built}; wanted an NVIDIA card and "
            '"pip uninstall faiss-cpu", "pip install faiss-gpu-cu12", or index device \'cpu\''
        )
    return available and device != "cpu"


@cache
def _resources() -> tuple[Any, threading.Lock]:
    # FAISS's resources serve one call at a time.
    return faiss.StandardGpuResources(), threading.Lock()


def nearest_on_gpu(vectors: NDArray[np.float32], centroids: NDArray[np.float32]) -> NDArray[np.int64]:
    """Return the number of the nearest centroid (by L2) of each vector float32 (n, d), int64 (n)."""
    resources, lock = _resources()
    with lock:
        _, nearest = faiss.knn_gpu(resources, vectors, centroids, 1)
    return np.asarray(nearest[:, 0], dtype=np.int64)


class GpuIndex:
    """A copy of a FAISS index in the memory of the first graphics processor; safe to share between threads."""

    def __init__(self, index: Any) -> None:
        resources, self._lock = _resources()
        options = faiss.GpuClonerOptions()
        # Tables of 96 groups fit into a block's memory as float16 only; candidates are scored again afterwards.
        options.useFloat16 = isinstance(index, faiss.IndexIVFPQ)
        with self._lock:
            self._index = faiss.index_cpu_to_gpu(resources, 0, index, options)

    @staticmethod
    def takes(index: Any) -> bool:
        """Return whether there is a kernel for this kind of index; codes packed for registers have none."""
        return isinstance(index, faiss.IndexIVFPQ | faiss.IndexIVFScalarQuantizer)

    @staticmethod
    def can(k: int, nprobe: int) -> bool:
        """Return whether a search with these numbers can run there."""
        return k <= _MAX_K and nprobe <= _MAX_PROBES

    def search(
        self, queries: NDArray[np.float32], k: int, nprobe: int
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return the scores, falling, and the rows of the best vectors, −1 where there are fewer, both (m, k)."""
        with self._lock:
            parameters = faiss.SearchParametersIVF(nprobe=nprobe)  # type: ignore[call-arg]
            scores, rows = self._index.search(queries, k, params=parameters)
        return np.asarray(scores, dtype=np.float32), np.asarray(rows, dtype=np.int64)
