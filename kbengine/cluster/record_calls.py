"""What is looked up in a shard beside a search: documents, passages and names, as messages.

Each request has the names of its method's arguments, so that a host calls the method with them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbengine.cluster.calls import Method
from storage.alias_records import AliasRecord, AliasSource, DocumentNames, Spelling
from storage.field_rows import FieldType
from storage.records import DocumentRecord, PassageRecord


@dataclass(frozen=True)
class Nothing:
    """A method without arguments."""


@dataclass(frozen=True)
class DocumentIds:
    """Documents by our ids."""

    document_ids: tuple[int, ...]


@dataclass(frozen=True)
class PassageIds:
    """Passages by our ids."""

    passage_ids: tuple[int, ...]


@dataclass(frozen=True)
class DocIds:
    """Documents by the user's ids."""

    doc_ids: tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """Names, each an id, a title or an alias."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class OneDocument:
    """One document by our id."""

    document_id: int


@dataclass(frozen=True)
class NamesOf:
    """The names of a document, so many."""

    document_id: int
    limit: int


@dataclass(frozen=True)
class Linking:
    """The documents that link to one."""

    doc_id: str
    title: str
    limit: int


@dataclass(frozen=True)
class Listing:
    """Live documents in the order of their ids."""

    after: str | None
    limit: int
    title_prefix: str | None
    where: str | None


@dataclass(frozen=True)
class WordSearch:
    """Documents that have words of a text."""

    query: str
    limit: int
    where: str | None


@dataclass(frozen=True)
class Spelt:
    """What is stored under names."""

    names: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class AliasListing:
    """Names in their order."""

    doc_id: str | None
    prefix: str | None
    source: AliasSource | None
    after: str | None
    limit: int


@dataclass(frozen=True)
class OneField:
    """A field of documents."""

    name: str


@dataclass(frozen=True)
class Titled:
    """Documents by their titles, so many of each."""

    names: tuple[str, ...]
    limit: int


@dataclass(frozen=True)
class WithTerm:
    """The passages that have a term."""

    term: str


@dataclass(frozen=True)
class SomeWithTerm:
    """Some of the passages that have a term, by their places among them."""

    term: str
    places: tuple[int, ...]


RECORDS: Mapping[str, Method] = {
    "documents": Method(DocumentIds, dict[int, DocumentRecord]),
    "passages": Method(PassageIds, dict[int, PassageRecord]),
    "passage_texts": Method(PassageIds, dict[int, str]),
    "titles": Method(DocumentIds, dict[int, str]),
    "aliases_of": Method(NamesOf, list[str]),
    "live_documents": Method(DocIds, dict[str, DocumentRecord]),
    "ids_of": Method(Names, dict[str, list[str]]),
    "passages_of_document": Method(OneDocument, list[PassageRecord]),
    "first_passages": Method(DocIds, dict[str, str]),
    "document_names": Method(OneDocument, DocumentNames),
    "linking_documents": Method(Linking, list[tuple[DocumentRecord, int]]),
    "titled": Method(Titled, list[list[int]]),
    "n_passages_with": Method(WithTerm, int),
    "passages_with": Method(SomeWithTerm, list[int]),
    "list_documents": Method(Listing, list[DocumentRecord]),
    "lexical_documents": Method(WordSearch, list[tuple[DocumentRecord, float]]),
    "spellings": Method(Spelt, list[Spelling]),
    "list_aliases": Method(AliasListing, list[AliasRecord]),
    "fields": Method(Nothing, dict[str, list[FieldType]]),
    "field_texts": Method(OneField, list[tuple[str, int]]),
    "name_counts": Method(Nothing, tuple[int, int]),
}
"""What is looked up, each the name of a method of `kbengine.search.live_records.LiveRecords`."""
