"""The one object that web talks to: it asks, changes and describes a knowledge base for many threads at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from kbengine.inputs import Question
from kbengine.search.query import SearchOptions
from kbengine.search.results import SearchResult
from storage.tuned_files import list_tuned
from web.batching import BatchingOptions, MicroBatcher
from web.deadline import Deadline
from web.keeper import Keeper
from web.library import AliasPage, DocumentPage, Library, StoredDocument
from web.verifying import Verification, VerifyState
from web.writing import Writes

if TYPE_CHECKING:
    from adapters.tasks.answerer import Answerer, AnswerOptions
    from adapters.tasks.answers import TaskAnswer
    from kbengine.corpus.document import CorpusDocument
    from kbengine.inputs import Task, TaskInput
    from kbengine.knowledge_base import KnowledgeBase
    from storage.alias_changes import AliasChange
    from storage.alias_records import AliasMatch
    from storage.information import KBInfo
    from storage.records import Commit, DocumentRecord
    from storage.verify import VerifyReport

C = TypeVar("C")

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
    """

    batching: BatchingOptions = field(default_factory=BatchingOptions)
    refresh_s: float = 0.25
    writer_idle_s: float = 5.0


@dataclass(frozen=True)
class BatchFacts:
    """What happened in one batch: its size, how long each query waited, and how long each stage of it took."""

    size: int
    waits_s: Sequence[float]
    timings_ms: Mapping[str, float]


@dataclass(frozen=True)
class _Key:
    """What queries have in common that may share a batch."""

    kind: Literal["ask", "search", "pages"]
    options: SearchOptions


