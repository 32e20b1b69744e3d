"""The one object that web talks to: it asks, changes and describes a knowledge base for many threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kbengine.errors import OneMachineError
from kbengine.inputs import TASKS, Question
from kbengine.reading.location import DEFAULT_READER
from kbengine.search.query import SearchOptions
from kbengine.search.results import SearchResult
from web.batching import BatchingOptions, MicroBatcher
from web.deadline import Deadline
from web.verifying import Verification
from web.writing import WriteQueue

if TYPE_CHECKING:
    from adapters.kilt.verdicts import Judging
    from adapters.tasks.answerer import Answerer, AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.cluster.opening import ClusterOptions
    from kbengine.cluster.routing import Router
    from kbengine.inputs import TaskInput
    from kbengine.knowledge_base import KnowledgeBase
    from storage.information import KBInfo
    from storage.verify import VerifyReport

R = TypeVar("R")

INFO_SECONDS = 5.0
"""How long counts and sizes of one generation are taken as current (merging in the background changes sizes)."""
VERIFICATION_ENDS_S = 1.0
"""How long closing waits for a verification: it only reads, and one of a large knowledge base takes minutes."""
SELF_QUERY = "ready"
SELF_QUERY_SECONDS = 5.0


@dataclass(frozen=True)
class EngineOptions:
    """How the engine is run.

    Attributes:
        batching: How queries are gathered.
        refresh_s: How often commits of other processes are looked for between queries; each query looks by itself.
        writer_idle_s: After how long without a change the writer lock is given back.
        reader: What reads the best passages.
        verdict: Directory of the model that judges claims of KILT files; None: none are judged.
    """

    batching: BatchingOptions = field(default_factory=BatchingOptions)
    refresh_s: float = 0.25
    writer_idle_s: float = 5.0
    reader: str = DEFAULT_READER
    verdict: Path | None = None


@dataclass(frozen=True)
class BatchFacts:
    """What happened in one batch: its size, how long each query waited, and how long each stage of it took."""

    size: int
    waits_s: Sequence[float]
    timings_ms: Mapping[str, float]


def _judge(directory: Path) -> Judging:
    from kbengine.verdicts.judge import Judge  # torch comes with it

    return Judge.load(directory)


class Engine:
    """A knowledge base served: its queries gathered in batches, its changes made in order; for any number of threads.

    Attributes:
        knowledge_base: What is served; changes go through `writes`.
        answerer: What answers the tasks from it.
        judge: What judges claims of KILT files; None where there is no model for it.
        writes: The changes, one after the other.
        verification: The check of all files that runs on demand.
        problem: What keeps the newest commit from being served; None when nothing does.
        router: Of a cluster, what finds its shards; None on one machine.
    """

    def __init__(
        self,
        knowledge_base: KnowledgeBase,
        answerer: Answerer,
        options: EngineOptions | None = None,
        *,
        router: Router | None = None,
    ) -> None:
        options = options or EngineOptions()
        self.knowledge_base = knowledge_base
        self.router = router
        self.answerer = answerer
        self.judge: Judging | None = None if options.verdict is None else _judge(options.verdict)
        self.writes = WriteQueue(knowledge_base)
        self.verification = Verification(self._verify)
        self._observers: list[Callable[[BatchFacts], None]] = []
        self._interrupts: list[Callable[[], None]] = []
        self._info: tuple[float, KBInfo] | None = None
        self._info_lock = threading.Lock()
        self._batcher = MicroBatcher(_run, options.batching, self._observe)
        self.problem: str | None = None
        self._closed = threading.Event()
        self._refresher = threading.Thread(
            target=self._refresh, args=(options.refresh_s, options.writer_idle_s), name="kbengine-refresh", daemon=True
        )
        self._refresher.start()

    @classmethod
    def open(cls, path: Path, options: EngineOptions | None = None) -> Engine:
        """Return the engine of the knowledge base in `path`, its model loaded and its segments open.

        Raises:
            StateError: there is no knowledge base, or it is not in a state to be searched.
            CorruptError: a file is not what was written.
        """
        from adapters.tasks.answerer import Answerer
        from kbengine.knowledge_base import KnowledgeBase, KnowledgeBaseOptions

        options = options or EngineOptions()
        knowledge_base = KnowledgeBase.open(path, options=KnowledgeBaseOptions(reader=options.reader))
        if knowledge_base.is_read_by_default:
            knowledge_base.cross_encoder()  # now rather than in the first query
        for task in TASKS:
            knowledge_base.encoder_for(task=task)
        knowledge_base.warm_up()
        return cls(knowledge_base, Answerer(knowledge_base), options)

    @classmethod
    def open_cluster(cls, cluster: ClusterOptions, options: EngineOptions | None = None) -> Engine:
        """Return the engine of a cluster, its replicas started and its shards open.

        Raises:
            StateError: there is no cluster, or its catalog, its runtime or a replica does not answer.
            CorruptError: an object is not what was written.
        """
        from adapters.tasks.answerer import Answerer
        from kbengine.cluster.opening import open_cluster
        from kbengine.knowledge_base import KnowledgeBaseOptions

        options = options or EngineOptions()
        knowledge_base = open_cluster(cluster, KnowledgeBaseOptions(reader=options.reader))
        if knowledge_base.is_read_by_default:
            knowledge_base.cross_encoder()
        for task in TASKS:
            knowledge_base.encoder_for(task=task)
        return cls(knowledge_base, Answerer(knowledge_base), options, router=knowledge_base.router)

    def need_one_machine(self, what: str) -> None:
        """Refuse where a cluster is served.

        Raises:
            OneMachineError: it is one.
        """
        if self.router is not None:
            raise OneMachineError.of(what)

    @property
    def queue_depth(self) -> int:
        """Return how many queries wait."""
        return self._batcher.depth

    def info(self) -> KBInfo:
        """Return counts, sizes, settings and the last commits, as of the newest generation."""
        with self._info_lock:
            now, newest = time.monotonic(), self.knowledge_base.generation
            if self._info is None or now - self._info[0] > INFO_SECONDS or self._info[1].generation != newest:
                self._info = now, self.knowledge_base.info()
            return self._info[1]

    def subscribe(self, observer: Callable[[BatchFacts], None]) -> None:
        """Call `observer` after each batch, in the batcher's thread."""
        self._observers.append(observer)

    def ask(
        self, requests: Sequence[TaskInput], options: AnswerOptions, deadline: Deadline | None = None
    ) -> list[TaskAnswer]:
        """Return one answer per request, in order; the first request that cannot be answered raises its error.

        Raises:
            QueueFullError: too many requests are waiting.
            DeadlineError: there was no answer in time.
            QueryError: a request cannot be asked as it is.
        """
        if len(requests) == 1:
            return [cast("TaskAnswer", self.ask_one(requests[0], options, deadline))]
        return all_of(cast("list[TaskAnswer]", self.ask_each([(each, options) for each in requests], deadline)))

    def ask_one(
        self, request: TaskInput, options: SearchOptions, deadline: Deadline | None = None
    ) -> TaskAnswer | SearchResult:
        """Return the answer to a request, for plain `SearchOptions` its hits; raises what `ask` raises."""
        began = time.perf_counter()
        outcome: TaskAnswer | SearchResult = self._batcher.submit(self._way(options), request, deadline)
        timings = dict(outcome.timings_ms)
        if "total" in timings:  # the rest is the time that it waited for its batch
            timings["queue"] = max(0.0, (time.perf_counter() - began) * 1e3 - timings["total"])
        return replace(outcome, timings_ms=timings)

    def ask_each(
        self, queries: Sequence[tuple[TaskInput, SearchOptions]], deadline: Deadline | None = None
    ) -> list[TaskAnswer | SearchResult | Exception]:
        """Return for each request its answer, or the error that it alone has; order is kept.

        A long list waits for its turn instead of being refused, and leaves room for single requests.
        """
        return self._batcher.submit_many([(self._way(options), request) for request, options in queries], deadline)

    def pages(
        self, requests: Sequence[TaskInput], options: SearchOptions, deadline: Deadline | None = None
    ) -> list[SearchResult]:
        """Return the pages of each request as a KILT submission has them; raises what `ask` raises."""
        way = self.answerer.pages, options
        return all_of(self._batcher.submit_many([(way, request) for request in requests], deadline))

    def self_query(self) -> None:
        """Ask the knowledge base something, as a check that answers can be given at all; raises what goes wrong."""
        all_of(self.ask_each([(Question(SELF_QUERY), SearchOptions(k=1))], Deadline.after(SELF_QUERY_SECONDS)))

    def before_close(self, interrupt: Callable[[], None]) -> None:
        """Call `interrupt` when the engine is closed, before anything of it is: it ends what uses the engine."""
        self._interrupts.append(interrupt)

    def close(self) -> None:
        """Finish what was accepted, refuse what comes later, and give files and the writer lock back."""
        for interrupt in self._interrupts:
            interrupt()
        self._closed.set()
        self._refresher.join()
        self._batcher.close()
        self.writes.close()
        self.verification.wait(VERIFICATION_ENDS_S)
        self.knowledge_base.close()

    def _way(self, options: SearchOptions) -> tuple[Callable[..., Any], SearchOptions]:
        """Return what queries have in common that may share a batch: the method that answers them, and the options."""
        return (self.answerer.search if type(options) is SearchOptions else self.answerer.answer), options

    def _observe(self, waits_s: Sequence[float], first: Any) -> None:
        facts = BatchFacts(len(waits_s), waits_s, {} if first is None else first.timings_ms)
        for observer in self._observers:
            observer(facts)

    def _refresh(self, every_s: float, writer_idle_s: float) -> None:
        """Open commits of other processes between queries, and give the lock of an idle writer back, until closed."""
        while not self._closed.wait(every_s):
            try:
                self.knowledge_base.warm_up()
                if self.writes.idle_s >= writer_idle_s and self.knowledge_base.writing == "idle":
                    self.knowledge_base.release_writer()
            except Exception as error:  # whatever it is, the next look may go well: readiness tells meanwhile
                self.problem = f"{type(error).__name__}: {error}"
            else:
                self.problem = None

    def _verify(self) -> VerifyReport:
        from kbengine.build.checking import verify_kb

        return verify_kb(self.knowledge_base.path, encoder=self.knowledge_base.encoder)


def _run(way: Any, requests: Sequence[TaskInput]) -> Sequence[Any]:
    answer, options = way
    outcomes: Sequence[Any] = answer(requests, options)
    return outcomes


def all_of(outcomes: Sequence[R | Exception]) -> list[R]:
    """Return the outcomes, or raise the first that is an error."""
    results: list[R] = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results
