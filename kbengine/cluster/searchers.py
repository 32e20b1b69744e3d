"""What searches shards: processes or threads that have them open, each shard with as many replicas as are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from kbengine.cluster.breaker import Breaker
from kbengine.cluster.host import ShardHost
from kbengine.cluster.replicas import ReplicaOptions, Watched


class Searchers(Protocol):
    """The searchers of a cluster, numbered from 0, each with its replicas."""

    @property
    def n(self) -> int:
        """Return among how many the shards are divided."""
        ...

    def replicas(self, searcher: int) -> Sequence[Watched]:
        """Return the replicas of a searcher as they are now."""
        ...

    def all(self) -> Sequence[Watched]:
        """Return all replicas of all searchers."""
        ...

    def tend(self, draining: Sequence[str]) -> Sequence[str]:
        """Move replicas away from machines that are drained or gone; return what was moved."""
        ...

    def machines(self) -> Mapping[str, Sequence[str]]:
        """Return the names of the replicas on each machine; nothing where there is but this one."""
        ...

    def leave(self) -> None:
        """End what was started, others having taken its place: after the calls that are on their way."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class _Thread:
    """A host in this process as a replica."""

    def __init__(self, host: ShardHost, executor: ThreadPoolExecutor) -> None:
        self.name = "this process"
        self._host = host
        self._executor = executor

    def send(self, message: bytes) -> Future[bytes]:
        """Have one of the threads answer."""
        return self._executor.submit(self._host.answer, message)


class OneProcess:
    """All shards in this process, without Ray: for clusters of few shards, and for trying things out.

    Args:
        host: opens the shards.
        options: how it is asked.
        threads: calls answered at once.
    """

    def __init__(self, host: ShardHost, options: ReplicaOptions, *, threads: int = 8) -> None:
        self._host = host
        self._executor = ThreadPoolExecutor(threads, "kbengine-host")
        self._only = (Watched(_Thread(host, self._executor), Breaker(options.breaker)),)

    @property
    def n(self) -> int:
        """Return 1."""
        return 1

    def replicas(self, searcher: int) -> Sequence[Watched]:
        """Return the only one."""
        assert searcher == 0
        return self._only

    def all(self) -> Sequence[Watched]:
        """Return the only one."""
        return self._only

    def tend(self, draining: Sequence[str]) -> Sequence[str]:  # noqa: ARG002  # there is one machine
        """Move nothing."""
        return ()

    def machines(self) -> Mapping[str, Sequence[str]]:
        """Return nothing."""
        return {}

    def leave(self) -> None:
        """Close, as below."""
        self.close()

    def close(self) -> None:
        """Close all shards when the last call has ended."""
        self._executor.shutdown()
        self._host.close()
