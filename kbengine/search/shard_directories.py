"""Shards of one generation that lie in directories here, searched together in one process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from kbengine.errors import EncoderMismatchError, InvalidOptionError
from kbengine.search.joined_records import JoinedRecords
from kbengine.search.live_records import LiveRecords
from kbengine.search.local_shard import LocalShard
from kbengine.search.shards import Shards
from storage.gpu import IndexDevice
from storage.overlaid_names import NameChange, OverlaidNames
from storage.reader import KBReader

__all__ = ["ShardDirectories", "ShardDirectory", "open_shard"]


@dataclass(frozen=True)
class ShardDirectory:
    """A shard of a generation in a directory.

    Attributes:
        path: A knowledge base's directory.
        tombstones: Ids of its documents that the generation has deleted or replaced.
        names: Names that its documents were given or lost since it was made.
    """

    path: Path
    tombstones: tuple[int, ...] = ()
    names: tuple[NameChange, ...] = ()


@dataclass(frozen=True)
class OpenShard:
    """An open shard: what answers, and its documents, passages and names."""

    shard: LocalShard
    records: LiveRecords

    def close(self) -> None:
        """Close its files."""
        self.records.reader.close()


def open_shard(directory: ShardDirectory, generation: int, *, index_device: IndexDevice = "cpu") -> OpenShard:
    """Open a shard of a generation.

    Args:
        directory: where it lies, and what has changed since it was made.
        generation: the number that requests know it by.
        index_device: where candidates are sought.

    Raises:
        NotAKnowledgeBaseError: there is none.
        CorruptError: a file is not what was written.
    """
    reader = KBReader.open(directory.path, index_device=index_device)
    records = LiveRecords(reader, directory.tombstones, OverlaidNames(directory.names))
    snapshot = reader.snapshot()
    if directory.tombstones:
        snapshot = snapshot.without(np.array(directory.tombstones, dtype=np.int64))
    return OpenShard(LocalShard(records, snapshot, generation=generation), records)


class ShardDirectories:
    """All shards of one generation; a `Searcher` searches them as it does one knowledge base.

    Nothing changes after opening: another generation is opened beside it.
    """

    def __init__(
        self,
        directories: Sequence[ShardDirectory],
        generation: int,
        *,
        executor: Executor | None = None,
        index_device: IndexDevice = "cpu",
    ) -> None:
        """Open the shards.

        Args:
            directories: by rising ids; none of whose documents is another's.
            generation: its number.
            executor: asks several shards at a time; None: they are asked one after another.
            index_device: where candidates are sought.

        Raises:
            InvalidOptionError: there is no directory.
            EncoderMismatchError: the shards were not made with one encoder.
        """
        if not directories:
            raise InvalidOptionError("no shard was given; give the directories of all shards of a generation")
        self.opened: tuple[OpenShard, ...] = ()
        try:
            for each in directories:
                self.opened += (open_shard(each, generation, index_device=index_device),)
            settings = [each.records.reader.settings for each in self.opened]
            encoders = sorted({(each.encoder_name, each.encoder_fingerprint) for each in settings})
            if len(encoders) > 1:
                raise EncoderMismatchError(
                    f"the shards were made with encoders {' and '.join(name for name, _ in encoders)}, wanted one; "
                    "build them with common settings"
                )
        except BaseException:
            self.close()
            raise
        self.settings = settings[0]
        """What the first of them was made with; what they share is the same in all."""
        self.records = JoinedRecords(tuple(each.records for each in self.opened), generation)
        """Documents, passages and names of all of them."""
        self._shards = Shards(generation, tuple(each.shard for each in self.opened), self.records, executor)

    def shards(self, where: str | None) -> Shards:  # noqa: ARG002  # requests carry the filter
        """Return the shards."""
        return self._shards

    def close(self) -> None:
        """Close all files."""
        for each in self.opened:
            each.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
