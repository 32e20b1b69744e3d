"""The 4-bit code of stored vectors: what it decodes to, what it costs, and codes of several widths by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from storage.errors import CorruptError, UsageError
from storage.mixed_codes import MixedCodes
from storage.quantiser_file import read_quantiser, read_quantiser_of, write_quantiser, write_quantiser_of
from storage.stored_code import measure_stored_code


def test_codes_of_several_widths_by_hand() -> None:
    """A byte, two halves and four quarters of one; what is out of range is the nearest; no bits are 0."""
    bits = np.array([8, 4, 4, 2, 2, 2, 0], dtype=np.uint8)
    steps = [0.5, 1, 1, 1, 1, 1, 0]
    codes = MixedCodes(bits, np.array([[-64, -8, -8, -2, -2, -2, 0], steps], dtype=np.float32))
    values = np.array([[63.9, -7.9, 100, -1.9, -0.9, 1.9, 5]], dtype=np.float32)
    coded = codes.compute_codes(values)
    assert codes.code_bytes == 3
    assert coded.tolist() == [[255, 0 | 15 << 4, 0 | 1 << 2 | 3 << 4]]
    assert codes.levels(coded).tolist() == [[255, 0, 15, 0, 1, 3, 0]]
    assert codes.decode(coded).tolist() == [[63.75, -7.5, 7.5, -1.5, -0.5, 1.5, 0]]
    targets = np.arange(14, dtype=np.float32).reshape(2, 7)
    np.testing.assert_allclose(
        codes.inner_products(coded, np.arange(len(coded)), codes.targets(targets)),
        codes.decode(coded) @ targets.T,
        rtol=1e-6,
    )


def test_products_depend_on_nothing_beside_them() -> None:
    """A row's products are the same to the bit alone and in company, with one target and with two."""
    rng = np.random.default_rng(1)
    code = measure_stored_code(rng.normal(size=(300, 37)).astype(np.float32)).mixed
    coded = rng.integers(0, 256, (50, code.code_bytes), dtype=np.uint8)
    vectors = rng.normal(size=(2, 37)).astype(np.float32)
    rows = np.array([7, 3, 3, 49, 0])
    both = code.inner_products(coded, rows, code.targets(vectors))
    np.testing.assert_allclose(both, code.decode(coded[rows]) @ vectors.T, rtol=1e-4, atol=1e-4)
    for i, row in enumerate(rows):
        for target in range(2):
            alone = code.inner_products(coded, np.array([row]), code.targets(vectors))
            assert alone[0, target] == both[i, target]
    targets = code.targets(vectors)
    first = type(targets)(targets.stepped[:1], targets.constants[:1])
    assert np.array_equal(code.inner_products(coded, rows, first)[:, 0], both[:, 0])


@pytest.mark.parametrize("rows", [[-1], [0, 3], [1 << 40]])
def test_rows_that_are_not_there_are_refused(rows: list[int]) -> None:
    """Machine code reads what it is told to: so it is told which rows there are."""
    code = MixedCodes(np.array([8, 4], dtype=np.uint8), np.ones((2, 2), dtype=np.float32))
    with pytest.raises(UsageError, match=f"rows run from {min(rows)} to {max(rows)}, there are codes of 3"):
        code.inner_products(np.zeros((3, 2), np.uint8), np.array(rows), code.targets(np.ones((1, 2), np.float32)))
    with pytest.raises(UsageError, match="codes have shape"):
        code.inner_products(np.zeros((3, 1), np.uint8), np.array([0]), code.targets(np.ones((1, 2), np.float32)))


@pytest.mark.parametrize("bits", [[4, 8], [3], [[8]]])
def test_bits_that_no_code_has_are_refused(bits: list[int]) -> None:
    """Rising bits, and widths that do not divide a byte."""
    array = np.array(bits, dtype=np.uint8)
    with pytest.raises(UsageError, match="bits of dimensions"):
        MixedCodes(array, np.ones((2, array.size), dtype=np.float32))


@pytest.mark.parametrize("n", [1, 30, 3000])
def test_few_vectors_make_a_coarse_code_and_many_a_fine_one(n: int) -> None:
    """Half a byte a dimension, a cosine that grows with what was seen, no value without a code."""
    rng = np.random.default_rng(5)
    axes = np.linalg.qr(rng.normal(size=(24, 24)))[0] * np.geomspace(3, 0.1, 24)
    vectors = (rng.normal(size=(4000, 24)) @ axes.T + 0.3).astype(np.float32)
    code = measure_stored_code(vectors[:n])
    assert code.code_bytes <= 14
    lists = np.zeros(1000, dtype=np.uint16)
    others = vectors[3000:]
    coded = code.encode(others, lists)
    decoded = code.decode(lists, coded)
    cosines = (others * decoded).sum(axis=1) / np.linalg.norm(others, axis=1) / np.linalg.norm(decoded, axis=1)
    assert cosines.mean() > {1: 0.9, 30: 0.95, 3000: 0.995}[n]
    targets = rng.normal(size=(24, 2)).astype(np.float32)
    np.testing.assert_allclose(
        code.inner_products(lists, coded, np.arange(len(coded)), targets), decoded @ targets, atol=1e-3
    )
    assert code.encode(others * 1000, lists).shape == coded.shape


def test_axes_beat_equal_bits() -> None:
    """Where few axes vary much, dealing out bits makes less than half the error of four bits for each."""
    rng = np.random.default_rng(7)
    vectors = (rng.normal(size=(6000, 32)) * np.geomspace(4, 0.1, 32)).astype(np.float32)
    lists = np.zeros(len(vectors), dtype=np.uint16)
    code = measure_stored_code(vectors)
    error = ((vectors - code.decode(lists, code.encode(vectors, lists))) ** 2).sum()
    deviations = vectors.std(axis=0)
    equal = MixedCodes(np.full(32, 4, np.uint8), np.stack([-2.8 * deviations, 2.8 * deviations / 8]))
    assert error < 0.5 * ((vectors - equal.decode(equal.compute_codes(vectors))) ** 2).sum()


def test_the_file_decodes_as_what_was_written_and_belongs_to_its_encoder(tmp_path: Path) -> None:
    """In a knowledge base by name and checksum, beside an encoder by its passage fingerprint."""
    vectors = np.random.default_rng(1).normal(size=(500, 8)).astype(np.float32)
    lists = np.zeros(500, dtype=np.uint16)
    code = measure_stored_code(vectors)
    coded = code.encode(vectors, lists)
    record = write_quantiser(tmp_path, code)
    write_quantiser_of(tmp_path / "own", code, passage_fingerprint="one")
    for again in (read_quantiser(tmp_path, record), read_quantiser_of(tmp_path / "own", passage_fingerprint="one")):
        assert again.name == code.name
        assert np.array_equal(again.encode(vectors, lists), coded)
        assert np.array_equal(again.decode(lists, coded), code.decode(lists, coded))
    with pytest.raises(CorruptError, match="expected"):
        read_quantiser_of(tmp_path / "own", passage_fingerprint="another")
