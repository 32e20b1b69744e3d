"""All shards of a generation, asked together, and one knowledge base as the only shard of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from kbengine.search.local_shard import LocalShard
from kbengine.search.records import Records
from kbengine.search.shard import Shard
from kbengine.search.shard_requests import Scope
from storage.reader import KBReader

T = TypeVar("T")


@dataclass(frozen=True)
class PlannedCall:
    """What a shard is to be asked: one of its methods, and the request."""

    method: str
    request: Any


class _Planning:
    """A shard that notes what it is asked instead of answering."""

    def __getattr__(self, name: str) -> Callable[[Any], PlannedCall]:
        return lambda request: PlannedCall(name, request)


@dataclass(frozen=True)
class Shards:
    """The shards of one generation.

    Attributes:
        generation: Which.
        members: The shards, none of whose documents is another's.
        records: Documents, passages and names of all of them.
        executor: What asks several at a time; None: they are asked one after another.
        together: Asks all at once, in the executor's stead: given what each is to be asked, it returns what each
            answers; a value that is no `PlannedCall` is returned as it is.
    """

    generation: int
    members: tuple[Shard, ...]
    records: Records
    executor: Executor | None = None
    together: Callable[[Sequence[Any]], list[Any]] | None = None

    def scope(self, where: str | None) -> Scope:
        """Return what requests say about what is searched."""
        return Scope(self.generation, where, len(self.members) == 1)

    def each(self, ask: Callable[[int, Shard], T]) -> list[T]:
        """Return what each shard answers, in their order.

        Args:
            ask: given a shard's number and the shard, asks it for one thing at most and returns the answer as it is.
        """
        if self.together is not None:
            return self.together([ask(number, cast(Shard, _Planning())) for number in range(len(self.members))])
        if self.executor is None or len(self.members) == 1:
            return [ask(number, shard) for number, shard in enumerate(self.members)]
        return list(self.executor.map(ask, range(len(self.members)), self.members))


class ShardSource(Protocol):
    """Where a searcher gets what it searches, anew for each search."""

    @property
    def records(self) -> Records:
        """Documents, passages and names of the newest generation."""
        ...

    def shards(self, where: str | None) -> Shards:
        """Return the shards of the newest generation, to be searched with a filter."""
        ...


class LocalSource:
    """One knowledge base on disk: each search sees its newest commit."""

    def __init__(self, reader: KBReader) -> None:
        self.records = reader
        """The knowledge base's reader."""

    def shards(self, where: str | None) -> Shards:
        """Return the newest commit as the only shard."""
        snapshot = self.records.snapshot(where)
        return Shards(snapshot.generation, (LocalShard(self.records, snapshot, where=where),), self.records)


def source_of(searched: KBReader | ShardSource) -> ShardSource:
    """Return where the shards of a knowledge base come from, which is the only one where it is a local one."""
    return LocalSource(searched) if isinstance(searched, KBReader) else searched
