"""What the views of one app share, and the one path from a query to its answer: cache, engine, envelope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flask import current_app
from pydantic_core import to_json

from kbengine.inputs import task_of
from kbengine.search.query import SearchOptions
from storage.errors import UsageError
from web.deadline import Deadline
from web.envelope import envelope
from web.places import Places
from web.result_cache import ResultCache, cache_tag, request_key

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from adapters.tasks.answers import TaskAnswer
    from kbengine.inputs import TaskInput
    from kbengine.search.results import SearchResult
    from web.engine import Engine
    from web.jobs.runner import JobRunner
    from web.keys import KeyFile
    from web.metrics import Metrics
    from web.settings import ServiceSettings


@dataclass(frozen=True)
class Reply:
    """An answer envelope, as plain JSON values and serialised, and the entity tag under which it is cached.

    The tag is empty where it is not: an answer that lacks what some shards hold.
    """

    body: dict[str, Any]
    data: bytes
    tag: str


class StopFlag:
    """Whether the service was told to stop.

    Not an Event: setting one takes a lock, and the handler of a second SIGTERM can interrupt that of the first in it.
    """

    _is_set = False

    def set(self) -> None:
        """Remember that it was told to stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Tell whether it was told to stop."""
        return self._is_set


@dataclass(frozen=True)
class Service:
    """The parts that views use; `current_service()` returns it inside a request.

    Its `name` is that of the knowledge base among those that are `served` by the process, empty where it is the only
    one; `beside` has the others, where it speaks for the process.
    """

    settings: ServiceSettings
    engine: Engine
    keys: KeyFile
    metrics: Metrics
    log: FilteringBoundLogger
    cache: ResultCache
    jobs: JobRunner
    name: str = ""
    served: tuple[str, ...] = ()
    beside: list[Service] = field(default_factory=list)
    stopping: StopFlag = field(default_factory=StopFlag)
    bulk: Places = field(default_factory=lambda: Places(8, "batches and KILT files"))
    probe: dict[str, tuple[float, str]] = field(default_factory=dict)

    def deadline(self, wanted_ms: int | None = None) -> Deadline:
        """Return the time by which the request must be answered: the service's own, or less if less is wanted."""
        seconds = self.settings.deadline_s
        return Deadline.after(seconds if wanted_ms is None else min(seconds, wanted_ms / 1e3))

    def ask(self, request: TaskInput, options: SearchOptions, deadline: Deadline, tag: str) -> Reply:
        """Return the answer to one request, kept under `tag`, or from the cache when it is there.

        Raises:
            QueueFullError: too many queries are waiting.
            DeadlineError: there was no answer in time.
            QueryError: the request cannot be asked as it is.
        """
        return self._kept(tag) or self._keep(tag, request, options, self.engine.ask_one(request, options, deadline))

    def ask_each(
        self, queries: Sequence[tuple[TaskInput, SearchOptions]], deadline: Deadline
    ) -> list[Reply | Exception]:
        """Return for each request its answer or its own error, in order; equal to asking one by one."""
        tags: list[str] = []
        outcomes: list[Reply | Exception | None] = []
        for query in queries:
            try:
                tags.append(self.tag(*query))
                outcomes.append(self._kept(tags[-1]))
            except UsageError as error:  # its encoder is not there, which is no fault of the others
                tags.append("")
                outcomes.append(error)
        missing = [i for i, outcome in enumerate(outcomes) if outcome is None]
        for i, result in zip(missing, self.engine.ask_each([queries[i] for i in missing], deadline), strict=True):
            outcomes[i] = result if isinstance(result, Exception) else self._keep(tags[i], *queries[i], result)
        return [outcome for outcome in outcomes if outcome is not None]

    def tag(self, request: TaskInput, options: SearchOptions) -> str:
        """Return the entity tag that an answer to the request has at the newest generation."""
        knowledge_base = self.engine.knowledge_base
        fingerprint = knowledge_base.encoder_for(options.encoder, task=task_of(request)).fingerprint
        whole = replace(options, partial=False)  # only whole answers are kept, and they answer both
        return cache_tag(request_key(request, whole), knowledge_base.generation, fingerprint)

    def _kept(self, tag: str) -> Reply | None:
        body = self.cache.get(tag)
        self.metrics.cache_used(hit=body is not None)
        if body is None:
            return None
        body = {**body, "cached": True}
        return Reply(body, to_json(body), tag)

    def _keep(self, tag: str, request: TaskInput, options: SearchOptions, result: TaskAnswer | SearchResult) -> Reply:
        """Keep the answer under its tag, which is of the generation that was searched: a commit may have come since."""
        name = self.engine.knowledge_base.encoder_for(options.encoder, task=task_of(request)).name
        body = envelope(result, name)
        if result.shards is not None and result.shards.degraded:
            return Reply(body, to_json(body), "")  # neither kept here nor, by a tag, by who asks
        tag = cache_tag(tag.partition("-")[0], result.generation, result.encoder)
        reply = Reply(body, to_json(body), tag)
        self.cache.put(tag, body, len(reply.data))
        return reply


def current_service() -> Service:
    """Return the service of the app that handles the current request."""
    service = current_app.extensions["kbengine"]
    assert isinstance(service, Service)
    return service
