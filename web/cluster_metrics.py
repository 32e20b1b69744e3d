"""What Prometheus reads of a cluster: its shards, its replicas and its catalog, as the router sees them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from kbengine.cluster.routing import Router

_STATES = ("closed", "half-open", "open")


class ClusterCollector(Collector):
    """Facts of a router that are read when Prometheus asks."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the facts are only known when asked for."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return how the shards, the replicas and the catalog stand."""
        facts = self._router.facts()
        yield GaugeMetricFamily("kbengine_cluster_generation", "The generation answered from.", facts.generation)
        yield GaugeMetricFamily("kbengine_cluster_shards", "Shards of it.", len(facts.shards))
        yield GaugeMetricFamily(
            "kbengine_cluster_catalog_up", "Whether the catalog answered when last asked.", facts.catalog_answers
        )
        yield CounterMetricFamily(
            "kbengine_cluster_partial_answers", "Requests answered without some shards.", facts.partial
        )
        if facts.compaction is not None:
            for name, help_text, value in (
                ("made", "Shards made of smaller ones by this service.", facts.compaction.made),
                ("replaced", "Shards that went into them.", facts.compaction.replaced),
                ("failed", "Attempts at that which failed.", facts.compaction.failed),
            ):
                yield CounterMetricFamily(f"kbengine_cluster_compaction_{name}", help_text, value)
        calls = CounterMetricFamily("kbengine_shard_calls", "Calls that a shard answered.", labels=("shard", "call"))
        seconds = CounterMetricFamily(
            "kbengine_shard_seconds", "Time until a shard answered, summed up.", labels=("shard", "call")
        )
        for meter in facts.calls:
            calls.add_metric((meter.shard, meter.call), meter.n)
            seconds.add_metric((meter.shard, meter.call), meter.seconds)
        yield calls
        yield seconds
        unavailable = CounterMetricFamily(
            "kbengine_shard_unavailable", "Times that no replica of a shard answered.", labels=("shard",)
        )
        for shard in facts.shards:
            unavailable.add_metric((shard,), facts.unavailable.get(shard, 0))
        yield unavailable
        state = GaugeMetricFamily(
            "kbengine_replica_state",
            "1 for the state of a replica's circuit breaker: closed (asked), half-open (tried), open (left alone).",
            labels=("replica", "state"),
        )
        in_flight = GaugeMetricFamily("kbengine_replica_in_flight", "Calls not answered yet.", labels=("replica",))
        outcomes = CounterMetricFamily(
            "kbengine_replica_calls", "Calls by how they ended.", labels=("replica", "outcome")
        )
        hedged = CounterMetricFamily(
            "kbengine_replica_hedges", "Calls made because another replica took long.", labels=("replica",)
        )
        for replica in facts.replicas:
            for each in _STATES:
                state.add_metric((replica.name, each), each == replica.state)
            in_flight.add_metric((replica.name,), replica.in_flight)
            outcomes.add_metric((replica.name, "answered"), replica.answered)
            outcomes.add_metric((replica.name, "failed"), replica.failed)
            hedged.add_metric((replica.name,), replica.hedged)
        yield from (state, in_flight, outcomes, hedged)
