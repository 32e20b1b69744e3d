"""What is looked up beside a search: documents, passages and names, in one knowledge base or in all shards of one.

`storage.reader.KBReader` has all of this. Ids are those of the generation, so nobody needs to know which shard holds
what.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from storage.alias_records import AliasMatch, AliasRecord, AliasSource, DocumentNames, Spelling
from storage.field_rows import FieldType
from storage.reader import MAX_MATCHES
from storage.records import DocumentRecord, PassageRecord


class Records(Protocol):
    """Documents, passages and names by id and by name; each method is that of `KBReader`."""

    @property
    def generation(self) -> int:
        """Which generation is looked into."""
        ...

    def documents(self, document_ids: Collection[int]) -> dict[int, DocumentRecord]:
        """Return the documents by id; those that are not there are absent."""
        ...

    def passages(self, passage_ids: Collection[int]) -> dict[int, PassageRecord]:
        """Return the passages by id; those that are not there are absent."""
        ...

    def passage_texts(self, passage_ids: Collection[int]) -> dict[int, str]:
        """Return the texts of passages by id."""
        ...

    def titles(self, document_ids: Collection[int]) -> dict[int, str]:
        """Return the titles of documents by id."""
        ...

    def aliases_of(self, document_id: int, *, limit: int) -> list[str]:
        """Return aliases of a document, those with the most uses first."""
        ...

    def live_documents(self, doc_ids: Sequence[str]) -> dict[str, DocumentRecord]:
        """Return the live documents among these ids of the user's."""
        ...

    def ids_of(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the `doc_id` of each live document that has the name as its id or, when it is none, as its title."""
        ...

    def passages_of_document(self, document_id: int) -> list[PassageRecord]:
        """Return the document's passages in order."""
        ...

    def first_passages(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the text of the first passage of each live document among these ids of the user's."""
        ...

    def known_names(self, names: Collection[str]) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter."""
        ...

    def document_names(self, document_id: int) -> DocumentNames:
        """Return the aliases that a document was given, and its links."""
        ...

    def linking_documents(self, doc_id: str, title: str, *, limit: int) -> list[tuple[DocumentRecord, int]]:
        """Return the documents that link to a document, and how often each does; those that do most first."""
        ...

    def titled(self, names: Sequence[str], *, limit: int) -> list[list[int]]:
        """Return for each name the ids of the first documents that have it as title, qualifiers aside."""
        ...

    def n_passages_with(self, term: str) -> int:
        """Return how many passages have a term (see `storage.terms`)."""
        ...

    def passages_with(self, term: str, places: Sequence[int]) -> list[int]:
        """Return the ids of some of the passages that have a term, by their places in the order of ids."""
        ...

    def list_documents(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        title_prefix: str | None = None,
        where: str | None = None,
    ) -> list[DocumentRecord]:
        """Return the live documents, ordered by `doc_id`."""
        ...

    def lexical_documents(
        self, query: str, *, limit: int = 10, where: str | None = None
    ) -> list[tuple[DocumentRecord, float]]:
        """Return the live documents that have words of a text, best first, for people who look for one."""
        ...

    def spellings(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[Spelling]:
        """Return what is stored under each spelling of the names, whatever its case and accents."""
        ...

    def alias_matches(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[list[AliasMatch]]:
        """Return for each name the live documents of which it is another name, best first."""
        ...

    def list_aliases(
        self,
        *,
        doc_id: str | None = None,
        prefix: str | None = None,
        source: AliasSource | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[AliasRecord]:
        """Return the aliases of live documents, ordered by name."""
        ...

    def fields(self) -> dict[str, list[FieldType]]:
        """Return the fields that filters can ask for, with their types."""
        ...

    def field_texts(self, name: str) -> list[tuple[str, int]]:
        """Return the texts of a field, with the number of documents that have each."""
        ...

    def name_counts(self) -> tuple[int, int]:
        """Return how many aliases live documents have, a name of a document counted once, and how many links."""
        ...
