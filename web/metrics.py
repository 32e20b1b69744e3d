"""What Prometheus reads: requests, stages, batches, cache, facts of the knowledge base; no label holds user text."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kbengine.errors import KBError
from web.cluster_metrics import ClusterCollector
from web.jobs.job import UNFINISHED, Job

if TYPE_CHECKING:
    from web.engine import BatchFacts, Engine

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))


class Metrics:
    """The metrics of one app, in a registry of their own."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "kbengine_requests", "Answered requests.", ("route", "method", "status"), registry=self.registry
        )
        self._latency = Histogram(
            "kbengine_request_seconds",
            "Time from a request's first byte in the app to the last of its answer.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._stage = Histogram(
            "kbengine_stage_seconds",
            "Time of each stage of a batch of queries; `queue` is each query's own.",
            ("stage",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._batch = Histogram(
            "kbengine_batch_size", "Queries answered together.", buckets=_SIZES, registry=self.registry
        )
        self._cache = Counter("kbengine_cache", "Look-ups in the result cache.", ("outcome",), registry=self.registry)
        self._in_flight = Gauge("kbengine_requests_in_flight", "Requests being handled.", registry=self.registry)
        self.registry.register(_EngineCollector(engine))
        if engine.router is not None:
            self.registry.register(ClusterCollector(engine.router))
        ProcessCollector(registry=self.registry)
        engine.subscribe(self.batch_done)

    def request_begun(self) -> None:
        """Count a request that is being handled."""
        self._in_flight.inc()

    def request_done(self, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request under its route's pattern."""
        self._in_flight.dec()
        self._requests.labels(route, method if method in _METHODS else "other", str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def cache_used(self, *, hit: bool) -> None:
        """Count a look-up in the result cache."""
        self._cache.labels("hit" if hit else "miss").inc()

    def batch_done(self, facts: BatchFacts) -> None:
        """Count a batch of queries and the time of its stages."""
        self._batch.observe(facts.size)
        for seconds in facts.waits_s:
            self._stage.labels("queue").observe(seconds)
        for stage, milliseconds in facts.timings_ms.items():
            self._stage.labels(stage).observe(milliseconds / 1e3)

    def watch_jobs(self, unfinished: Callable[[], Sequence[Job]]) -> None:
        """Tell how many jobs wait and run, of all processes; `unfinished` lists them."""
        self.registry.register(_JobsCollector(unfinished))

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _EngineCollector(Collector):
    """Facts that are read when Prometheus asks."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the facts are only known when asked for."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return the queue's and the knowledge base's state."""
        yield _gauge("kbengine_queue_depth", "Queries that wait for their batch.", self._engine.queue_depth)
        yield _gauge("kbengine_pending_writes", "Changes running or waiting.", self._engine.writes.pending)
        report = self._engine.verification.state.report
        yield _gauge(
            "kbengine_verify_findings",
            "What the last verification of this process found; -1 before the first.",
            -1 if report is None else len(report.findings),
        )
        try:
            info = self._engine.info()
        except (KBError, OSError):
            yield _gauge("kbengine_kb_readable", "Whether the knowledge base's facts can be read.", 0)
            return
        yield _gauge("kbengine_kb_readable", "Whether the knowledge base's facts can be read.", 1)
        total = info.documents + info.tombstones
        facts = {
            "generation": ("Number of the newest commit.", info.generation),
            "documents": ("Live documents.", info.documents),
            "passages": ("Passages of live documents.", info.passages),
            "vectors": ("Stored token vectors of live documents.", info.tokens_stored),
            "segments": ("Live segments.", info.segments),
            "tombstone_ratio": (
                "Share of documents that are deleted and not compacted.",
                info.tombstones / max(1, total),
            ),
            "last_commit_age_seconds": ("Time since the newest commit.", _age_s(info.last_commits[0].at)),
            "disk_free_bytes": ("Free space beside the knowledge base.", shutil.disk_usage(info.path).free),
        }
        for name, (meaning, value) in facts.items():
            yield _gauge(f"kbengine_kb_{name}", meaning, value)
        sizes = GaugeMetricFamily("kbengine_kb_bytes", "Size of the files.", labels=("kind",))
        for kind, n_bytes in info.bytes_by_kind.items():
            sizes.add_metric((kind,), n_bytes)
        yield sizes
        wal = info.path / "kb.sqlite-wal"
        yield _gauge("kbengine_kb_wal_bytes", "Size of the database's log.", wal.stat().st_size if wal.exists() else 0)


class _JobsCollector(Collector):
    """The jobs that are not finished, by state, read when Prometheus asks."""

    def __init__(self, unfinished: Callable[[], Sequence[Job]]) -> None:
        self._unfinished = unfinished

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the facts are only known when asked for."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Return how many wait and run."""
        try:
            states = [job.state for job in self._unfinished()]
        except (KBError, OSError):
            return
        found = GaugeMetricFamily("kbengine_jobs", "Jobs that wait or run.", labels=("state",))
        for state in UNFINISHED:
            found.add_metric((state,), states.count(state))
        yield found


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(name, meaning, value=value)


def _age_s(at: str) -> float:
    return max(0.0, time.time() - datetime.fromisoformat(at).timestamp())
