"""Quantisers: what they lose, in which basis they answer, and their files."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from storage.ann_options import AnnOptions
from storage.errors import CorruptError, InvalidOptionError, PlatformError, UsageError
from storage.gpu import gpu_count, uses_gpu
from storage.index_kind import INDEX_KINDS, IndexKind
from storage.quantiser import Quantiser
from storage.quantiser_file import quantiser_path, read_quantiser, write_quantiser
from storage.quantiser_training import sample_sizes, train_quantiser
from tests.storage.clustered_world import D, cosines, vectors_of

# Kind and least median cosine of a decoded vector with the true one; 32 dimensions lose less than 384 would.
KINDS = [
    ("ivf-sq4", 0.99),
    ("ivf-pq", 0.95),
    ("opq4", 0.88),
    ("opq8", 0.95),
    ("opq16", 0.99),
    ("fastscan", 0.96),
    ("opq-fastscan", 0.90),
]


def train(kind: str, *, seed: int = 1, nlist: int = 16) -> Quantiser:
    """A quantiser for the clustered vectors."""
    options = AnnOptions(kind=kind, seed=seed, iterations=3)
    return train_quantiser(vectors_of(1, 3000), nlist, options, stage=lambda *_: None)


@pytest.fixture(scope="module")
def trained() -> dict[str, Quantiser]:
    """A quantiser of each kind."""
    return {kind: train(kind) for kind, _ in KINDS}


def coded(quantiser: Quantiser, vectors):
    """List numbers and codes of vectors."""
    distances = ((vectors[:, None] - quantiser.centroids[None]) ** 2).sum(axis=2)
    lists = distances.argmin(axis=1)
    return lists, quantiser.encode(vectors, lists)


@pytest.mark.parametrize(("kind", "least"), KINDS)
def test_decoded_vectors_are_near_the_true_ones_in_the_true_basis(trained, kind, least):
    """Cosine with the original is high; rotated once too often it is near zero (the double-rotation defect)."""
    quantiser = trained[kind]
    vectors = vectors_of(2, 500)
    lists, codes = coded(quantiser, vectors)
    assert codes.shape == (500, quantiser.code_bytes)
    assert codes.dtype == np.uint8
    decoded = quantiser.decode(lists, codes)
    assert np.median(cosines(decoded, vectors)) > least
    if quantiser.rotation is not None:
        identity = quantiser.rotation.T @ quantiser.rotation
        np.testing.assert_allclose(identity, np.eye(D), atol=1e-4)
        np.testing.assert_allclose(quantiser.unrotated(quantiser.rotated(vectors)), vectors, atol=1e-4)
        if quantiser.coded_d == D:
            assert abs(np.median(cosines(quantiser.unrotated(decoded), vectors))) < 0.6


@pytest.mark.parametrize(("kind", "least"), KINDS)
def test_inner_products_are_those_of_the_decoded_vectors(trained, kind, least):
    """Rotating the targets gives what rotating all vectors back gives."""
    del least
    quantiser = trained[kind]
    lists, codes = coded(quantiser, vectors_of(3, 200))
    targets = vectors_of(4, 2).T
    np.testing.assert_allclose(
        quantiser.inner_products(lists, codes, np.arange(len(codes)), targets),
        quantiser.decode(lists, codes) @ targets,
        atol=1e-3,
    )


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS if "fastscan" not in kind])
def test_faiss_scores_with_the_vectors_that_we_decode(trained, kind):
    """The score that the index finds for a row is the inner product of the query with the decoded row."""
    quantiser = trained[kind]
    vectors = vectors_of(5, 300)
    lists, codes = coded(quantiser, vectors)
    index, coarse = quantiser.empty_index()
    for row in range(300):
        ids, code = np.array([row]), codes[row : row + 1]
        index.invlists.add_entries(int(lists[row]), 1, faiss.swig_ptr(ids), faiss.swig_ptr(code))
    index.ntotal = 300
    index.nprobe = coarse.ntotal
    queries = vectors_of(6, 5)
    scores, rows = index.search(quantiser.rotated(queries), 300)
    wanted = queries @ quantiser.decode(lists, codes).T
    np.testing.assert_allclose(scores, np.take_along_axis(wanted, rows, axis=1), rtol=1e-3, atol=2e-3)


def test_rotation_loses_less_than_none():
    """Where dimensions depend on each other, optimised product quantisation loses less in as many bytes."""
    rng = np.random.default_rng(1)
    mixing, _ = np.linalg.qr(rng.normal(size=(D, D)))
    vectors = (rng.normal(size=(4000, D)) * np.linspace(3, 0.05, D) @ mixing).astype(np.float32)
    errors = {}
    for kind in ("ivf-pq", "opq8"):
        options = AnnOptions(kind=kind, iterations=1)
        quantiser = train_quantiser(vectors[:3000], 1, options, stage=lambda *_: None)
        assert quantiser.code_bytes == 8
        tested = vectors[3000:]
        errors[kind] = ((quantiser.decode(*coded(quantiser, tested)) - tested) ** 2).sum()
    assert errors["opq8"] < 0.7 * errors["ivf-pq"]


def test_the_same_sample_and_seed_give_the_same_quantiser():
    """Training is reproducible, and the seed counts."""
    one, same, other = train("opq4"), train("opq4"), train("opq4", seed=2)
    np.testing.assert_array_equal(one.codebooks, same.codebooks)
    np.testing.assert_array_equal(one.rotation, same.rotation)
    assert not np.array_equal(one.codebooks, other.codebooks)
    assert one.name != same.name


def test_training_tells_its_progress():
    """Each stage goes from little to all."""
    seen: dict[str, list[tuple[int, int]]] = {}
    train_quantiser(
        vectors_of(1, 600),
        4,
        AnnOptions(kind="opq4", iterations=2),
        stage=lambda what, done, total: seen.setdefault(what, []).append((done, total)),
    )
    assert list(seen) == ["training: centroids", "training: codebooks"]
    for steps in seen.values():
        assert steps[-1][0] == steps[-1][1]
        assert [done for done, _ in steps] == sorted(done for done, _ in steps)


@pytest.mark.parametrize("kind", ["ivf-sq4", "opq8", "fastscan", "opq-fastscan"])
def test_a_quantiser_comes_back_from_its_file(tmp_path: Path, trained, kind):
    """Codes and decoded vectors are the same to the last bit."""
    quantiser = trained[kind]
    file = write_quantiser(tmp_path, quantiser)
    again = read_quantiser(tmp_path, file)
    vectors = vectors_of(9, 100)
    lists, codes = coded(quantiser, vectors)
    np.testing.assert_array_equal(again.encode(vectors, lists), codes)
    np.testing.assert_array_equal(again.decode(lists, codes), quantiser.decode(lists, codes))


def test_any_changed_byte_of_the_file_is_noticed(tmp_path: Path, trained):
    """Flips, truncation and absence are damage, found before FAISS sees a byte."""
    file = write_quantiser(tmp_path, trained["opq4"])
    path = quantiser_path(tmp_path, file.name)
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    for position in [0, 9, len(good) - 1, *rng.integers(len(good), size=10).tolist()]:
        path.write_bytes(good[:position] + bytes([good[position] ^ 16]) + good[position + 1 :])
        with pytest.raises(CorruptError):
            read_quantiser(tmp_path, file)
    path.write_bytes(good[:-1])
    with pytest.raises(CorruptError):
        read_quantiser(tmp_path, file)
    path.unlink()
    with pytest.raises(CorruptError) as missing:
        read_quantiser(tmp_path, file)
    assert isinstance(missing.value.__cause__, FileNotFoundError)


def test_kinds_are_known_by_name():
    """Bytes a vector at 384 dimensions; unknown names and groups that do not fit are refused with what would fit."""
    sizes = {name: IndexKind.of(name).code_bytes(384) for name in INDEX_KINDS if IndexKind.of(name).needs_quantiser}
    assert sizes == {
        "ivf-sq4": 192,
        "opq16": 16,
        "opq32": 32,
        "opq48": 48,
        "opq96": 96,
        "opq-fastscan": 64,
    }
    assert IndexKind.of("ivf-pq").code_bytes(384) == 96 and IndexKind.of("ivf-pq48").code_bytes(384) == 48
    with pytest.raises(InvalidOptionError, match="wanted one of exact, ivf-sq8"):
        IndexKind.of("hnsw")
    with pytest.raises(InvalidOptionError, match="divides it"):
        IndexKind.of("opq96").groups(100)
    with pytest.raises(InvalidOptionError):
        AnnOptions(kind="opq0")
    with pytest.raises(InvalidOptionError, match="refine"):
        AnnOptions(refine=0)


def test_too_few_vectors_and_too_many_lists_are_refused():
    """The message names the number that is wanted."""
    with pytest.raises(InvalidOptionError, match="at least 256 vectors, there are 100"):
        train_quantiser(vectors_of(1, 100), 4, AnnOptions(kind="opq4"), stage=lambda *_: None)
    with pytest.raises(InvalidOptionError, match="at most 65536"):
        sample_sizes(10**6, AnnOptions(kind="opq4", nlist=70_000))


def test_arrays_that_do_not_fit_the_kind_are_refused(trained):
    """A quantiser is checked when it is made, wherever its arrays come from."""
    quantiser = trained["opq4"]
    with pytest.raises(UsageError, match="rotation has shape None"):
        Quantiser("0" * 32, quantiser.kind, quantiser.centroids, codebooks=quantiser.codebooks)


def test_without_a_gpu_asking_for_one_says_what_to_install():
    """'auto' and 'cpu' work everywhere."""
    assert not uses_gpu("cpu")
    if gpu_count():
        pytest.skip("there is a GPU")
    assert not uses_gpu("auto")
    with pytest.raises(PlatformError, match="faiss-gpu-cu12"):
        uses_gpu("gpu")


@pytest.mark.gpu
def test_training_on_a_gpu_loses_no_more():
    """The error of a quantiser trained there is that of one trained here, within a few per cent."""
    vectors = vectors_of(8, 1000)
    errors = []
    for device in ("cpu", "gpu"):
        quantiser = train_quantiser(
            vectors_of(1, 3000), 16, AnnOptions(kind="opq8"), stage=lambda *_: None, device=device
        )
        errors.append(((quantiser.decode(*coded(quantiser, vectors)) - vectors) ** 2).sum())
    assert errors[1] == pytest.approx(errors[0], rel=0.05)
