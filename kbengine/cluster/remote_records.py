"""The records of a shard that is elsewhere: documents, passages and names by calls to its replicas."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from kbengine.cluster import record_calls as calls
from kbengine.cluster.remote_shard import RemoteShard
from storage.alias_look_up import matches_of
from storage.alias_records import AliasMatch, AliasRecord, AliasSource, DocumentNames, Spelling
from storage.field_rows import FieldType
from storage.reader import MAX_MATCHES
from storage.records import DocumentRecord, PassageRecord


class RemoteRecords:
    """The records of one shard: `kbengine.search.records.Records`.

    Args:
        shard: it is asked of its replicas.
        ids: the range of ids that its documents are in: nobody is asked for others.
    """

    def __init__(self, shard: RemoteShard, ids: range) -> None:
        self._shard = shard
        self._ids = ids

    @property
    def generation(self) -> int:
        """The generation that all of this is of."""
        return self._shard.place.generation

    def documents(self, document_ids: Collection[int]) -> dict[int, DocumentRecord]:
        """Return the documents by id; those that are not there are absent."""
        own = self._own(document_ids)
        found: dict[int, DocumentRecord] = self._ask("documents", calls.DocumentIds(own)) if own else {}
        return found

    def passages(self, passage_ids: Collection[int]) -> dict[int, PassageRecord]:
        """Return the passages by id; those that are not there are absent."""
        found: dict[int, PassageRecord] = self._ask("passages", calls.PassageIds(tuple(map(int, passage_ids))))
        return found

    def passage_texts(self, passage_ids: Collection[int]) -> dict[int, str]:
        """Return the texts of passages by id."""
        found: dict[int, str] = self._ask("passage_texts", calls.PassageIds(tuple(map(int, passage_ids))))
        return found

    def titles(self, document_ids: Collection[int]) -> dict[int, str]:
        """Return the titles of documents by id."""
        own = self._own(document_ids)
        found: dict[int, str] = self._ask("titles", calls.DocumentIds(own)) if own else {}
        return found

    def aliases_of(self, document_id: int, *, limit: int) -> list[str]:
        """Return aliases of a document, those with the most uses first."""
        if document_id not in self._ids:
            return []
        found: list[str] = self._ask("aliases_of", calls.NamesOf(document_id, limit))
        return found

    def live_documents(self, doc_ids: Sequence[str]) -> dict[str, DocumentRecord]:
        """Return the live documents among these ids of the user's."""
        found: dict[str, DocumentRecord] = self._ask("live_documents", calls.DocIds(tuple(doc_ids)))
        return found

    def ids_of(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the `doc_id` of each live document that has the name as its id or, when it is none, as its title."""
        found: dict[str, list[str]] = self._ask("ids_of", calls.Names(tuple(names)))
        return found

    def passages_of_document(self, document_id: int) -> list[PassageRecord]:
        """Return the document's passages in order."""
        if document_id not in self._ids:
            return []
        found: list[PassageRecord] = self._ask("passages_of_document", calls.OneDocument(document_id))
        return found

    def first_passages(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the text of the first passage of each live document among these ids of the user's."""
        found: dict[str, str] = self._ask("first_passages", calls.DocIds(tuple(doc_ids)))
        return found

    def known_names(self, names: Collection[str]) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter."""
        return frozenset(self._shard.known_names(tuple(names)))

    def document_names(self, document_id: int) -> DocumentNames:
        """Return the aliases that a document was given, and its links."""
        if document_id not in self._ids:
            return DocumentNames()
        found: DocumentNames = self._ask("document_names", calls.OneDocument(document_id))
        return found

    def linking_documents(self, doc_id: str, title: str, *, limit: int) -> list[tuple[DocumentRecord, int]]:
        """Return the documents that link to a document, and how often each does; those that do most first."""
        found: list[tuple[DocumentRecord, int]]
        found = self._ask("linking_documents", calls.Linking(doc_id, title, limit))
        return found

    def titled(self, names: Sequence[str], *, limit: int) -> list[list[int]]:
        """Return for each name the ids of the first live documents that have it as their title."""
        found: list[list[int]] = self._ask("titled", calls.Titled(tuple(names), limit))
        return found

    def n_passages_with(self, term: str) -> int:
        """Return how many passages have a term."""
        found: int = self._ask("n_passages_with", calls.WithTerm(term))
        return found

    def passages_with(self, term: str, places: Sequence[int]) -> list[int]:
        """Return the ids of the passages at these places among those that have a term."""
        found: list[int] = self._ask("passages_with", calls.SomeWithTerm(term, tuple(map(int, places))))
        return found

    def list_documents(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        title_prefix: str | None = None,
        where: str | None = None,
    ) -> list[DocumentRecord]:
        """Return the live documents, ordered by `doc_id`."""
        found: list[DocumentRecord] = self._ask("list_documents", calls.Listing(after, limit, title_prefix, where))
        return found

    def lexical_documents(
        self, query: str, *, limit: int = 10, where: str | None = None
    ) -> list[tuple[DocumentRecord, float]]:
        """Return the live documents that have words of a text, best first, for people who look for one."""
        found: list[tuple[DocumentRecord, float]]
        found = self._ask("lexical_documents", calls.WordSearch(query, limit, where))
        return found

    def spellings(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[Spelling]:
        """Return what is stored under each spelling of the names, whatever its case and accents."""
        found: list[Spelling] = self._ask("spellings", calls.Spelt(tuple(names), limit))
        return found

    def alias_matches(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[list[AliasMatch]]:
        """Return for each name the live documents of which it is another name, best first."""
        return matches_of(names, self.spellings(names, limit=limit))

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
        asked = calls.AliasListing(doc_id, prefix, source, after, limit)
        found: list[AliasRecord] = self._ask("list_aliases", asked)
        return found

    def fields(self) -> dict[str, list[FieldType]]:
        """Return the fields that filters can ask for, with their types."""
        found: dict[str, list[FieldType]] = self._ask("fields", calls.Nothing())
        return found

    def field_texts(self, name: str) -> list[tuple[str, int]]:
        """Return the texts of a field, with the number of documents that have each."""
        found: list[tuple[str, int]] = self._ask("field_texts", calls.OneField(name))
        return found

    def name_counts(self) -> tuple[int, int]:
        """Return how many aliases live documents have, a name of a document counted once, and how many links."""
        found: tuple[int, int] = self._ask("name_counts", calls.Nothing())
        return found

    def _ask(self, name: str, request: object) -> Any:
        return self._shard.ask(name, calls.RECORDS[name], request)

    def _own(self, document_ids: Collection[int]) -> tuple[int, ...]:
        return tuple(int(each) for each in document_ids if int(each) in self._ids)
