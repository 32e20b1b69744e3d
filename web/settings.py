"""What an operator may choose: one frozen object, checked when it is made."""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from kbengine.errors import InvalidOptionError
from kbengine.reading.location import DEFAULT_READER


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is of this machine, and reached by programs of this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class ServiceSettings:
    """How the service is run.

    Attributes:
        host: Address to bind; anything but loopback needs an API key.
        port: Port to bind; 0 takes a free one.
        threads: Requests handled at once.
        require_key: Whether requests need an API key on loopback too.
        key_file: Where the keys are kept; None is `api-keys.json` in the knowledge base's directory.
        deadline_s: How long a query may take before it is answered 504.
        drain_s: After SIGTERM: how long new requests are still taken while /readyz already says 503.
        graceful_s: After that: how long requests in flight may take to finish.
        queue_size: Queries that may wait or be answered at once; one more is answered 429. Each has a thread, so they
            are fewer than the threads; None is three quarters of those, which leaves threads for refusing and for
            everything else.
        max_batch: Queries encoded and searched together.
        max_wait_ms: How long a batch waits for more queries, and only when others are waiting already.
        dispatchers: Batches that run at once; None is one on a machine of two cores, which the encoder uses up, and two
            on others, so that one batch's Python overlaps another's encoder.
        cache_entries: Answers kept; 0 keeps none.
        jobs: Jobs done at once; 0 does none here and leaves them to other processes.
        job_days: How long finished jobs and their results are kept.
        reader: What reads the best passages: a bundled reader's name, or a directory.
        verdict: Directory of the model that judges claims of KILT files; None: none are judged.
        cors_origins: Origins whose pages may call the API; empty allows none.
        allowed_hosts: Names besides loopback's under which a service without keys may be addressed.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    threads: int = 64
    require_key: bool = False
    key_file: Path | None = None
    deadline_s: float = 30.0
    drain_s: float = 0.0
    graceful_s: float = 30.0
    queue_size: int | None = None
    max_batch: int = 32
    max_wait_ms: float = 2.0
    dispatchers: int | None = None
    cache_entries: int = 1024
    jobs: int = 1
    job_days: float = 7.0
    reader: str = DEFAULT_READER
    verdict: Path | None = None
    cors_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("port", self.port, 0, 65_535),
            ("threads", self.threads, 2, 1024),
            ("queue_size", self.queue_limit, 1, self.threads - 1),
            ("max_batch", self.max_batch, 1, 1024),
            ("dispatchers", self.dispatcher_count, 1, 64),
            ("cache_entries", self.cache_entries, 0, 1_000_000),
            ("jobs", self.jobs, 0, 64),
        ):
            if not low <= value <= high:
                raise InvalidOptionError(f"{name} is {value}, wanted {low:,} to {high:,}")
        for name, least in (("deadline_s", 0.001), ("drain_s", 0.0), ("graceful_s", 0.0), ("max_wait_ms", 0.0)):
            seconds = getattr(self, name)
            if not least <= seconds <= 86_400:
                raise InvalidOptionError(f"{name} is {seconds}, wanted {least:g} to 86,400")

        if not 0 < self.job_days <= 3650:
            raise InvalidOptionError(f"job_days is {self.job_days}, wanted more than 0 to 3,650")

    @property
    def queue_limit(self) -> int:
        """Return how many queries may wait."""
        return max(1, self.threads * 3 // 4) if self.queue_size is None else self.queue_size

    @property
    def bulk_limit(self) -> int:
        """Return how many batches and KILT files are answered at once: each holds a thread until its end."""
        return max(1, self.threads // 8)

    @property
    def dispatcher_count(self) -> int:
        """Return how many batches run at once."""
        if self.dispatchers is not None:
            return self.dispatchers
        return 1 if len(os.sched_getaffinity(0)) <= 2 else 2

    @property
    def on_loopback(self) -> bool:
        """Tell whether only programs of this machine can reach the service."""
        return is_loopback(self.host)

    @property
    def needs_key(self) -> bool:
        """Tell whether requests need an API key: always when other machines can reach the service."""
        return self.require_key or not self.on_loopback
