"""An engine whose answers are prepared: every state of the page without a model, and what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from adapters.tasks.answerer import AnswerOptions
from adapters.tasks.answers import Answer, Evidence, TaskAnswer
from adapters.tasks.provenance import PageProvenance
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.errors import InvalidOptionError, KBError, UnknownDocumentError
from kbengine.inputs import TASKS, Mention, Task, TaskInput, task_of
from kbengine.search.results import DocumentRef, PassageRef, ScoreParts
from kbengine.span import Span
from storage.alias_records import NewAlias
from storage.document_listing import DocumentPage, FieldChoice, FieldValue
from storage.feedback_records import FeedbackRecord, NewFeedback
from storage.information import HistoryEntry
from storage.settings import KBSettings
from web.verifying import VerifyState

TEXT = (
    "The harbour of Vell was dug in 1907. Its lighthouse, designed by Ines Rook, burned down twice. Boats call daily."
)


def evidence(
    phrase: str = "Ines Rook", text: str = TEXT, *, title: str = "Vell", doc_id: str = "vell", **changes: Any
) -> Evidence:
    """A place whose phrase stands in `text`."""
    start = text.index(phrase)
    span = Span(start, start + len(phrase))
    before, after = text.rfind(". ", 0, start), text.find(". ", span.end)
    values: dict[str, Any] = {
        "document": DocumentRef(doc_id, title, "https://example.org/vell"),
        "passage": PassageRef(1, 2, text, "Harbour"),
        "span": span,
        "sentence": Span(0 if before < 0 else before + 2, len(text) if after < 0 else after + 1),
        "score": 40.0,
        "parts": ScoreParts(20.0, 21.5, 3.5, -5.0),
        "provenance": PageProvenance(doc_id, title, "Harbour", 2, span.start, 2, span.end),
    }
    return Evidence(**{**values, **changes})


def answer(text: str = "Ines Rook", *places: Evidence, **changes: Any) -> Answer:
    """An answer with at least one place."""
    values: dict[str, Any] = {
        "rank": 1,
        "text": text,
        "unit": "phrase",
        "score": 40.0,
        "probability": None,
        "evidence": places or (evidence(),),
    }
    return Answer(**{**values, **changes})


def task_answer(request: TaskInput, *answers: Answer, **changes: Any) -> TaskAnswer:
    """A result for the request; without answers it is a no-answer."""
    values: dict[str, Any] = {
        "task": task_of(request),
        "status": "answered" if answers else "no_answer",
        "reason": None if answers else "nothing_found",
        "answers": answers,
        "threshold": None,
        "generation": 7,
        "encoder": "f" * 64,
        "n_query_tokens": 9,
        "truncated": False,
        "timings_ms": {"encode": 10.0, "rescore": 2.5, "total": 14.0},
        "mention": request.place if isinstance(request, Mention) else None,
    }
    return TaskAnswer(**{**values, **changes})


class FakeVerification:
    """Runs for ever once it was begun."""

    def __init__(self) -> None:
        self.state = VerifyState()

    def start(self) -> VerifyState:
        self.state = replace(self.state, state="running", started_at="2026-01-02T03:04:05+00:00")
        return self.state


class FakeEngine:
    """Answers with `respond(request, options)`; raises `failure` when there is one; keeps documents in a dict.

    It is its own knowledge base, reader, answerer and queue of changes.
    """

    def __init__(self, path: Path = Path("harbour-kb")) -> None:
        self.path = path
        self.generation = 7
        self.knowledge_base = self.reader = self.answerer = self.writes = self
        self.calibrations = SimpleNamespace(tasks=frozenset(TASKS))
        self.encoder_names = ["minilm"]
        self.queue_depth = self.pending = 0
        self.problem = None
        self.router = None
        self.failure: Exception | None = None
        self.asked: list[tuple[TaskInput, AnswerOptions]] = []
        self.respond: Callable[[TaskInput, AnswerOptions], TaskAnswer] = lambda request, _: task_answer(
            request, answer()
        )
        self.stored: dict[str, CorpusDocument] = {}
        self.names: dict[str, dict[str, float | None]] = {}
        self.said: list[FeedbackRecord] = []
        self.n_said = 0
        self.operations: list[str | None] = []
        self.verification = FakeVerification()
        self.add([CorpusDocument("vell", "Vell", passages=(CorpusPassage(2, TEXT, "Harbour"),))])

    def run(self, change: Callable[..., Any], *arguments: Any, op_id: str | None = None, **keywords: Any) -> Any:
        self._fail()
        self.operations.append(op_id)
        return change(*arguments, **keywords)

    def before_close(self, interrupt: Any) -> None:
        """It is never closed."""

    def subscribe(self, observer: Any) -> None:
        """Nothing is observed."""

    def calibrations_of_task(self, task: Task, encoder: str | None = None) -> Any:
        return self.calibrations

    def ask(
        self, requests: Sequence[TaskInput], options: AnswerOptions | None = None, deadline: Any = None
    ) -> list[TaskAnswer]:
        self._fail()
        self.asked += [(request, options) for request in requests]
        return [self.respond(request, options) for request in requests]

    def list_documents(self, *, after: str | None = None, limit: int = 50, where: str | None = None) -> list[Any]:
        if where is not None and "=" not in where:
            raise InvalidOptionError(f"the filter {where!r} cannot be read")
        return [
            self.document(key)
            for key in sorted(self.stored)
            if key > (after or "") and where in (None, f"source = '{self.stored[key].meta.get('source')}'")
        ][:limit]

    def page_of_documents(
        self, *, sort: str = "id", where: str | None = None, among: Any = None, offset: int = 0, limit: int = 50
    ) -> DocumentPage:
        found = self.list_documents(where=where, limit=10_000)
        found = [each for each in found if among is None or each.document_id in among]
        found.sort(key=lambda each: each.title if sort.endswith("title") else each.doc_id, reverse=sort[0] == "-")
        return DocumentPage(tuple(found[offset : offset + limit]), len(found))

    def field_choices(self) -> list[FieldChoice]:
        values = sorted({each.meta["source"] for each in self.stored.values() if "source" in each.meta})
        shown = tuple(FieldValue(value, f"source = '{value}'", 1) for value in values)
        return [FieldChoice("source", ("text",), shown)] if shown else []

    def lexical_documents(self, query: str, *, limit: int, where: str | None = None) -> list[tuple[Any, float]]:
        return [(one, 1.0) for one in self.list_documents(where=where, limit=10_000) if query in one.title][:limit]

    def document(self, doc_id: str) -> Any:
        if doc_id not in self.stored:
            raise UnknownDocumentError(f"no document {doc_id!r}")
        one = self.stored[doc_id]
        return SimpleNamespace(
            doc_id=doc_id,
            document_id=doc_id,
            title=one.title,
            url=one.url,
            meta=one.meta,
            passage_count=len(one.passages),
            born_generation=self.generation,
        )

    def passages_of_document(self, document_id: str) -> Sequence[CorpusPassage]:
        return self.stored[document_id].passages

    def document_names(self, document_id: str) -> Any:
        given = tuple(NewAlias(name, "manual", prior) for name, prior in self.names.get(document_id, {}).items())
        return SimpleNamespace(aliases=given, links=())

    def add(self, documents: Sequence[CorpusDocument]) -> Any:
        self.stored |= {one.doc_id: replace(one, aliases=()) for one in documents}
        self.names |= {one.doc_id: {each.alias: each.prior for each in one.aliases} for one in documents}
        return self._commit()

    def delete(self, doc_ids: Sequence[str]) -> Any:
        for doc_id in doc_ids:
            self.document(doc_id)
            del self.stored[doc_id]
            self.names.pop(doc_id, None)
        return self._commit()

    def list_aliases(self, *, doc_id: str, limit: int) -> list[Any]:
        named = self.names.get(doc_id, {}).items()
        return [SimpleNamespace(alias=name, source="manual", prior=prior or 1.0) for name, prior in named][:limit]

    def add_aliases(self, doc_id: str, aliases: Sequence[str], *, replace: bool) -> Any:
        self.document(doc_id)
        self.names.setdefault(doc_id, {}).update(dict.fromkeys(aliases))
        return self._commit()

    def delete_aliases(self, doc_id: str, aliases: Sequence[str]) -> Any:
        for name in aliases:
            del self.names[doc_id][name]
        return self._commit()

    def list_feedback(self, *, task: str, asked: str) -> list[FeedbackRecord]:
        return [each for each in self.said if (each.task, each.input) == (task, asked)]

    def add_feedback(self, feedback: Sequence[NewFeedback]) -> Any:
        for each in feedback:
            self.said = [one for one in self.said if (one.answer, one.doc_id) != (each.answer, each.doc_id)]
            self.n_said += 1
            self.said.append(FeedbackRecord(self.n_said, **vars(each), at="2026-01-02T03:04:05.678+00:00"))
        return self._commit()

    def delete_feedback(self, ids: Sequence[int]) -> Any:
        self.said = [one for one in self.said if one.feedback_id not in ids]
        return self._commit()

    def info(self) -> Any:
        n_passages = sum(len(one.passages) for one in self.stored.values())
        return SimpleNamespace(
            path=self.path,
            settings=KBSettings("fake", "f" * 64, 4),
            generation=self.generation,
            documents=len(self.stored),
            passages=n_passages,
            tokens_stored=10 * n_passages,
            tokens_total=20 * n_passages,
            kept_fraction=0.5,
            tombstones=1,
            aliases=3,
            links=0,
            segments=2,
            segment_rows=12,
            bytes_by_kind={"database": 3000, "segments": 2_000_000, "index": 0, "encoders": 0},
            bytes_by_use={"vectors": 1_500_000, "sparse": 0, "index": 0, "text": 503_000},
            last_commits=(HistoryEntry(self.generation, "2026-01-02T03:04:05.678+00:00", "add", 1, 0, 0, None),),
        )

    def close(self) -> None:
        """Nothing is open."""

    def _commit(self) -> Any:
        self.generation += 1
        return SimpleNamespace(generation=self.generation)

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure


def busy(error: KBError) -> FakeEngine:
    """An engine that fails at every query."""
    engine = FakeEngine()
    engine.failure = error
    return engine
