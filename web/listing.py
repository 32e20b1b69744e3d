"""The documents and names of a knowledge base as services list them: by pages, with tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.errors import UnknownDocumentError
from storage.document_listing import DocumentPage
from web.page_tokens import page_position, page_token

if TYPE_CHECKING:
    from kbengine.inputs import Task
    from kbengine.knowledge_base import KnowledgeBase
    from storage.alias_records import AliasRecord, AliasSource
    from storage.feedback_records import FeedbackRecord, Verdict
    from storage.records import DocumentRecord, PassageRecord

T = TypeVar("T")

MAX_MATCHES = 2_000
"""Documents that a search for words lists at most, over all its pages."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a listing, and the token of the next page (None on the last)."""

    items: tuple[T, ...] = ()
    next_page_token: str | None = None


@dataclass(frozen=True)
class StoredDocument:
    """A live document with its passages in order."""

    record: DocumentRecord
    passages: tuple[PassageRecord, ...]


def list_documents(
    knowledge_base: KnowledgeBase, query: str, limit: int, token: str, where: str = "", sort: str = ""
) -> Page[DocumentRecord]:
    """Return live documents that pass a filter: all by id, or those that match the words of `query`, best first.

    Sorted otherwise, they are those of `browse_documents`.

    Args:
        knowledge_base: Whose documents.
        query: Words; blank for all documents.
        limit: How many at most.
        token: Of the page before; empty for the first page.
        where: A filter over the documents' fields; empty for none.
        sort: As in `browse_documents`; empty for the order of ids, or of matches.

    Raises:
        PageTokenError: the token is not of such a listing.
        InvalidOptionError: the filter cannot be read, or does not fit the documents' fields; so may the order.
    """
    reader = knowledge_base.reader
    filtered = f" where {where}" if where else ""
    if sort:
        listing = f"sort {sort} {query}{filtered}"
        start = page_position(listing, token) if token else 0
        begin = start if isinstance(start, int) else 0
        page = browse_documents(knowledge_base, query, sort, where, begin, limit)
        more = page_token(listing, begin + limit) if page.total > begin + limit else None
        return Page(page.records, more)
    if not query.strip():
        listing = f"id{filtered}"
        after = str(page_position(listing, token)) if token else None
        found = reader.list_documents(after=after, limit=limit + 1, where=where or None)
        more = page_token(listing, found[limit - 1].doc_id) if len(found) > limit else None
        return Page(tuple(found[:limit]), more)
    listing = f"match {query}{filtered}"
    position = page_position(listing, token) if token else 0
    begin = min(position, MAX_MATCHES) if isinstance(position, int) else 0
    end = min(begin + limit, MAX_MATCHES)
    matches = reader.lexical_documents(query, limit=end + 1, where=where or None)
    more = page_token(listing, end) if len(matches) > end and end < MAX_MATCHES else None
    return Page(tuple(record for record, _ in matches[begin:end]), more)


def browse_documents(
    knowledge_base: KnowledgeBase, query: str, sort: str, where: str, first: int, limit: int
) -> DocumentPage:
    """Return some documents of a listing, and how many it has: for people, who go back and forth in it.

    Args:
        knowledge_base: Whose documents.
        query: Words; blank for all documents. At most `MAX_MATCHES` documents match.
        sort: `id`, `title`, `added`, `passages` or a field, with a minus before it from large to small; empty for the
            order of ids, or, of documents that match words, the best first.
        where: A filter over the documents' fields; empty for none.
        first: How many are left out before the first.
        limit: How many at most.

    Raises:
        InvalidOptionError: the filter cannot be read or does not fit the documents' fields; no document has the field.
    """
    reader = knowledge_base.reader
    if not query.strip():
        return reader.page_of_documents(sort=sort or "id", where=where or None, offset=first, limit=limit)
    matches = [record for record, _ in reader.lexical_documents(query, limit=MAX_MATCHES, where=where or None)]
    if not sort:
        return DocumentPage(tuple(matches[first : first + limit]), len(matches))
    among = [record.document_id for record in matches]
    return reader.page_of_documents(sort=sort, among=among, offset=first, limit=limit)


def list_aliases(
    knowledge_base: KnowledgeBase,
    doc_id: str,
    prefix: str,
    limit: int,
    token: str,
    source: AliasSource | None = None,
) -> Page[AliasRecord]:
    """Return other names of documents, by name: of one document, or those that begin so, or all.

    Raises:
        UnknownDocumentError: there is no document `doc_id`.
        PageTokenError: the token is not of such a listing.
    """
    listing = f"aliases {doc_id or None!r} {prefix or None!r}" + (f" {source}" if source else "")
    after = str(page_position(listing, token)) if token else None
    found = knowledge_base.reader.list_aliases(
        doc_id=doc_id or None, prefix=prefix or None, source=source, after=after, limit=limit + 1
    )
    more = page_token(listing, found[limit - 1].cursor) if len(found) > limit else None
    return Page(tuple(found[:limit]), more)


def list_feedback(
    knowledge_base: KnowledgeBase, task: Task | None, verdict: Verdict | None, limit: int, token: str
) -> Page[FeedbackRecord]:
    """Return what people said about answers, oldest first.

    Raises:
        PageTokenError: the token is not of such a listing.
    """
    listing = f"feedback {task!r} {verdict!r}"
    position = page_position(listing, token) if token else 0
    after = position if isinstance(position, int) else 0
    found = knowledge_base.reader.list_feedback(task=task, verdict=verdict, after=after, limit=limit + 1)
    more = page_token(listing, found[limit - 1].feedback_id) if len(found) > limit else None
    return Page(tuple(found[:limit]), more)


def stored_document(knowledge_base: KnowledgeBase, doc_id: str) -> StoredDocument:
    """Return the live document with its passages.

    Raises:
        UnknownDocumentError: there is none.
    """
    reader = knowledge_base.reader
    try:
        record = reader.document(doc_id)
    except UnknownDocumentError:
        raise UnknownDocumentError(f"no document {doc_id!r}; the listing of documents has the ids") from None
    return StoredDocument(record, tuple(reader.passages_of_document(record.document_id)))


def document_copy(knowledge_base: KnowledgeBase, doc_id: str) -> CorpusDocument:
    """Return the live document as it can be added again: its text, the names it was given, and its links.

    Raises:
        UnknownDocumentError: there is none.
    """
    stored = stored_document(knowledge_base, doc_id)
    record, names = stored.record, knowledge_base.reader.document_names(stored.record.document_id)
    passages = (CorpusPassage(each.ordinal, each.text, each.section, each.char_offset) for each in stored.passages)
    return CorpusDocument(
        record.doc_id, record.title, record.url, record.meta, tuple(passages), names.aliases, names.links
    )
