"""Reindexing a knowledge base: fewer tokens, another index or no int8 vectors, without encoding anything again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.build.builder import stored_threshold
from kbengine.build.filtering import FilterOptions
from kbengine.build.storing import StoredTokens
from kbengine.errors import BuildIncompleteError, InvalidOptionError
from kbengine.progress import NoProgress, ProgressSink, Stages

if TYPE_CHECKING:
    from storage.gpu import IndexDevice
    from storage.reindexing import Reindexed


@dataclass(frozen=True)
class ReindexOptions:
    """What is to change; what is left out stays as it is.

    Attributes:
        filter: which tokens to index; where only indexed ones are stored, the others are dropped.
        ann: options of the index by name, among them `kind`; see `storage.ann_options`.
        drop_vectors: store quantised token vectors only; the int8 ones are gone for good.
        drop_sparse: store no sparse rows any more; they are gone for good.
        store: `indexed`: store only the tokens that are indexed, the others are gone for good.
        code_bits: 4: store vectors in 4 bits a dimension on the average in place of 8, which are gone for good.
        index_device: where a quantiser is trained: "cpu", "gpu", or "auto" for a graphics processor if FAISS has one.
    """

    filter: FilterOptions = field(default_factory=FilterOptions)
    ann: Mapping[str, str | int] = field(default_factory=dict)
    drop_vectors: bool = False
    drop_sparse: bool = False
    store: StoredTokens | None = None
    code_bits: int | None = None
    index_device: IndexDevice = "auto"

    def __post_init__(self) -> None:
        is_less = self.drop_vectors or self.drop_sparse or self.store is not None or self.code_bits is not None
        if self.filter == FilterOptions() and not self.ann and not is_less:
            raise InvalidOptionError(
                "nothing to do: give --keep-fraction, --filter-threshold, --store, --code-bits, --index, --nlist, "
                "--nprobe, --refine, --drop-vectors or --drop-sparse"
            )


@dataclass(frozen=True)
class ReindexReport:
    """What reindexing did."""

    path: Path
    done: Reindexed
    index: str
    bytes_before: int
    bytes_after: int
    elapsed_s: float

    def facts(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        threshold = self.done.threshold
        return {
            "path": str(self.path),
            "index": self.index,
            "quantiser_trained": self.done.trained,
            "filter_threshold": round(threshold, 4) if math.isfinite(threshold) else None,
            "stored_vectors_before": self.done.rows_before,
            "stored_vectors": self.done.rows,
            "indexed_vectors": self.done.indexed,
            "bytes_before": self.bytes_before,
            "bytes": self.bytes_after,
            "elapsed_s": round(self.elapsed_s, 2),
        }


def reindex(
    path: Path, options: ReindexOptions, *, out: Path | None = None, progress: ProgressSink | None = None
) -> ReindexReport:
    """Change the index of the knowledge base in `path`, or make a changed copy of it in `out`.

    Tokens to keep are chosen by the filter logits that are stored with them; their ids stay what they were. The change
    is one commit: killed before it, everything is as it was (a copy is not there), and the same call starts again.

    Args:
        path: the knowledge base; untouched where `out` is given.
        options: what is to change.
        out: where the changed copy goes, a path that holds nothing yet.
        progress: shown the stages.

    Raises:
        InvalidOptionError: more tokens are asked for than are stored, or vectors that are not there.
        BuildIncompleteError: its build was interrupted.
        KnowledgeBaseExistsError: `out` holds something.
    """
    from storage.creation import appearing, copy_without_segments
    from storage.database import DATABASE_NAME, database_path
    from storage.reader import KBReader
    from storage.session import SEGMENT_DIRECTORY
    from storage.sizes import bytes_of

    began = time.perf_counter()
    stages = Stages(progress or NoProgress())
    database_path(path)
    bytes_before = bytes_of(file for file in path.rglob("*") if file.is_file())
    if out is None:
        done = _reindex(path, options, None, stages)
    else:
        with appearing(out) as temporary:
            stages("copying the texts", 0, 1)
            copy_without_segments(path, temporary)
            done = _reindex(temporary, options, path / SEGMENT_DIRECTORY, stages)
            for backup in temporary.glob(f"{DATABASE_NAME}.before-*"):
                backup.unlink()  # made while the copy was brought up to date; the original is the backup
    target = out or path
    bytes_after = bytes_of(file for file in target.rglob("*") if file.is_file())
    with KBReader.open(target) as reader:
        kind = reader.settings.ann_options.kind
    return ReindexReport(target, done, kind, bytes_before, bytes_after, time.perf_counter() - began)


def _reindex(path: Path, options: ReindexOptions, source: Path | None, stages: Stages) -> Reindexed:
    from storage.filter_request import FilterRequest
    from storage.reindexing import ReindexRequest
    from storage.writer import KBWriter

    request = None if options.filter == FilterOptions() else FilterRequest(**options.filter.to_json())
    with KBWriter.open(path) as writer:
        if options.store == "all" and not writer.settings.stores_all:
            raise InvalidOptionError(
                f"{path} stores only the tokens that are indexed; the others must be encoded: build anew from the "
                "corpus ('kbengine export' writes one), or with another encoder give --encoder and --out"
            )
        if writer.settings.build_state != "complete":
            raise BuildIncompleteError(
                f"the build of {path} was interrupted at {dict(writer.settings.build_position)}; run the same "
                "'kbengine build' again to finish it"
            )
        return writer.reindex(
            ReindexRequest(
                filter=request,
                ann=dict(options.ann) if options.ann else None,
                drop_vectors=options.drop_vectors,
                drop_sparse=options.drop_sparse,
                drop_unindexed=options.store == "indexed",
                code_bits=options.code_bits,
                stored_threshold=stored_threshold(writer.settings),
                device=options.index_device,
            ),
            source=source,
            stage=stages,
        )
