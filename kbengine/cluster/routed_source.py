"""The shards that one request searches, of one generation, asked by messages: one for all that a searcher has."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from kbengine.cluster.remote_records import RemoteRecords
from kbengine.cluster.remote_shard import RemoteShard, Sent
from kbengine.search.joined_records import JoinedRecords
from kbengine.search.shards import PlannedCall, Shards


class RoutedSource:
    """What one request searches: `kbengine.search.shards.ShardSource`."""

    def __init__(
        self,
        generation: int,
        shards: Sequence[tuple[RemoteShard, range]],
        searchers: Sequence[int],
        executor: Executor,
    ) -> None:
        self._generation = generation
        self._members = tuple(shard for shard, _ in shards)
        self._searchers = searchers
        self._executor = executor
        self.records = JoinedRecords([RemoteRecords(shard, ids) for shard, ids in shards])
        """Documents, passages and names of the shards."""

    def shards(self, where: str | None) -> Shards:  # noqa: ARG002  # requests have it
        """Return the shards, the same for all rounds; the filter is in each request."""
        return Shards(self._generation, self._members, self.records, together=self._asked)

    def _asked(self, planned: Sequence[Any]) -> list[Any]:
        """Return what shards answer to what they are to be asked: one message for all that a searcher has."""
        answers = list(planned)
        groups: dict[tuple[int, str], list[int]] = {}
        for number, each in enumerate(planned):
            if isinstance(each, PlannedCall):
                groups.setdefault((self._searchers[number], each.method), []).append(number)
        for numbers, found in zip(groups.values(), self._collected(planned, groups), strict=True):
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer
        return answers

    def _collected(
        self, planned: Sequence[PlannedCall], groups: Mapping[tuple[int, str], list[int]]
    ) -> list[Sequence[Any]]:
        """Return the answers of each group of calls: all are sent, then read one after the other as they come.

        So a thread is needed only for what takes longer than is usual, or fails: it asks others and waits, while what
        came meanwhile is read.
        """
        encoded: dict[int, bytes] = {}
        sent: deque[Sent] = deque()
        found: list[Sequence[Any] | Future[list[Any]]] = []
        try:
            for (_, method), numbers in groups.items():
                members, requests = [self._members[i] for i in numbers], [planned[i].request for i in numbers]
                sent.append(Sent(members, method, requests, encoded))
            is_only = len(sent) == 1
            while sent:
                is_there = is_only or sent[0].is_there()
                each = sent.popleft()
                found.append(each.answers() if is_there else self._executor.submit(each.answers))
        finally:
            for each in sent:
                each.abandon()
        return [each.result() if isinstance(each, Future) else each for each in found]
