"""One request, one generation: all its calls are to the shards of one manifest, and what does not answer is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, TypeVar

from kbengine.cluster.calls import Method, Place, call
from kbengine.cluster.compacting import Compacting, CompactionCounts
from kbengine.cluster.latencies import Latencies
from kbengine.cluster.placement import ShardSize, place_shards
from kbengine.cluster.remote_shard import RemoteShard
from kbengine.cluster.replicas import ReplicaFacts, ReplicaOptions, ReplicaSet
from kbengine.cluster.routed_source import RoutedSource
from kbengine.cluster.searchers import Searchers
from kbengine.errors import InvalidOptionError, ShardUnavailableError, StateError
from kbengine.search.joined_records import JoinedRecords
from storage.cluster import Cluster
from storage.cluster_arrangement import Arrangement, newest_arrangement
from storage.errors import CatalogUnavailableError
from storage.generation_manifest import GenerationManifest, ManifestRef, ShardEntry

R = TypeVar("R")

PARTIAL_PATIENCE_S = 0.25
"""How long a shard that does not answer is waited for, where an answer without it is welcome."""
FETCH_AHEAD_S = 300.0
"""How long is waited for replicas to fetch a shard before others than they ask for it."""
_READY = Method(None, str)
_FETCH = Method(ShardEntry, str)


@dataclass(frozen=True)
class RouterOptions:
    """How requests are routed.

    Attributes:
        replicas: How replicas are asked.
        deadline_s: After which a request ends without an answer.
        threads: Calls on their way at once.
        catalog_pause_s: How long a catalog that did not answer is not asked; meanwhile the last generation answers.
    """

    replicas: ReplicaOptions = field(default_factory=ReplicaOptions)
    deadline_s: float = 30.0
    threads: int = 64
    catalog_pause_s: float = 1.0

    def __post_init__(self) -> None:
        if not self.deadline_s > 0:
            raise InvalidOptionError(f"deadline_s is {self.deadline_s}, wanted more than 0")
        if not 1 <= self.threads <= 10_000:
            raise InvalidOptionError(f"threads is {self.threads}, wanted 1 to 10,000")


@dataclass(frozen=True)
class Routed(Generic[R]):
    """What a request gave, how many shards there are, and how many of them answered."""

    result: R
    shards: int
    answered: int


@dataclass(frozen=True)
class CallMeter:
    """How many calls of a kind a shard answered, and how long these took, summed up."""

    shard: str
    call: str
    n: int
    seconds: float


@dataclass(frozen=True)
class RouterFacts:
    """How a router stands, for metrics and readiness.

    Attributes:
        generation: That it answers from.
        shards: Its shards.
        unavailable: How often each shard did not answer in time, by name.
        partial: Requests answered without some shards.
        catalog_answers: Whether the catalog answered when it was last asked.
        replicas: Of all searchers.
        calls: Answered calls of each shard, by kind.
        compaction: What was put together here; None where that is not done.
    """

    generation: int
    shards: tuple[str, ...]
    unavailable: dict[str, int]
    partial: int
    catalog_answers: bool
    replicas: tuple[ReplicaFacts, ...]
    calls: tuple[CallMeter, ...]
    compaction: CompactionCounts | None = None


@dataclass(frozen=True)
class _Known:
    """A generation, what searches it, and which searcher has each of its shards, by name."""

    ref: ManifestRef
    manifest: GenerationManifest
    searchers: Searchers
    placed: dict[str, int]


class Router:
    """Finds for each request the shards of the newest generation, and replicas that answer for them.

    Args:
        cluster: whose generations are answered from.
        searchers: what has shards open.
        options: how requests are routed.
        arrangement: the wish that `searchers` follow.
        rearrange: makes other searchers, their shards open, for a wish; None where there is nothing to arrange.

    Attributes:
        compacting: What puts small shards together in the background; None where nothing does.
    """

    def __init__(
        self,
        cluster: Cluster,
        searchers: Searchers,
        options: RouterOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        arrangement: Arrangement | None = None,
        rearrange: Callable[[Arrangement], Searchers] | None = None,
    ) -> None:
        self._cluster = cluster
        self._searchers = searchers
        self._arrangement = arrangement or Arrangement()
        self._rearrange = rearrange
        self.compacting: Compacting | None = None
        self._left: list[Searchers] = []
        self._options = options or RouterOptions()
        self._clock = clock
        self._latencies = Latencies(self._options.replicas.hedge)
        self._executor = ThreadPoolExecutor(self._options.threads, "kbengine-shard")
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._catalog_rests_until = 0.0
        self._catalog_answers = True
        self._unavailable: dict[str, int] = {}
        self._partial = 0

    def manifest(self) -> GenerationManifest:
        """Return the newest generation; the last that was known while the catalog does not answer.

        Raises:
            CatalogUnavailableError: it does not answer, and never did.
            CorruptError: the manifest is missing or damaged.
        """
        return self._newest().manifest

    def look_again(self) -> None:
        """Ask the catalog at the next request, also if it did not answer a moment ago."""
        self._catalog_rests_until = 0.0

    def _newest(self) -> _Known:
        known = self._known
        if known is not None and self._clock() < self._catalog_rests_until:
            return known
        try:
            # At first also compared with what was acknowledged; later ones are never older than what is known.
            ref = self._cluster.newest_ref() if known is None else self._cluster.catalog.newest().ref
        except CatalogUnavailableError:
            self._catalog_answers = False
            self._catalog_rests_until = self._clock() + self._options.catalog_pause_s
            if known is None:
                raise
            return known
        self._catalog_answers = True
        if known is not None and known.ref == ref:
            return known
        manifest = self._cluster.manifest_of(ref)
        with self._lock:
            newest = _known(ref, manifest, self._searchers)
            if self._known is None or self._known.ref.generation < ref.generation:
                self._known = newest
            return self._known

    def ask(
        self,
        search: Callable[[RoutedSource], R],
        *,
        allow_partial: bool = False,
        deadline: float | None = None,
    ) -> Routed[R]:
        """Return what `search` finds in the newest generation.

        Args:
            search: is given what to search; called again, without a shard, where that does not answer and
                `allow_partial` is set, so that what it returns is of the same shards throughout.
            allow_partial: answer from the shards that answer, instead of refusing.
            deadline: when an answer is of no use, by the router's clock.

        Raises:
            ShardUnavailableError: a shard does not answer; with `allow_partial`, none does.
        """
        known = self._newest()
        deadline = self._clock() + self._options.deadline_s if deadline is None else deadline
        left = set(known.placed)
        while True:
            patience_s = min(PARTIAL_PATIENCE_S, self._options.replicas.patience_s) if allow_partial else None
            source = self._source(known, left, deadline, patience_s=patience_s)
            try:
                result = search(source)
            except ShardUnavailableError as error:
                with self._lock:
                    self._unavailable[error.shard] = self._unavailable.get(error.shard, 0) + 1
                left -= {error.shard}
                if not allow_partial or not left:
                    raise
                continue
            if len(left) < len(known.placed):
                with self._lock:
                    self._partial += 1
            return Routed(result, len(known.placed), len(left))

    def records(self) -> JoinedRecords:
        """Return the records of the newest generation."""
        known = self._newest()
        return self._source(known, set(known.placed), self._clock() + self._options.deadline_s, patience_s=None).records

    def op_ids(self, prefix: str) -> list[str]:
        """Return the names of the operations that made a generation, those that begin so."""
        return self._cluster.catalog.op_ids(prefix)

    def prepare(self) -> None:
        """Have every replica open the newest generation now rather than at the next request.

        What does not answer is passed over: it opens what it is asked for.
        """
        known = self._newest()
        pending = []
        for name, searcher in known.placed.items():
            message = call(place_of(known.ref, name), "ready", _READY, None)
            pending += [each.send(message, is_hedge=False) for each in known.searchers.replicas(searcher)]
        wait(pending, timeout=self._options.deadline_s)

    def fetch_ahead(self, entry: ShardEntry, old: frozenset[str]) -> None:
        """Have the replicas that will search a shard fetch its files before the generation that has it is made.

        So no request waits for them. What does not answer is passed over.

        Args:
            entry: the shard.
            old: names of those in whose place it will come.
        """
        known = self._newest()
        kept = tuple(each for each in known.manifest.shards if each.name not in old)
        searchers = known.searchers
        searcher = placed_shards(replace(known.manifest, shards=(*kept, entry)), searchers.n)[entry.name]
        there = [name for name, number in known.placed.items() if number == searcher] or list(known.placed)
        message = call(place_of(known.ref, there[0]), "fetch", _FETCH, entry)
        wait([each.send(message, is_hedge=False) for each in searchers.replicas(searcher)], timeout=FETCH_AHEAD_S)

    def tend(self) -> Sequence[str]:
        """Follow the newest wish, replace replicas that are lost or on machines that go, and note where all are.

        Returns:
            What was moved, in words.
        """
        catalog = self._cluster.catalog
        try:
            moved = list(self._follow(newest_arrangement(catalog))) if self._rearrange is not None else []
            draining = [node.name for node in catalog.nodes() if node.state == "draining"]
            moved += self._searchers.tend(draining)
            for name, replicas in self._searchers.machines().items():
                catalog.note_node(name, {"replicas": list(replicas)})
        except CatalogUnavailableError:
            return ()
        return moved

    def _follow(self, wish: Arrangement) -> Sequence[str]:
        """Have other searchers answer from the next request on, if that was asked for; those under way keep theirs."""
        if wish.number <= self._arrangement.number or self._rearrange is None:
            return ()
        made = self._rearrange(wish)
        with self._lock:
            before, self._searchers, self._arrangement = self._searchers, made, wish
            if self._known is not None:
                self._known = _known(self._known.ref, self._known.manifest, made)
        before.leave()
        self._left.append(before)
        return [f"of every shard to one of {made.n} searchers"]

    def facts(self) -> RouterFacts:
        """Return how it stands."""
        known = self._known
        with self._lock:
            return RouterFacts(
                0 if known is None else known.ref.generation,
                () if known is None else tuple(known.placed),
                dict(self._unavailable),
                self._partial,
                self._catalog_answers,
                tuple(each.facts() for each in self._searchers.all()),
                tuple(CallMeter(*kind, n, seconds) for kind, (n, seconds) in self._latencies.totals().items()),
                None if self.compacting is None else self.compacting.counts,
            )

    def close(self) -> None:
        """End the searchers and the threads."""
        self._executor.shutdown()
        for each in (*self._left, self._searchers):
            each.close()

    def _source(self, known: _Known, wanted: set[str], deadline: float, *, patience_s: float | None) -> RoutedSource:
        if not known.placed:
            raise StateError("the cluster's newest generation has no shards; add documents to it")
        ids = {each.name: range(each.first_ordinal + 1, each.end_ordinal + 1) for each in known.manifest.shards}
        shards, searchers = [], []
        for name, searcher in known.placed.items():
            if name not in wanted:
                continue
            searchers.append(searcher)
            of_searcher = partial(known.searchers.replicas, searcher)
            replicas = ReplicaSet(name, of_searcher, self._options.replicas, self._latencies, self._clock)
            place = place_of(known.ref, name)
            shards.append((RemoteShard(place, replicas, deadline=deadline, patience_s=patience_s), ids[name]))
        return RoutedSource(known.ref.generation, shards, searchers, self._executor)


def _known(ref: ManifestRef, manifest: GenerationManifest, searchers: Searchers) -> _Known:
    return _Known(ref, manifest, searchers, placed_shards(manifest, searchers.n))


def placed_shards(manifest: GenerationManifest, n_searchers: int) -> dict[str, int]:
    """Return the number of the searcher that has each shard of a generation, in the order of their documents."""
    shards = sorted(manifest.shards, key=lambda entry: entry.first_ordinal)
    return place_shards([ShardSize(entry.name, entry.rows) for entry in shards], n_searchers)


def place_of(ref: ManifestRef, shard: str) -> Place:
    """Return a shard's place in a generation."""
    return Place(ref.generation, ref.sha256, shard)
