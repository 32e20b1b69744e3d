"""Training a quantiser on a sample: L2 centroids, a rotation of the residuals, codebooks or ranges for them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

import faiss
import numpy as np
from numpy.typing import NDArray

from storage.ann_lists import assign, train_centroids
from storage.ann_options import AnnOptions
from storage.axis_groups import uneven_sizes
from storage.errors import InvalidOptionError
from storage.gpu import IndexDevice, nearest_on_gpu, uses_gpu
from storage.index_kind import IndexKind
from storage.quantiser import MAX_LISTS, Quantiser

__all__ = ["Stage", "sample_sizes", "train_quantiser"]

Float32 = NDArray[np.float32]
Stage = Callable[[str, int, int], None]

# Residuals that codebooks and rotation are trained on: FAISS's own limit, 256 for each of 256 entries.
_MAX_RESIDUALS = 1 << 16
_CODEBOOK_ROUNDS = 25
# Residuals further from the mean are cut off: with wider ranges the 16 steps are too coarse for all the others.
_RANGE_DEVIATIONS = 3.0


def sample_sizes(n_rows: int, options: AnnOptions) -> tuple[int, int]:
    """Return how many lists a quantiser for this many vectors gets, and how many vectors its training looks at."""
    nlist = options.lists_for(n_rows)
    if nlist > MAX_LISTS:
        raise InvalidOptionError(f"nlist is {nlist}; wanted at most {MAX_LISTS} for index kind {options.kind!r}")
    return nlist, min(n_rows, max(nlist * options.sample_per_list, _MAX_RESIDUALS))


def train_quantiser(
    sample: Float32, nlist: int, options: AnnOptions, *, stage: Stage, device: IndexDevice = "cpu"
) -> Quantiser:
    """Return the quantiser for vectors like these; the same sample and options give the same one on one machine.

    Args:
        sample: float32 (n, d), drawn at random.
        nlist: How many lists.
        options: Kind, seed, rounds of k-means.
        stage: Shown the progress.
        device: Where k-means runs.

    Raises:
        InvalidOptionError: The sample is too small for the kind, or the kind does not fit the dimension.
    """
    kind = options.index_kind
    d = sample.shape[1]
    kind.groups(d)
    if len(sample) < kind.least_rows():
        raise InvalidOptionError(
            f"index kind {kind.name!r} is trained on at least {kind.least_rows()} vectors, there are {len(sample)}; "
            "use 'ivf-sq8' or 'exact' for a knowledge base as small as this"
        )
    gpu = uses_gpu(device)
    nearest = nearest_on_gpu if gpu else None
    generator = np.random.default_rng(options.seed)
    n_clustered = min(len(sample), nlist * options.sample_per_list)
    total = options.iterations * n_clustered
    done = 0

    def advance(n_rows: int) -> None:
        nonlocal done
        done += n_rows
        stage("training: centroids", done, total)

    clustered = sample[:n_clustered]
    centroids = train_centroids(clustered, nlist, options.iterations, generator, advance, nearest=nearest)
    centroids = centroids.astype(np.float16).astype(np.float32)
    chosen = sample[: min(len(sample), _MAX_RESIDUALS)]
    lists = assign(len(chosen), lambda block: chosen[block], centroids, lambda _: None, nearest=nearest)
    residuals = chosen - centroids[lists]
    name = uuid.uuid4().hex
    if kind.coding == "scalar":
        return Quantiser(name, kind, centroids, ranges=_ranges(residuals))
    rotation = _rotation(residuals, kind) if kind.rotated else None
    if rotation is not None:
        residuals = residuals @ rotation.T
    codebooks = _codebooks(residuals, kind, kind.groups(d), options.seed, stage, gpu=gpu)
    return Quantiser(name, kind, centroids, rotation=rotation, codebooks=codebooks)


def _ranges(residuals: Float32) -> Float32:
    """Least value and width in each dimension, float32 (2, d): mean ± 3 standard deviations."""
    mean, deviation = residuals.mean(axis=0), residuals.std(axis=0)
    width = np.maximum(2 * _RANGE_DEVIATIONS * deviation, np.float32(1e-6))
    return np.stack([mean - width / 2, width]).astype(np.float32)


def _rotation(residuals: Float32, kind: IndexKind) -> Float32:
    """Return the rotation float32 (d, d) to the principal axes, dealt out to the groups (Ge et al., CVPR 2013, 3.2).

    Each group gets as many axes, such that the products of their variances are alike: what is best for normally
    distributed residuals, and on token vectors better than any number of rounds that improve on a random rotation.
    """
    d = residuals.shape[1]
    groups = kind.groups(d)
    variances, axes = np.linalg.eigh(np.cov(residuals.T.astype(np.float64)))  # rising; axes in columns
    if kind.has_uneven_groups:
        return _padded(axes[:, ::-1].T, uneven_sizes(variances[::-1], groups, kind.bits))
    logarithms = np.log(np.maximum(variances, 1e-9 * max(float(variances[-1]), 1e-30)))
    dealt: list[list[int]] = [[] for _ in range(groups)]
    products = np.zeros(groups)
    for axis in range(d - 1, -1, -1):
        room = [group for group in range(groups) if len(dealt[group]) < d // groups]
        least = min(room, key=lambda group: products[group])
        dealt[least].append(axis)
        # Above the least variance all are positive, so that an axis more is always a greater product.
        products[least] += logarithms[axis] - logarithms[0]
    rotation: Float32 = axes[:, [axis for group in dealt for axis in group]].T.astype(np.float32)
    return np.ascontiguousarray(rotation)


def _padded(axes: NDArray[np.float64], sizes: Sequence[int]) -> Float32:
    """Return the axes float64 (d, d), one a row, in groups of these sizes, rows of zeros filling up smaller ones."""
    width = max(sizes)
    rotation = np.zeros((len(sizes) * width, axes.shape[1]), dtype=np.float32)
    first = 0
    for group, size in enumerate(sizes):
        rotation[group * width : group * width + size] = axes[first : first + size]
        first += size
    return rotation


def _codebooks(residuals: Float32, kind: IndexKind, groups: int, seed: int, stage: Stage, *, gpu: bool) -> Float32:
    """Return the entries float32 (groups, 2^bits, width): k-means in each group of dimensions."""
    n = len(residuals)
    width = residuals.shape[1] // groups
    books: Sequence[Float32] = []
    for group in range(groups):
        part = np.ascontiguousarray(residuals[:, group * width : (group + 1) * width])
        kmeans = faiss.Kmeans(width, 2**kind.bits, niter=_CODEBOOK_ROUNDS, seed=seed + group, gpu=gpu)
        _quietly(kmeans.cp, seed + group)
        kmeans.cp.max_points_per_centroid = n
        kmeans.train(part)
        books = [*books, np.asarray(kmeans.centroids, dtype=np.float32)]
        stage("training: codebooks", group + 1, groups)
    return np.stack(books)


def _quietly(parameters: faiss.ClusteringParameters, seed: int) -> None:
    """Seed k-means and keep its warnings about few points off standard error."""
    parameters.seed = seed
    parameters.min_points_per_centroid = 1
