"""Arrays of segments that are checked where they are read: no wrong byte comes out, and no other block is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.container import BLOCK_BYTES, open_container
from storage.errors import CorruptError
from storage.segment import Segment, SegmentFile, open_segment, segment_path
from storage.segment_arrays import CHECKED_WHEN_READ
from storage.stored_array import StoredArray
from tests.storage.segment_arrays import write_and_open
from tests.storage.test_segment import make_arrays


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SegmentFile, Segment]:
    """A segment of several blocks, and itself opened whole."""
    directory = tmp_path_factory.mktemp("segments")
    segment = write_and_open(directory, make_arrays([9000, 7000]))
    return segment_path(directory, segment.name), segment.file, segment


def damaged(written: tuple[Path, SegmentFile, Segment], tmp_path: Path, position: int) -> Segment:
    """The segment with one bit of a byte changed, opened without reading what is checked later."""
    path, file, _ = written
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << (position % 8)
    copy = tmp_path / path.name
    copy.write_bytes(data)
    return open_segment(copy, file, whole=False)


def read_all(segment: Segment) -> None:
    """Read every array, as one."""
    for name in CHECKED_WHEN_READ:
        array = getattr(segment.arrays, name, None)
        if array is not None:
            np.asarray(array)


def test_any_flipped_byte_is_found_when_it_is_opened_or_read(
    written: tuple[Path, SegmentFile, Segment], tmp_path: Path
) -> None:
    """One changed bit anywhere in the file, checksums included, is CorruptError naming the file."""
    path, file, _ = written
    n = len(path.read_bytes())
    for position in {*range(0, n, n // 60), n - 1}:
        with pytest.raises(CorruptError, match=file.name):
            read_all(damaged(written, tmp_path, position))


INDICES: list[Any] = [
    5,
    np.int64(-1),
    -16000,
    slice(None),
    slice(4090, 4200),
    slice(6000, 10, -7),
    slice(3, 3),
    np.array([15999, 0, 3, 3]),
    np.array([], dtype=np.int64),
    np.array([-1, -16000]),
    np.array([[0, 1], [5000, 2]], dtype=np.uint32),
    np.arange(16000) % 3 == 0,
    (slice(10, 20), 1),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_an_index_gives_what_numpy_gives(written: tuple[Path, SegmentFile, Segment], index: Any) -> None:
    """Whatever is asked for comes out as from an array in memory, one block checked or all of them."""
    path, file, whole = written
    array = open_segment(path, file, whole=False).arrays.codes
    assert isinstance(array, StoredArray)
    for _ in range(2):
        np.testing.assert_array_equal(array[index], np.asarray(whole.arrays.codes)[index])
        np.asarray(array)
    assert (array.shape, array.dtype, len(array), array.ndim) == ((16000, whole.d), np.int8, 16000, 2)


def test_what_numpy_refuses_is_refused(written: tuple[Path, SegmentFile, Segment]) -> None:
    """Numbers past the end are an IndexError, and what came out cannot be written to."""
    path, file, _ = written
    array = open_segment(path, file, whole=False).arrays.codes
    assert isinstance(array, StoredArray)
    for index in (16000, np.array([0, 16000])):
        with pytest.raises(IndexError):
            array[index]
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(array)[0, 0] = 1


def test_only_what_is_read_is_checked(written: tuple[Path, SegmentFile, Segment], tmp_path: Path) -> None:
    """Rows of other blocks come out of a damaged file; a row that reaches into the damaged one does not."""
    path, _, whole = written
    container = open_container(path)
    begin, d = container.offsets["codes"], whole.d
    damaged_block = begin // BLOCK_BYTES + 1
    segment = damaged(written, tmp_path, damaged_block * BLOCK_BYTES + 5)
    array = segment.arrays.codes
    assert isinstance(array, StoredArray)
    first = (damaged_block * BLOCK_BYTES - begin) // d  # the row across the border, or the first in the block
    before, after = np.arange(first), np.arange(first + BLOCK_BYTES // d + 1, 16000)
    for rows in (before, after, np.array([0, 15999])):
        np.testing.assert_array_equal(array[rows], np.asarray(whole.arrays.codes)[rows])
    for index in (np.array([first + 1]), first + 1, slice(first, first + 2), np.array([0, first + 2]), slice(None)):
        with pytest.raises(CorruptError, match=f"bytes from {damaged_block * BLOCK_BYTES} on"):
            array[index]
    with pytest.raises(CorruptError, match=segment.name):
        segment.vectors(slice(None))
