"""Segment files: written once, checked whole, merged by copying."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file

from storage.durable import hash_file
from storage.errors import CorruptError, StateError, UsageError
from storage.segment import Segment, SegmentArrays, SegmentFile, open_segment, segment_path, write_segment
from storage.segment_merge import merge_segments
from tests.storage.segment_arrays import WORDS, segment_arrays, write_and_open

D = 8


def make_arrays(
    counts: Sequence[int], *, seed: int = 0, first_token_id: int = 100, first_passage_id: int = 1
) -> SegmentArrays:
    """A small segment with these numbers of rows per passage and random vectors and texts."""
    rng = np.random.default_rng(seed)
    n, p = sum(counts), len(counts)
    vectors, passage_vectors = (rng.normal(size=(rows, D)).astype(np.float32) for rows in (n, p))
    return segment_arrays(
        vectors,
        passage_vectors,
        counts,
        texts=[("Title", " ".join(rng.choice(WORDS, size=rng.integers(0, 12)))) for _ in range(p)],
        scale=0.02,
        passage_scale=0.02,
        rng=rng,
        first_token_id=first_token_id,
        first_passage_id=first_passage_id,
        document_ids=np.arange(p, dtype=np.int64) // 2,
    )


def arrays_of(content: SegmentArrays) -> dict[str, NDArray[Any]]:
    """The arrays of a segment by name."""
    values = {field.name: getattr(content, field.name) for field in fields(content)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def posting_lists(content: SegmentArrays) -> dict[int, list[tuple[int, int]]]:
    """(passage id, count) of each term."""
    lists: dict[int, list[tuple[int, int]]] = {}
    for index, term in enumerate(content.terms.tolist()):
        part = slice(content.posting_starts[index], content.posting_starts[index + 1])
        ids = content.passage_ids[content.posting_passages[part]].tolist()
        lists[term] = list(zip(ids, content.posting_counts[part].tolist(), strict=True))
    return lists


def test_a_segment_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Every array and every setting survives the file."""
    arrays = make_arrays([3, 0, 5, 1])
    segment = write_and_open(tmp_path, arrays)
    for name, array in arrays_of(arrays).items():
        np.testing.assert_array_equal(getattr(segment.arrays, name), array, err_msg=name)
    assert (segment.arrays.token_scale, segment.arrays.encoder, segment.d) == (0.02, "feed", D)
    assert (segment.file.n_rows, segment.file.n_passages) == (9, 4)
    assert (segment.file.first_token_id, segment.file.end_token_id) == (100, 109)
    assert [path.name for path in tmp_path.iterdir()] == [f"{segment.name}.seg"]


def test_the_safetensors_library_reads_a_segment(tmp_path: Path) -> None:
    """The container is the documented public format."""
    arrays = make_arrays([3, 0, 5, 1])
    path = segment_path(tmp_path, write_segment(tmp_path, arrays).name)
    loaded = load_file(path)
    assert loaded.keys() == arrays_of(arrays).keys() | {"block_checksums", "document_frequencies", "root"}
    for name, array in arrays_of(arrays).items():
        np.testing.assert_array_equal(array, loaded[name], err_msg=name)
    with safetensors.safe_open(path, framework="numpy") as file:
        assert file.metadata()["format"] == "kbengine-segment"


def test_opened_arrays_are_read_only(tmp_path: Path) -> None:
    """Nobody changes an immutable file through its views."""
    segment = write_and_open(tmp_path, make_arrays([2]))
    with pytest.raises(ValueError, match="read-only"):
        segment.arrays.codes[0, 0] = 1


def test_rows_find_their_passages_past_empty_ones(tmp_path: Path) -> None:
    """A row belongs to the passage that has it, not to an empty one that begins at the same row."""
    segment = write_and_open(tmp_path, make_arrays([0, 2, 0, 0, 3, 0]))
    assert segment.passage_of_rows(np.arange(5)).tolist() == [1, 1, 4, 4, 4]
    assert segment.token_ids_of_rows(np.arange(5)).tolist() == [100, 101, 102, 103, 104]


