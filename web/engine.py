"""The one object that web talks to: it asks, changes and describes a knowledge base for many threads at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapters.answerer import AnswerOptions
    from adapters.answers import TaskAnswer
    from adapters.requests import TaskRequest
    from kbengine.corpus.document import CorpusDocument
    from kbengine.errors import KBError
    from kbengine.query import SearchOptions
    from kbengine.results import SearchResult
    from storage.information import KBInfo
    from storage.records import Commit, DocumentRecord, PassageRecord
    from storage.verify import VerifyReport
    from web.deadline import Deadline


@dataclass(frozen=True)
class EngineOptions:
    """How queries are batched; see `ServiceSettings` for the meaning."""

    queue_size: int = 48
    max_batch: int = 32
    max_wait_ms: float = 2.0


@dataclass(frozen=True)
class DocumentPage:
    """One page of a listing: documents, and the token of the next page (None on the last)."""

    documents: tuple[DocumentRecord, ...]
    next_page_token: str | None


@dataclass(frozen=True)
class StoredDocument:
    """A live document with its passages in order."""

    record: DocumentRecord
    passages: tuple[PassageRecord, ...]


@dataclass(frozen=True)
class VerifyState:
    """The last verification: `state` is never, running, done or failed; `report` is the last finished one's."""

    state: str
    started_at: str | None = None
    finished_at: str | None = None
    report: VerifyReport | None = None
    problem: str | None = None


class Engine:
    """One knowledge base, its encoder and its micro-batcher; safe to use from any number of threads."""

    @classmethod
    def open(cls, path: Path, options: EngineOptions | None = None) -> Engine:
        """Return the engine of the knowledge base in `path`, its model loaded and warm."""
        raise NotImplementedError

    @property
    def generation(self) -> int:
        """Return the newest commit's number, of this or any other process."""
        raise NotImplementedError

    @property
    def encoder_fingerprint(self) -> str:
        """Return the fingerprint of the encoder."""
        raise NotImplementedError

    def ask(
        self, requests: Sequence[TaskRequest], options: AnswerOptions | None = None, deadline: Deadline | None = None
    ) -> list[TaskAnswer]:
        """Return one answer per request, in order; the first request that cannot be answered raises its error.

        Raises:
            QueueFullError: too many requests are waiting.
            DeadlineError: there was no answer in time.
            QueryError: a request cannot be asked as it is.
        """
        raise NotImplementedError

    def ask_each(
        self,
        requests: Sequence[TaskRequest],
        options: Sequence[AnswerOptions | None],
        deadline: Deadline | None = None,
    ) -> list[TaskAnswer | KBError]:
        """Return for each request its answer, or the error that it alone has; order is kept."""
        raise NotImplementedError

    def search(
        self, query: str, options: SearchOptions | None = None, deadline: Deadline | None = None
    ) -> SearchResult:
        """Return the hits of a plain text."""
        raise NotImplementedError

    def documents(self, query: str | None = None, limit: int = 50, page_token: str | None = None) -> DocumentPage:
        """Return live documents: all by id, or those that match the words of `query`, best first.

        Raises:
            PageTokenError: the token is not of such a listing.
        """
        raise NotImplementedError

    def document(self, doc_id: str) -> StoredDocument:
        """Return the live document with its passages.

        Raises:
            UnknownDocumentError: there is none.
        """
        raise NotImplementedError

    def add_documents(
        self, documents: Sequence[CorpusDocument | Mapping[str, Any]], op_id: str | None = None
    ) -> Commit:
        """Return the commit that added the documents: durable, and in every query from now on.

        Raises:
            IdempotencyConflictError: `op_id` named another operation before.
            QueueFullError: too many changes are waiting.
        """
        raise NotImplementedError

    def delete_documents(self, doc_ids: Sequence[str], op_id: str | None = None) -> Commit:
        """Return the commit that deleted the documents: they are in no answer from now on.

        Raises:
            UnknownDocumentError: an id is not there; then nothing was deleted.
        """
        raise NotImplementedError

    def info(self) -> KBInfo:
        """Return counts, sizes, settings and the last commits, as of the newest generation."""
        raise NotImplementedError

    def verify_report(self) -> VerifyState:
        """Return the state and result of the last verification of this process."""
        raise NotImplementedError

    def start_verify(self) -> VerifyState:
        """Return the state after a verification was begun in the background, unless one is running."""
        raise NotImplementedError

    def refresh(self) -> int:
        """Return the newest generation, its segments opened now rather than in the next query."""
        raise NotImplementedError

    def close(self) -> None:
        """Finish what is running, refuse what is waiting, and give files and the writer lock back."""
        raise NotImplementedError
