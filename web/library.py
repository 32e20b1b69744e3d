"""The documents and names of a knowledge base: listed by pages, read, changed one change after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.errors import UnknownDocumentError
from web.page_tokens import page_position, page_token
from web.writing import Writes

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase
    from storage.alias_changes import AliasChange
    from storage.alias_records import AliasMatch, AliasRecord
    from storage.records import Commit, DocumentRecord, PassageRecord

MAX_MATCHES = 2_000
"""Documents that a search for words lists at most, over all its pages."""


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
class AliasPage:
    """One page of other names of documents, and the token of the next page (None on the last)."""

    aliases: tuple[AliasRecord, ...]
    next_page_token: str | None


class Library:
    """Listings and changes of one knowledge base; safe to use from any number of threads."""

    def __init__(self, knowledge_base: KnowledgeBase, writes: Writes) -> None:
        self._knowledge_base = knowledge_base
        self._writes = writes

    def documents(self, query: str | None, limit: int, token: str | None, where: str | None = None) -> DocumentPage:
        """Return live documents: all by id, or those that match the words of `query`, best first.

        Raises:
            PageTokenError: the token is not of such a listing.
            InvalidOptionError: the filter `where` cannot be read, or does not fit the documents' fields.
        """
        reader = self._knowledge_base.reader
        filtered = "" if where is None else f" where {where}"
        if query is None or not query.strip():
            listing = f"id{filtered}"
            after = None if token is None else str(page_position(listing, token))
            found = reader.list_documents(after=after, limit=limit + 1, where=where)
            more = page_token(listing, found[limit - 1].doc_id) if len(found) > limit else None
            return DocumentPage(tuple(found[:limit]), more)
        listing = f"match {query}{filtered}"
        position = 0 if token is None else page_position(listing, token)
        begin = min(position, MAX_MATCHES) if isinstance(position, int) else 0
        end = min(begin + limit, MAX_MATCHES)
        matches = reader.lexical_documents(query, limit=end + 1, where=where)
        more = page_token(listing, end) if len(matches) > end and end < MAX_MATCHES else None
        return DocumentPage(tuple(record for record, _ in matches[begin:end]), more)

    def document(self, doc_id: str) -> StoredDocument:
        """Return the live document with its passages.

        Raises:
            UnknownDocumentError: there is none.
        """
        reader = self._knowledge_base.reader
        try:
            record = reader.document(doc_id)
        except UnknownDocumentError:
            raise UnknownDocumentError(f"no document {doc_id!r}; the listing of documents has the ids") from None
        return StoredDocument(record, tuple(reader.passages_of_document(record.document_id)))

    def copy(self, doc_id: str) -> CorpusDocument:
        """Return the live document as it can be added again; see `Engine.document_copy`."""
        stored = self.document(doc_id)
        names = self._knowledge_base.reader.document_names(stored.record.document_id)
        return CorpusDocument(
            stored.record.doc_id,
            stored.record.title,
            stored.record.url,
            stored.record.meta,
            tuple(CorpusPassage(each.ordinal, each.text, each.section, each.char_offset) for each in stored.passages),
            names.aliases,
            names.links,
        )

    def add(self, documents: Sequence[CorpusDocument | Mapping[str, Any]], op_id: str | None) -> Commit:
        """Return the commit that added the documents; see `Engine.add_documents`."""
        payload = ["add", [asdict(each) if is_dataclass(each) else dict(each) for each in documents]]
        return self._writes.run(lambda name: self._knowledge_base.add(documents, op_id=name), op_id, payload)

    def delete(self, doc_ids: Sequence[str], op_id: str | None) -> Commit:
        """Return the commit that deleted the documents; see `Engine.delete_documents`."""
        payload = ["delete", list(doc_ids)]
        return self._writes.run(lambda name: self._knowledge_base.delete(doc_ids, op_id=name), op_id, payload)

    def aliases(self, doc_id: str | None, prefix: str | None, limit: int, token: str | None) -> AliasPage:
        """Return other names of documents, by name.

        Raises:
            UnknownDocumentError: there is no document `doc_id`.
            PageTokenError: the token is not of such a listing.
        """
        listing = f"aliases {doc_id!r} {prefix!r}"
        after = None if token is None else str(page_position(listing, token))
        found = self._knowledge_base.aliases(doc_id=doc_id, prefix=prefix, after=after, limit=limit + 1)
        more = page_token(listing, found[limit - 1].cursor) if len(found) > limit else None
        return AliasPage(tuple(found[:limit]), more)

    def alias_matches(self, name: str) -> list[tuple[DocumentRecord, AliasMatch]]:
        """Return the documents that a name can mean, best first."""
        return self._knowledge_base.alias_matches(name)

    def add_aliases(
        self, doc_id: str, aliases: Sequence[str], prior: float | None, replace: bool, op_id: str | None
    ) -> AliasChange:
        """Return what the commit did that gave a document other names; see `Engine.add_aliases`."""
        payload = ["add aliases", doc_id, list(aliases), prior, replace]

        def change(name: str | None) -> AliasChange:
            return self._knowledge_base.add_aliases(doc_id, aliases, prior=prior, replace=replace, op_id=name)

        return self._writes.run(change, op_id, payload)

    def delete_aliases(self, doc_id: str, aliases: Sequence[str] | None, op_id: str | None) -> AliasChange:
        """Return what the commit did that took other names from a document; see `Engine.delete_aliases`."""
        payload = ["delete aliases", doc_id, None if aliases is None else list(aliases)]
        return self._writes.run(
            lambda name: self._knowledge_base.delete_aliases(doc_id, aliases, op_id=name), op_id, payload
        )