class Engine:
    """One knowledge base, its encoder and its micro-batcher; safe to use from any number of threads."""

    def __init__(self, knowledge_base: KnowledgeBase, answerer: Answerer, options: EngineOptions | None = None) -> None:
        options = options or EngineOptions()
        self._knowledge_base = knowledge_base
        self._answerer = answerer
        self._observers: list[Callable[[BatchFacts], None]] = []
        self._info: tuple[float, KBInfo] | None = None
        self._info_lock = threading.Lock()
        self._batcher = MicroBatcher(self._run_batch, options.batching, self._observe)
        self._writes = Writes(knowledge_base)
        self._library = Library(knowledge_base, self._writes)
        self._verification = Verification(self._verify)
        self._keeper = Keeper(self.refresh, self._release_idle_writer, options.refresh_s, options.writer_idle_s)

    @classmethod
    def open(cls, path: Path, options: EngineOptions | None = None) -> Engine:
        """Return the engine of the knowledge base in `path`, its model loaded and its segments open.

        Raises:
            StateError: there is no knowledge base, or it is not in a state to be searched.
            CorruptError: a file is not what was written.
        """
        from adapters.tasks.answerer import Answerer
        from kbengine.knowledge_base import KnowledgeBase

        knowledge_base = KnowledgeBase.open(path)
        return cls(knowledge_base, Answerer(knowledge_base), options)

    # -- what is served

    @property
    def path(self) -> Path:
        """Return the knowledge base's directory."""
        return self._knowledge_base.path

    @property
    def generation(self) -> int:
        """Return the newest commit's number, of this or any other process."""
        return self._knowledge_base.generation

    @property
    def encoder_fingerprint(self) -> str:
        """Return the fingerprint of the encoder."""
        return self._knowledge_base.encoder_for().fingerprint

    def fingerprint_of(self, encoder: str | None) -> str:
        """Return the fingerprint of a tuned encoder as it is stored now, None for the encoder itself.

        Raises:
            UnknownEncoderError: there is none of the name.
        """
        return self._knowledge_base.encoder_for(encoder).fingerprint

    @property
    def encoder_name(self) -> str:
        """Return the name of the encoder."""
        return self._knowledge_base.encoder_for().name

    @property
    def tuned_encoders(self) -> list[str]:
        """Return the names of the query encoders tuned for the knowledge base, as they are stored now."""
        return list_tuned(self.path)

    @property
    def calibrated_tasks(self) -> frozenset[Task]:
        """Return the tasks whose answers have probabilities, and so may be asked with a threshold."""
        return frozenset(self._answerer.calibrations.tasks)

    @property
    def queue_depth(self) -> int:
        """Return how many queries wait."""
        return self._batcher.depth

    @property
    def pending_writes(self) -> int:
        """Return how many changes are running or waiting."""
        return self._writes.pending

    @property
    def problem(self) -> str | None:
        """Return what keeps the newest commit from being served; None when nothing does."""
        return self._keeper.problem

    def subscribe(self, observer: Callable[[BatchFacts], None]) -> None:
        """Call `observer` after each batch, in the batcher's thread."""
        self._observers.append(observer)

    # -- queries

    def ask(
        self, requests: Sequence[TaskInput], options: AnswerOptions | None = None, deadline: Deadline | None = None
    ) -> list[TaskAnswer]:
        """Return one answer per request, in order; the first request that cannot be answered raises its error.

        Raises:
            QueueFullError: too many requests are waiting.
            DeadlineError: there was no answer in time.
            QueryError: a request cannot be asked as it is.
        """
        options = options or _answer_options()
        if len(requests) == 1:
            return [cast("TaskAnswer", self.ask_one(requests[0], options, deadline))]
        answers: list[TaskAnswer] = []
        for answer in self.ask_each([(request, options) for request in requests], deadline):
            if isinstance(answer, Exception):
                raise answer
            answers.append(cast("TaskAnswer", answer))
        return answers

    def ask_one(
        self, request: TaskInput, options: SearchOptions, deadline: Deadline | None = None
    ) -> TaskAnswer | SearchResult:
        """Return the answer to a request, for plain `SearchOptions` its hits; raises what `ask` raises."""
        found: TaskAnswer | SearchResult = self._submit(_Key(_kind_of(options), options), request, deadline)
        return found

    def ask_each(
        self,
        queries: Sequence[tuple[TaskInput, SearchOptions]],
        deadline: Deadline | None = None,
    ) -> list[TaskAnswer | SearchResult | Exception]:
        """Return for each request its answer, or the error that it alone has; order is kept.

        A long list waits for its turn instead of being refused, and leaves room for single requests.
        """
        items = [(_Key(_kind_of(options), options), request) for request, options in queries]
        return self._batcher.submit_many(items, deadline)

    def pages_each(
        self, requests: Sequence[TaskInput], options: AnswerOptions, deadline: Deadline | None = None
    ) -> list[SearchResult | Exception]:
        """Return for each request its pages as a KILT submission has them, or the error that it alone has."""
        return self._batcher.submit_many([(_Key("pages", options), request) for request in requests], deadline)

    def check_threshold(self, task: Task, options: AnswerOptions) -> None:
        """Check that the threshold asked for can be applied to the task.

        Raises:
            InvalidOptionError: there are no probabilities to compare with it.
        """
        self._answerer.check_threshold(task, options)

    def search(
        self, query: str, options: SearchOptions | None = None, deadline: Deadline | None = None
    ) -> SearchResult:
        """Return the hits of a plain text; raises what `ask` raises."""
        return cast("SearchResult", self.ask_one(Question(query), options or SearchOptions(), deadline))

    def self_query(self) -> None:
        """Ask the knowledge base something, as a check that answers can be given at all; raises what goes wrong."""
        deadline = Deadline.after(SELF_QUERY_SECONDS)
        (outcome,) = self._batcher.submit_many([(_Key("search", SearchOptions(k=1)), Question(SELF_QUERY))], deadline)
        if isinstance(outcome, Exception):
            raise outcome

    # -- documents and names

    def documents(
        self, query: str | None = None, limit: int = 50, page_token: str | None = None, where: str | None = None
    ) -> DocumentPage:
        """Return live documents, those that pass a filter if there is one; see `Library.documents`."""
        return self._library.documents(query, limit, page_token, where)

    def document(self, doc_id: str) -> StoredDocument:
        """Return the live document with its passages.

        Raises:
            UnknownDocumentError: there is none.
        """
        return self._library.document(doc_id)

    def document_copy(self, doc_id: str) -> CorpusDocument:
        """Return the live document as it can be added again: its text, the names it was given, and its links.

        Raises:
            UnknownDocumentError: there is none.
        """
        return self._library.copy(doc_id)

    def add_documents(
        self, documents: Sequence[CorpusDocument | Mapping[str, Any]], op_id: str | None = None
    ) -> Commit:
        """Return the commit that added the documents: durable, and in every query from now on.

        Raises:
            IdempotencyConflictError: `op_id` named another operation before.
            QueueFullError: too many changes are waiting.
        """
        return self._seen(self._library.add(documents, op_id))

    def delete_documents(self, doc_ids: Sequence[str], op_id: str | None = None) -> Commit:
        """Return the commit that deleted the documents: they are in no answer from now on.

        Raises:
            UnknownDocumentError: an id is not there; then nothing was deleted.
        """
        return self._seen(self._library.delete(doc_ids, op_id))

    def aliases(
        self,
        doc_id: str | None = None,
        prefix: str | None = None,
        limit: int = 50,
        page_token: str | None = None,
    ) -> AliasPage:
        """Return other names of documents, by name: of one document, or those that begin so, or all.

        Raises:
            UnknownDocumentError: there is no document `doc_id`.
            PageTokenError: the token is not of such a listing.
        """
        return self._library.aliases(doc_id, prefix, limit, page_token)

    def alias_matches(self, name: str) -> list[tuple[DocumentRecord, AliasMatch]]:
        """Return the documents that a name can mean, best first, each with how it matches."""
        return self._library.alias_matches(name)

    def add_aliases(
        self,
        doc_id: str,
        aliases: Sequence[str],
        prior: float | None = None,
        replace: bool = False,
        op_id: str | None = None,
    ) -> AliasChange:
        """Return what the commit did that gave a document other names: durable, and used from now on.

        Raises:
            UnknownDocumentError: there is no such document.
            DuplicateAliasError: a name is there already and `replace` is off.
        """
        return self._seen(self._library.add_aliases(doc_id, aliases, prior, replace, op_id))

    def delete_aliases(
        self, doc_id: str, aliases: Sequence[str] | None = None, op_id: str | None = None
    ) -> AliasChange:
        """Return what the commit did that took these names, or all for None, from a document.

        Raises:
            UnknownDocumentError: there is no such document.
            UnknownAliasError: it has not all of these names; then none was deleted.
        """
        return self._seen(self._library.delete_aliases(doc_id, aliases, op_id))

    # -- the knowledge base

    def info(self) -> KBInfo:
        """Return counts, sizes, settings and the last commits, as of the newest generation."""
        with self._info_lock:
            now = time.monotonic()
            known = self._info
            if known is None or now - known[0] > INFO_SECONDS or known[1].generation != self.generation:
                self._info = known = (now, self._knowledge_base.info())
            return known[1]

    def verify_report(self) -> VerifyState:
        """Return the state and result of the last verification of this process."""
        return self._verification.state

    def start_verify(self) -> VerifyState:
        """Return the state after a verification was begun in the background, unless one is running."""
        return self._verification.start()

    def refresh(self) -> int:
        """Return the newest generation, its segments opened now rather than in the next query."""
        return self._knowledge_base.generation

    def close(self) -> None:
        """Finish what was accepted, refuse what comes later, and give files and the writer lock back."""
        self._keeper.close()
        self._batcher.close()
        self._writes.close()
        self._verification.wait(VERIFICATION_ENDS_S)
        self._knowledge_base.close()

    # -- inside

    def _submit(self, key: _Key, item: Any, deadline: Deadline | None) -> Any:
        """Return the item's outcome, with the time it waited for its batch among its timings."""
        began = time.perf_counter()
        outcome = self._batcher.submit(key, item, deadline)
        timings = dict(outcome.timings_ms)
        if "total" in timings:
            timings["queue"] = max(0.0, (time.perf_counter() - began) * 1e3 - timings["total"])
        return replace(outcome, timings_ms=timings)

    def _run_batch(self, key: Hashable, items: Sequence[Any]) -> Sequence[Any]:
        assert isinstance(key, _Key)
        outcomes: Sequence[Any]
        if key.kind == "ask":
            outcomes = self._answerer.answer(items, cast("AnswerOptions", key.options))
        elif key.kind == "pages":
            outcomes = self._answerer.pages(items, key.options)
        else:
            outcomes = self._answerer.search(items, key.options)
        return outcomes

    def _observe(self, waits_s: Sequence[float], first: Any) -> None:
        facts = BatchFacts(len(waits_s), waits_s, {} if first is None else first.timings_ms)
        for observer in self._observers:
            observer(facts)

    def _seen(self, commit: C) -> C:
        """Return the commit, its segments opened now rather than in the next query."""
        self.refresh()
        return commit

    def _release_idle_writer(self, idle_s: float) -> None:
        if self._writes.idle_s >= idle_s and self._knowledge_base.writing == "idle":
            self._knowledge_base.release_writer()

    def _verify(self) -> VerifyReport:
        from kbengine.build.checking import verify_kb

        return verify_kb(self.path, encoder=self._knowledge_base.encoder)


def _kind_of(options: SearchOptions) -> Literal["ask", "search"]:
    """Tell whether distinct answers are wanted, or the hits of a plain search."""
    return "search" if type(options) is SearchOptions else "ask"


def _answer_options() -> AnswerOptions:
    from adapters.tasks.answerer import AnswerOptions

    return AnswerOptions()
