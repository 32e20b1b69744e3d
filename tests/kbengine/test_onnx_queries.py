"""Queries in int8: close to float32's vectors, to the bit the same in any company, small changes by tuning kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.config import ARCHITECTURES, Architecture
from kbengine.encoders.deltas import DELTA, applied
from kbengine.encoders.encoder import Encoder, QueryVectors
from kbengine.encoders.model import query_weights
from kbengine.encoders.onnx_queries import OnnxQueries
from kbengine.encoders.sparse.checkpoint import write_sparse
from kbengine.encoders.sparse.config import SparseConfig
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.inputs import Dialogue, Mention, Question, Slot, TaskInput
from tests.tiny_encoder import write_tiny_encoder

QUERIES: list[TaskInput] = [
    Question("Where was the author born?"),
    Slot("Marie Curie", "place of birth"),
    Mention.from_parts("The capital of", "France", "is Paris."),
    Dialogue(["Who wrote the novel?", "A woman from Poland.", "When did she die?"]),
    Question("Paris"),
]
VECTORS = ("start", "end", "passage")


@pytest.fixture(scope="module", params=ARCHITECTURES)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder of each architecture, stored as int8, with sparse heads where it has the states of one encoder."""
    architecture: Architecture = request.param
    path = write_tiny_encoder(tmp_path_factory.mktemp("encoders") / "m", architecture=architecture, dtype="int8")
    if architecture == "shared-query":
        torch.manual_seed(0)
        heads = SparseHeads(SparseConfig(32, top=4))
        with torch.no_grad():
            for parameter in heads.parameters():
                parameter.normal_(std=0.3)
        write_sparse(path, heads)
    return path


@pytest.fixture(scope="module")
def encoder(directory: Path) -> Encoder:
    """The same, as a processor computes it unless told otherwise."""
    return Encoder.load(directory, device="cpu")


@pytest.fixture(scope="module")
def reference(directory: Path) -> Encoder:
    """The same in float32."""
    return Encoder.load(directory, device="cpu", dtype="float32")


def cosines(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the cosine of each pair of rows."""
    return np.sum(one * other, axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_int8_is_close_to_float32(encoder: Encoder, reference: Encoder) -> None:
    """All kinds of query; lengths are kept, not only directions."""
    assert (encoder.query_arithmetic, reference.query_arithmetic) == ("int8", "float32")
    assert (encoder.fingerprint, encoder.passage_fingerprint) == (reference.fingerprint, reference.passage_fingerprint)
    ours, theirs = encoder.encode_queries(QUERIES), reference.encode_queries(QUERIES)
    for name in VECTORS:
        one, other = getattr(ours, name), getattr(theirs, name)
        assert one.dtype == np.float32
        assert one.shape == other.shape
        assert cosines(one, other).min() > 0.999
        np.testing.assert_allclose(np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1), rtol=0.02)
    np.testing.assert_array_equal(ours.n_tokens, theirs.n_tokens)


def test_a_query_alone_gives_to_the_bit_what_it_gives_among_others(encoder: Encoder) -> None:
    """Alone, in a batch, and from several threads at once."""
    together = encoder.encode_queries(QUERIES * 3)

    def alone(i: int) -> QueryVectors:
        return encoder.encode_queries([QUERIES[i]])

    with ThreadPoolExecutor(4) as executor:
        for i, found in enumerate(executor.map(alone, range(len(QUERIES)))):
            for name in VECTORS:
                np.testing.assert_array_equal(getattr(found, name)[0], getattr(together, name)[i + len(QUERIES)])
    assert encoder.encode_queries([]).start.shape == (0, encoder.d)


def test_weights_as_uint8_give_the_same_vectors(directory: Path) -> None:
    """What processors without VNNI get."""
    checkpoint = read_checkpoint(directory)
    signed, unsigned = (OnnxQueries(checkpoint.stored, checkpoint.config, signed=each) for each in (True, False))
    for one, other in zip(signed([[2, 9, 30, 3], [2, 3]]), unsigned([[2, 9, 30, 3], [2, 3]]), strict=True):
        np.testing.assert_allclose(one.start, other.start, atol=1e-5)


def test_changes_far_below_a_step_of_int8_count(directory: Path, encoder: Encoder, reference: Encoder) -> None:
    """Tuning moves a weight by less than rounding would: what int8 changes stays far below what tuning changes."""
    base = query_weights(read_checkpoint(directory).weights)
    names = [name for name in base if name.endswith("dense.weight")]
    generator = torch.Generator().manual_seed(0)
    steps = {name: base[name].abs().amax(dim=1, keepdim=True) / 127 for name in names}
    signs = {name: torch.randn(base[name].shape, generator=generator).sign() for name in names}
    deltas = {DELTA + name: 0.4 * steps[name] * signs[name] for name in names}  # all would be rounded away
    weights = applied(base, deltas, 1.0)
    ours, theirs = (
        each.with_query_weights(weights, name="tuned", fingerprint="f" * 64) for each in (encoder, reference)
    )
    untuned, tuned, wanted = (each.encode_queries(QUERIES) for each in (encoder, ours, theirs))
    plain = reference.encode_queries(QUERIES)
    for name in VECTORS:
        moved = getattr(tuned, name) - getattr(untuned, name)
        expected = getattr(wanted, name) - getattr(plain, name)
        assert cosines(moved.reshape(1, -1), expected.reshape(1, -1)).min() > 0.5  # zero, were they lost
    np.testing.assert_array_equal(encoder.encode_queries(QUERIES).start, untuned.start)


def test_tuned_heads_share_the_query_encoder(directory: Path, encoder: Encoder, reference: Encoder) -> None:
    """Only what tuning touched is made anew."""
    heads = {n: t * 2 for n, t in query_weights(read_checkpoint(directory).weights).items() if "_start_head" in n}
    if not heads:
        pytest.skip("three-tower encoders have no heads")
    tuned = encoder.with_query_weights(heads, name="tuned", fingerprint="f" * 64)
    ours, before = tuned.encode_queries(QUERIES), encoder.encode_queries(QUERIES)
    np.testing.assert_allclose(ours.start, 2 * before.start, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(ours.end, before.end)
    assert encoder._queries is not None
    assert tuned._queries is not None
    assert tuned._queries._towers[0].session is encoder._queries._towers[0].session


def test_sparse_vectors_come_from_the_same_states(encoder: Encoder, reference: Encoder) -> None:
    """The same n-grams, with weights close to float32's."""
    ours, theirs = encoder.encode_queries(QUERIES).sparse, reference.encode_queries(QUERIES).sparse
    if theirs is None:
        assert ours is None
        return
    assert ours is not None
    for one, other in zip(ours, theirs, strict=True):
        in_both = np.intersect1d(one.grams, other.grams)
        assert len(in_both) >= 0.8 * max(len(one.grams), len(other.grams))
        both = [each.start[np.isin(each.grams, in_both)] for each in (one, other)]
        np.testing.assert_allclose(*both, atol=0.1 * max(1.0, float(other.start.max())))


def test_other_encoders_are_computed_in_float32(tmp_path: Path) -> None:
    """Stored as float32, in the middle of training, or asked for by name: as they were trained."""
    plain = Encoder.load(write_tiny_encoder(tmp_path / "m"), device="cpu")
    assert plain.query_arithmetic == "float32"
