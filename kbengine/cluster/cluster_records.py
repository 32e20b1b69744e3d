"""The records of a cluster's newest generation, for whoever keeps one object and asks it again and again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kbengine.cluster.routing import Router
from kbengine.errors import OneMachineError, UnknownDocumentError
from kbengine.search.joined_records import JoinedRecords
from storage.document_listing import DocumentPage, FieldChoice
from storage.feedback_records import FeedbackRecord
from storage.reader import KBReader
from storage.records import DocumentRecord

_MOST_LISTED = 10_000


class ClusterRecords:
    """Looks each thing up in the generation that is newest then; what only one machine has is refused by name."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def __getattr__(self, name: str) -> Any:
        """Return a method of `JoinedRecords`.

        Raises:
            OneMachineError: a knowledge base on one machine has it, a cluster has not.
        """
        if hasattr(JoinedRecords, name):
            return getattr(self._router.records(), name)
        if hasattr(KBReader, name):
            raise OneMachineError.of(f"what was asked ({name.replace('_', ' ')})")
        raise AttributeError(name)

    def document(self, doc_id: str) -> DocumentRecord:
        """Return the live document with the user's id; UnknownDocumentError when there is none."""
        found = self._router.records().live_documents([doc_id]).get(doc_id)
        if found is None:
            raise UnknownDocumentError(f"no live document {doc_id!r} in the cluster; its listing has the ids")
        return found

    def titles_of(self, doc_ids: Collection[str]) -> dict[str, str]:
        """Return the titles of the live documents among these ids of the user's."""
        found = self._router.records().live_documents(sorted(doc_ids))
        return {doc_id: record.title for doc_id, record in found.items()}

    def page_of_documents(
        self,
        *,
        sort: str = "id",
        where: str | None = None,
        among: Sequence[int] | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> DocumentPage:
        """Return some live documents by their ids, and how many there are; of a filter the first 10,000 are counted.

        Raises:
            OneMachineError: another order is wanted, or a page far behind.
        """
        if sort != "id" or among is not None:
            raise OneMachineError.of("sorting documents")
        if offset + limit > _MOST_LISTED:
            raise OneMachineError.of(f"turning to a page behind the first {_MOST_LISTED:,} documents")
        records = self._router.records()
        if where is None:
            found = records.list_documents(limit=offset + limit)
            return DocumentPage(tuple(found[offset:]), self._router.manifest().documents)
        found = records.list_documents(limit=_MOST_LISTED, where=where)
        return DocumentPage(tuple(found[offset : offset + limit]), len(found))

    def field_choices(self) -> list[FieldChoice]:
        """Return nothing: documents of a cluster are narrowed by filters, and sorted by their ids."""
        return []

    def list_feedback(self, **_: Any) -> list[FeedbackRecord]:
        """Return nothing: a cluster keeps no feedback."""
        return []

    def op_ids(self, prefix: str) -> list[str]:
        """Return the names of the committed operations that begin so."""
        return self._router.op_ids(prefix)
