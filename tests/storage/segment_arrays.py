"""Segments for tests: given vectors and texts, in passages of given sizes, everything else made up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.codes import quantise
from storage.postings import build_postings
from storage.segment import Segment, open_segment, segment_path, write_segment
from storage.segment_arrays import SegmentArrays

WORDS = ("river", "stone", "gold", "night", "city", "bridge", "king", "winter", "garden", "letter")


def segment_arrays(
    vectors: NDArray[np.float32],
    passage_vectors: NDArray[np.float32],
    counts: Sequence[int],
    *,
    texts: Sequence[tuple[str, str]],
    scale: float,
    passage_scale: float,
    rng: np.random.Generator,
    first_token_id: int = 0,
    first_passage_id: int = 0,
    document_ids: NDArray[np.int64] | None = None,
) -> SegmentArrays:
    """The arrays of a segment of these token and passage vectors; places and filter logits are drawn.

    Args:
        vectors: (n, d), of the tokens.
        passage_vectors: (p, d).
        counts: tokens of each passage.
        texts: title and text of each passage.
        scale: of the tokens' codes.
        passage_scale: of the passages' codes.
        rng: draws the rest.
        first_token_id: of the first token.
        first_passage_id: of the first passage.
        document_ids: of each passage; by default two passages are one document.
    """
    n, d = vectors.shape
    token_counts = np.array(counts, dtype=np.uint32)
    ends = np.cumsum(token_counts, dtype=np.int64)
    codes, scales = quantise(vectors, scale)
    passage_codes, passage_scales = quantise(passage_vectors, passage_scale)
    passage_ids = np.arange(first_passage_id, first_passage_id + len(counts), dtype=np.int64)
    return SegmentArrays(
        codes=codes,
        scales=scales,
        token_ordinals=rng.integers(0, 200, size=n).astype(np.uint32),
        filter_logits=rng.normal(size=(n, 2)).astype(np.float16),
        passage_ids=passage_ids,
        document_ids=passage_ids // 2 if document_ids is None else document_ids,
        first_token_ids=first_token_id + ends - token_counts,
        first_rows=ends - token_counts,
        token_counts=token_counts,
        passage_codes=passage_codes,
        passage_scales=passage_scales,
        **vars(build_postings(list(texts))),
        d=d,
        token_scale=scale,
        passage_scale=passage_scale,
        encoder="feed",
    )


def write_and_open(directory: Path, arrays: SegmentArrays) -> Segment:
    """The segment, written and opened again."""
    file = write_segment(directory, arrays)
    return open_segment(segment_path(directory, file.name), file)