def test_a_segment_without_rows_is_possible(tmp_path: Path) -> None:
    """Passages of which the filter kept no token still have passage vectors and terms."""
    segment = write_and_open(tmp_path, make_arrays([0, 0]))
    assert (segment.n_rows, segment.n_passages) == (0, 2)
    assert segment.vectors(slice(None)).shape == (0, D)
    assert segment.passage_vectors(slice(None)).shape == (2, D)


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    """One changed bit anywhere in the file, header included, is CorruptError naming the file."""
    file = write_segment(tmp_path, make_arrays([2, 1]))
    path = segment_path(tmp_path, file.name)
    good = path.read_bytes()
    for position in range(0, len(good), max(1, len(good) // 200)):
        bad = bytearray(good)
        bad[position] ^= 1 << (position % 8)
        path.write_bytes(bad)
        with pytest.raises(CorruptError, match=file.name):
            open_segment(path, file)


@pytest.mark.parametrize("size", [0, 1, 7, 8, 100, -1])
def test_any_truncation_is_found(tmp_path: Path, size: int) -> None:
    """A shorter file is CorruptError naming both sizes."""
    file = write_segment(tmp_path, make_arrays([2, 1]))
    path = segment_path(tmp_path, file.name)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CorruptError, match=f"expected {file.n_bytes}"):
        open_segment(path, file)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damage_with_a_fitting_checksum_is_still_no_crash(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A file whose checksum fits but whose structure is broken raises CorruptError or opens; nothing else."""
    directory = tmp_path_factory.mktemp("segments")
    file = write_segment(directory, make_arrays([2, 1]))
    path = segment_path(directory, file.name)
    bad = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    bad = bad[: data.draw(st.integers(0, len(bad)))] if data.draw(st.booleans()) else bad
    path.write_bytes(bad)
    n_bytes, sha256 = hash_file(path)
    try:
        open_segment(path, replace(file, n_bytes=n_bytes, sha256=sha256))
    except CorruptError as error:
        assert file.name in error.message


def test_a_swapped_file_is_found(tmp_path: Path) -> None:
    """An intact segment under another's name is not taken for it."""
    one = write_segment(tmp_path, make_arrays([2, 1], seed=1))
    two = write_segment(tmp_path, make_arrays([2, 1], seed=2))
    segment_path(tmp_path, two.name).rename(segment_path(tmp_path, one.name))
    with pytest.raises(CorruptError, match=one.name):
        open_segment(segment_path(tmp_path, one.name), one)


def test_a_missing_file_is_corrupt_with_its_cause(tmp_path: Path) -> None:
    """Readers tell a vanished file from a damaged one by the cause."""
    file = SegmentFile("0" * 32, 10, "0" * 64, 0, 0, 0, 0)
    with pytest.raises(CorruptError) as caught:
        open_segment(segment_path(tmp_path, file.name), file)
    assert isinstance(caught.value.__cause__, FileNotFoundError)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first_rows": np.array([0, 1], dtype=np.int64)}, "running sum"),
        ({"token_counts": np.array([2, 2], dtype=np.uint32)}, "add up"),
        ({"passage_ids": np.array([5, 5], dtype=np.int64)}, "do not rise"),
        ({"first_token_ids": np.array([100, 101], dtype=np.int64)}, "overlap"),
        ({"passage_scales": np.array([np.inf, 1], dtype=np.float16)}, "positive and finite"),
        ({"passage_scales": np.array([0, 1], dtype=np.float16)}, "positive and finite"),
        ({"passage_scales": np.array([-1, 1], dtype=np.float16)}, "positive and finite"),
        ({"codes": np.zeros((3, D), dtype=np.uint8)}, "expected int8"),
        ({"codes": np.zeros((3, D + 1), dtype=np.int8)}, "expected int8"),
        ({"filter_logits": np.zeros((3, 1), dtype=np.float16)}, "filter_logits"),
    ],
)
def test_arrays_that_contradict_each_other_are_refused(change: dict[str, Any], message: str) -> None:
    """Nothing inconsistent is ever written."""
    with pytest.raises(UsageError, match=message):
        replace(make_arrays([2, 1]), **change)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_merging_gives_the_kept_passages_of_all_segments(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The merged segment is the concatenation of what was kept; ids, codes and postings unchanged."""
    directory = tmp_path_factory.mktemp("segments")
    segments: list[Segment] = []
    keep: list[NDArray[np.bool_]] = []
    token_id, passage_id = 0, 0
    for number in range(data.draw(st.integers(1, 4))):
        counts = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
        arrays = make_arrays(counts, seed=number, first_token_id=token_id, first_passage_id=passage_id)
        segments.append(write_and_open(directory, arrays))
        kept = data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
        keep.append(np.array(kept, dtype=np.bool_))
        token_id, passage_id = token_id + sum(counts) + 3, passage_id + len(counts) + 1
    file = merge_segments(directory, segments, keep)
    if not any(mask.any() for mask in keep):
        assert file is None
        return
    assert file is not None
    merged = open_segment(segment_path(directory, file.name), file).arrays
    for name in ("passage_ids", "document_ids", "first_token_ids", "token_counts", "passage_codes", "passage_lengths"):
        wanted = [getattr(s.arrays, name)[mask] for s, mask in zip(segments, keep, strict=True)]
        np.testing.assert_array_equal(getattr(merged, name), np.concatenate(wanted), err_msg=name)
    logits = [s.best_logits[np.repeat(mask, s.arrays.token_counts)] for s, mask in zip(segments, keep, strict=True)]
    np.testing.assert_array_equal(merged.filter_logits, np.concatenate(logits))
    for name in ("codes", "scales", "token_ordinals"):
        wanted = [
            getattr(s.arrays, name)[np.repeat(mask, s.arrays.token_counts)]
            for s, mask in zip(segments, keep, strict=True)
        ]
        np.testing.assert_array_equal(getattr(merged, name), np.concatenate(wanted), err_msg=name)
    lists: dict[int, list[tuple[int, int]]] = {}
    live = set(merged.passage_ids.tolist())
    for segment in segments:
        for term, postings in posting_lists(segment.arrays).items():
            lists.setdefault(term, []).extend(posting for posting in postings if posting[0] in live)
    assert posting_lists(merged) == {term: postings for term, postings in lists.items() if postings}


def test_segments_out_of_order_or_of_different_encoders_are_not_merged(tmp_path: Path) -> None:
    """Order and encoder are checked before anything is written."""
    early = write_and_open(tmp_path, make_arrays([2], first_token_id=0, first_passage_id=0))
    late = write_and_open(tmp_path, make_arrays([2], first_token_id=9, first_passage_id=9))
    other_arrays = replace(make_arrays([2], first_token_id=20, first_passage_id=20), encoder="beef")
    other = write_and_open(tmp_path, other_arrays)
    keep = [np.array([True]), np.array([True])]
    with pytest.raises(UsageError, match="token-id order"):
        merge_segments(tmp_path, [late, early], keep)
    with pytest.raises(StateError, match="encoder"):
        merge_segments(tmp_path, [late, other], keep)
    with pytest.raises(UsageError, match="mask"):
        merge_segments(tmp_path, [early, late], keep[:1])
    assert len(list(tmp_path.iterdir())) == 3
