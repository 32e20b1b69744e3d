"""Reindexing a knowledge base: fewer tokens or another index from what is stored, without encoding anything again."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.builder import stored_threshold
from kbengine.errors import InvalidOptionError
from kbengine.filtering import FilterOptions
from kbengine.progress import NoProgress, ProgressSink

if TYPE_CHECKING:
    from storage.reindexing import Filtered


@dataclass(frozen=True)
class ReindexReport:
    """What reindexing did."""

    path: Path
    filtered: Filtered
    bytes_before: int
    bytes_after: int
    elapsed_s: float

    def facts(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        threshold = self.filtered.threshold
        return {
            "path": str(self.path),
            "filter_threshold": round(threshold, 4) if math.isfinite(threshold) else None,
            "stored_vectors_before": self.filtered.rows_before,
            "stored_vectors": self.filtered.rows,
            "bytes_before": self.bytes_before,
            "bytes": self.bytes_after,
            "elapsed_s": round(self.elapsed_s, 2),
        }


def reindex(
    path: Path, filter_options: FilterOptions, *, out: Path | None = None, progress: ProgressSink | None = None
) -> ReindexReport:
    """Return what was done to keep fewer tokens of the knowledge base in `path`, or of a copy of it in `out`.

    Tokens are chosen by the filter logits that are stored with them; their ids stay what they were. The change is one
    commit: killed before it, everything is as it was (a copy is not there), and the same call starts again.

    Args:
        path: the knowledge base; untouched where `out` is given.
        filter_options: what to keep.
        out: where the filtered copy goes, a path that holds nothing yet.
        progress: shown the stages.

    Raises:
        InvalidOptionError: nothing was asked for, or more tokens than are stored.
        KnowledgeBaseExistsError: `out` holds something.
    """
    from storage.creation import appearing, copy_without_segments
    from storage.reader import KBReader
    from storage.session import SEGMENT_DIRECTORY

    if filter_options == FilterOptions():
        raise InvalidOptionError("nothing to do: give --keep-fraction or --filter-threshold")
    began = time.perf_counter()
    stages = _Stages(progress or NoProgress())
    with KBReader.open(path) as reader:
        bytes_before = sum(reader.info().bytes_by_kind.values())
    if out is None:
        filtered = _filter(path, filter_options, None, stages)
    else:
        with appearing(out) as temporary:
            stages("copying the texts", 0, 1)
            copy_without_segments(path, temporary)
            filtered = _filter(temporary, filter_options, path / SEGMENT_DIRECTORY, stages)
    with KBReader.open(out or path) as reader:
        bytes_after = sum(reader.info().bytes_by_kind.values())
    return ReindexReport(out or path, filtered, bytes_before, bytes_after, time.perf_counter() - began)


def _filter(path: Path, filter_options: FilterOptions, source: Path | None, stages: _Stages) -> Filtered:
    from storage.reindexing import FilterRequest
    from storage.writer import KBWriter

    request = FilterRequest(keep_fraction=filter_options.keep_fraction, threshold=filter_options.threshold)
    with KBWriter.open(path) as writer:
        return writer.filter_tokens(
            request, stored_threshold=stored_threshold(writer.settings), source=source, stage=stages
        )


class _Stages:
    """Turns (what, done, total) into the stages of a progress bar."""

    def __init__(self, progress: ProgressSink) -> None:
        self._progress = progress
        self._what = ""
        self._done = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        if what != self._what:
            self._progress.begin(what, total, "")
            self._what, self._done = what, 0
        self._progress.advance(done - self._done)
        self._done = done
