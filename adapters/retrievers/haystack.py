"""A document store and a retriever for Haystack (extra `haystack`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.document_stores.errors import DuplicateDocumentError as HaystackDuplicateError
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.utils.filters import document_matches_filter

from adapters.knowledge_base import KnowledgeBase
from adapters.retrievers.haystack_filters import where_of
from adapters.retrievers.texts import checked_unit, find_texts
from kbengine.errors import DuplicateDocumentError, InvalidOptionError
from storage.records import DocumentRecord, PassageRecord


class KnowledgeBaseDocumentStore:
    """A knowledge base as a Haystack document store; it is opened when it is first used.

        store = KnowledgeBaseDocumentStore("my-kb")
        store.write_documents([Document(content="The mill was built in 1764.", meta={"title": "Quillmere"})])

    A document's `content` is stored as text, its `meta` as fields; `meta["title"]` and `meta["url"]` are the title and
    the address too. Blank lines part paragraphs. Embeddings are not kept: the knowledge base makes its own. What it
    holds already, however it came there, is read as documents too. The writer lock is given back after each change.

    Args:
        path: the directory of the knowledge base, which `kbengine build` or `KnowledgeBase.build` has made.
        encoder: an encoder's name or directory; by default the task's own.
    """

    def __init__(self, path: str | Path, encoder: str | None = None) -> None:
        self.path = str(path)
        self.encoder = encoder
        self._opened: KnowledgeBase | None = None
        self._lock = threading.Lock()

    @property
    def knowledge_base(self) -> KnowledgeBase:
        """Return the knowledge base, open."""
        with self._lock:
            if self._opened is None:
                self._opened = KnowledgeBase.open(self.path, encoder=self.encoder)
            return self._opened

    def close(self) -> None:
        """Give the files of the knowledge base back; the next use opens it again."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
            self._opened = None

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline's file says of the store."""
        record: dict[str, Any] = default_to_dict(self, path=self.path, encoder=self.encoder)
        return record

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the store that a pipeline's file tells of."""
        store: Self = default_from_dict(cls, data)
        return store

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return self.knowledge_base.info().documents

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that pass, all by default, in the order in which they were added; each is looked at.

        Raises:
            FilterError: it is no filter of Haystack's.
        """
        if filters and "operator" not in filters and "conditions" not in filters:
            raise FilterError(f"the filter {filters!r} has no 'operator' and 'conditions'")
        return [each for each in self._documents() if not filters or document_matches_filter(filters, each)]

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Add documents, all or none, and return how many were written; NONE means FAIL.

        Raises:
            ValueError: these are not documents, or one has no text.
            DuplicateDocumentError: an id is there already, or comes twice, and the policy is to fail.
        """
        if not isinstance(documents, list) or not all(isinstance(each, Document) for each in documents):
            raise ValueError(f"{type(documents).__name__} was given, wanted a list of Haystack documents")
        for each in documents:
            if not (each.content or "").strip():
                raise ValueError(f"the document {each.id!r} has no text in `content`, which is all that is searched")
        if policy == DuplicatePolicy.SKIP:
            there = self._there([each.id for each in documents])
            documents = list({each.id: each for each in reversed(documents) if each.id not in there}.values())[::-1]
        if documents:
            try:
                self.knowledge_base.add(map(_mapping, documents), replace=policy == DuplicatePolicy.OVERWRITE)
            except DuplicateDocumentError as error:
                raise HaystackDuplicateError(str(error)) from error
            self._give_lock_back()
        return len(documents)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete the documents of these ids that are there."""
        there = self._there(document_ids)
        if there:
            self.knowledge_base.delete(sorted(there))
            self._give_lock_back()

    def _there(self, doc_ids: Sequence[str]) -> set[str]:
        return set(self.knowledge_base.engine.reader.live_documents(list(doc_ids)))

    def _documents(self) -> Iterator[Document]:
        for record, passages in self.knowledge_base.engine.reader.iterate_documents():
            yield _document(record, passages)

    def _give_lock_back(self) -> None:
        engine = self.knowledge_base.engine
        if engine.writing == "idle":
            engine.release_writer()


@component
class KnowledgeBaseRetriever:
    """A knowledge base as a retriever of a Haystack pipeline.

        pipeline.add_component("retriever", KnowledgeBaseRetriever(store, top_k=4))

    Each document of its answer is a text that was found: `content` is a passage (or a sentence), `score` its score, and
    `meta` says where it stands: `id`, `title`, `url` and `fields` of the knowledge base's document, `paragraph`,
    `section` and the best `phrase` with its `start` and `end`.

    Args:
        document_store: what is searched.
        top_k: how many documents come back.
        unit: what they are: `passage`, `sentence`, `document` (the best passage of each) or `phrase`.
        filters: Haystack's filter over `meta`.
    """

    def __init__(
        self,
        document_store: KnowledgeBaseDocumentStore,
        top_k: int = 10,
        unit: str = "passage",
        filters: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(document_store, KnowledgeBaseDocumentStore):
            kind = type(document_store).__name__
            raise InvalidOptionError(f"document_store is {kind}, wanted KnowledgeBaseDocumentStore")
        self.document_store = document_store
        self.top_k = top_k
        self.unit = checked_unit(unit)
        self.filters = filters

    def to_dict(self) -> dict[str, Any]:
        """Return what a pipeline's file says of the retriever."""
        record: dict[str, Any] = default_to_dict(
            self,
            document_store=self.document_store.to_dict(),
            top_k=self.top_k,
            unit=self.unit,
            filters=self.filters,
        )
        return record

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Return the retriever that a pipeline's file tells of."""
        stored = data["init_parameters"]["document_store"]
        if isinstance(stored, dict):
            data["init_parameters"]["document_store"] = KnowledgeBaseDocumentStore.from_dict(stored)
        retriever: Self = default_from_dict(cls, data)
        return retriever

    def warm_up(self) -> None:
        """Open the knowledge base."""
        self.document_store.knowledge_base.engine.warm_up()

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]  # of an extra
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Return the texts that say most about the query, best first.

        Raises:
            EmptyQueryError: the query is blank.
            FilterError: the filter cannot be made one over fields.
        """
        chosen = filters or self.filters
        found = find_texts(
            self.document_store.knowledge_base,
            query,
            k=self.top_k if top_k is None else top_k,
            unit=self.unit,
            where=where_of(chosen) if chosen else None,
        )
        documents = [
            Document(id=each.id, content=each.text, meta=dict(each.metadata), score=each.score) for each in found
        ]
        return {"documents": documents}


def _mapping(document: Document) -> dict[str, Any]:
    meta = dict(document.meta)
    return {
        "id": document.id,
        "title": str(meta.get("title") or ""),
        "text": document.content,
        "url": meta.get("url"),
        "meta": meta,
    }


def _document(record: DocumentRecord, passages: Sequence[PassageRecord]) -> Document:
    named = {name: value for name, value in (("title", record.title), ("url", record.url)) if value}
    return Document(id=record.doc_id, content=_text(passages), meta={**named, **record.meta})


def _text(passages: Sequence[PassageRecord]) -> str:
    """Return the paragraphs of a document; passages that are parts of one stand where they stood in it."""
    paragraphs: dict[int, str] = {}
    for each in passages:
        text = paragraphs.get(each.ordinal, "")
        paragraphs[each.ordinal] = text.ljust(each.char_offset) + each.text
    return "\n\n".join(paragraphs.values())
