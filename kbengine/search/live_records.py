"""The records of one shard in one generation: without the documents that were deleted or replaced since it was made."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from storage.alias_look_up import alias_order, matches_of, prior_of
from storage.alias_records import AliasMatch, AliasRecord, AliasSource, DocumentNames, Spelling
from storage.errors import UnknownDocumentError
from storage.field_rows import FieldType
from storage.folding import accent_key
from storage.overlaid_names import OverlaidNames
from storage.reader import MAX_MATCHES, KBReader
from storage.records import DocumentRecord, PassageRecord
from storage.snapshot import Snapshot
from storage.term_look_up import passages_with, titled

_PAGE = 200
_NO_LIMIT = 1 << 30


class LiveRecords:
    """A shard's documents, passages and names, those of tombstones left out and changed names put in.

    Attributes:
        reader: Of the shard's directory.
        tombstones: Ids of documents that the generation has deleted or replaced.
        names: Names that documents were given or lost since the shard was made.
    """

    def __init__(self, reader: KBReader, tombstones: Collection[int] = (), names: OverlaidNames | None = None) -> None:
        self.reader = reader
        self.tombstones = frozenset(map(int, tombstones))
        self.names = names or OverlaidNames()

    @property
    def generation(self) -> int:
        """The shard's own newest commit, whichever generations it is part of."""
        return self.reader.generation

    def documents(self, document_ids: Collection[int]) -> dict[int, DocumentRecord]:
        """Return the documents by id; those that are not there are absent."""
        return self.reader.documents(self._live(document_ids))

    def passages(self, passage_ids: Collection[int]) -> dict[int, PassageRecord]:
        """Return the passages by id; those that are not there are absent."""
        return self.reader.passages(passage_ids)

    def passage_texts(self, passage_ids: Collection[int]) -> dict[int, str]:
        """Return the texts of passages by id."""
        return self.reader.passage_texts(passage_ids)

    def passages_with_documents(
        self, passage_ids: Collection[int]
    ) -> tuple[dict[int, PassageRecord], dict[int, DocumentRecord]]:
        """Return the passages by id and their documents by id; forgotten ids are absent."""
        return self.reader.passages_with_documents(passage_ids)

    def titles(self, document_ids: Collection[int]) -> dict[int, str]:
        """Return the titles of documents by id."""
        return self.reader.titles(self._live(document_ids))

    def aliases_of(self, document_id: int, *, limit: int) -> list[str]:
        """Return aliases of a document, those with the most uses first."""
        if document_id in self.tombstones:
            return []
        if not self.names.touches(document_id):
            return self.reader.aliases_of(document_id, limit=limit)
        return self.names.aliases_of(document_id, self.reader.alias_uses(document_id))[:limit]

    def live_documents(self, doc_ids: Sequence[str]) -> dict[str, DocumentRecord]:
        """Return the live documents among these ids of the user's."""
        found = self.reader.live_documents(doc_ids)
        return {doc_id: each for doc_id, each in found.items() if each.document_id not in self.tombstones}

    def ids_of(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the `doc_id` of each live document that has the name as its id or, when it is none, as its title."""
        found = self.reader.ids_of(names)
        live = self.live_documents([doc_id for own in found.values() for doc_id in own])
        kept = {name: [doc_id for doc_id in own if doc_id in live] for name, own in found.items()}
        return {name: own for name, own in kept.items() if own}

    def passages_of_document(self, document_id: int) -> list[PassageRecord]:
        """Return the document's passages in order."""
        return [] if document_id in self.tombstones else self.reader.passages_of_document(document_id)

    def first_passages(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the text of the first passage of each live document among these ids of the user's."""
        return self.reader.first_passages(list(self.live_documents(doc_ids)))

    def known_names(self, names: Collection[str]) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter."""
        changed = {name for name in names if self.names.changes(name)}
        known = self.reader.known_names([name for name in names if name not in changed], without=self.tombstones)
        if not changed:
            return known
        asked = sorted(changed)
        matches = zip(asked, self.alias_matches(asked), strict=True)
        aliased = {name for name, found in matches if any(each.form == "exact" for each in found)}
        return known | aliased | self.reader.known_titles(asked, without=self.tombstones)

    def document_names(self, document_id: int) -> DocumentNames:
        """Return the aliases that a document was given when it was added, and its links."""
        return DocumentNames() if document_id in self.tombstones else self.reader.document_names(document_id)

    def linking_documents(self, doc_id: str, title: str, *, limit: int) -> list[tuple[DocumentRecord, int]]:
        """Return the documents that link to a document, and how often each does; those that do most first."""
        found = self.reader.linking_documents(doc_id, title, limit=limit + len(self.tombstones))
        return [each for each in found if each[0].document_id not in self.tombstones][:limit]

    def titled(self, names: Sequence[str], *, limit: int) -> list[list[int]]:
        """Return for each name the ids of the first documents that have it as title, qualifiers aside."""
        return titled(self._snapshot, names, limit=limit)

    def n_passages_with(self, term: str) -> int:
        """Return how many passages have a term (see `storage.terms`)."""
        return len(self._snapshot.passages_with_term(term))

    def passages_with(self, term: str, places: Sequence[int]) -> list[int]:
        """Return the ids of some of the passages that have a term, by their places in the order of ids."""
        return passages_with(self._snapshot, term, places)

    @cached_property
    def _snapshot(self) -> Snapshot:
        snapshot = self.reader.snapshot()
        if not self.tombstones:
            return snapshot
        return snapshot.without(np.array(sorted(self.tombstones), dtype=np.int64))

    def list_documents(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        title_prefix: str | None = None,
        where: str | None = None,
    ) -> list[DocumentRecord]:
        """Return the live documents, ordered by `doc_id`."""
        found: list[DocumentRecord] = []
        n = max(limit, _PAGE) if self.tombstones else limit
        while len(found) < limit:
            page = self.reader.list_documents(after=after, limit=n, title_prefix=title_prefix, where=where)
            found += [each for each in page if each.document_id not in self.tombstones]
            if len(page) < n:
                break
            after = page[-1].doc_id
        return found[:limit]

    def lexical_documents(
        self, query: str, *, limit: int = 10, where: str | None = None
    ) -> list[tuple[DocumentRecord, float]]:
        """Return the live documents that have words of a text, best first, for people who look for one."""
        found = self.reader.lexical_documents(query, limit=limit + len(self.tombstones), where=where)
        return [each for each in found if each[0].document_id not in self.tombstones][:limit]

    def spellings(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[Spelling]:
        """Return what is stored under each spelling of the names, whatever its case and accents."""
        changed = [name for name in names if self.names.changes(name)]
        rest = [name for name in names if not self.names.changes(name)]
        found = self.reader.spellings(rest, limit=limit, without=self.tombstones)
        if changed:
            stored = self.reader.spellings(changed, limit=_NO_LIMIT, without=self.tombstones)
            found += self.names.over(stored, changed, limit=limit)
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
        if doc_id is not None and not self.live_documents([doc_id]):
            raise UnknownDocumentError(f"no live document {doc_id!r} in {self.reader.path}; check the id")
        n = limit + len(self.tombstones) + len(self.names)
        stored = self.reader.list_aliases(doc_id=doc_id, prefix=prefix, source=source, after=after, limit=n)
        listed = [
            each
            for each in stored
            if each.document_id not in self.tombstones
            and not self.names.has_lost(each.document_id, each.alias, each.source)
        ]
        if len(self.names):
            kept = {(each.document_id, each.alias, each.source): each for each in listed}
            for record in self._given():
                wanted = doc_id in (None, record.doc_id) and source in (None, record.source)
                begins = prefix is None or accent_key(record.alias).startswith(accent_key(prefix))
                if wanted and begins and (after is None or alias_order(record.cursor) > alias_order(after)):
                    kept[record.document_id, record.alias, record.source] = record
            listed = sorted(kept.values(), key=lambda each: alias_order(each.cursor))
            names = list(dict.fromkeys(each.alias for each in listed))
            known = {each.alias: each for each in self.spellings(names, limit=_NO_LIMIT)}
            listed = [replace(each, prior=prior_of(known[each.alias], each.document_id)) for each in listed]
        return listed[:limit]

    def fields(self) -> dict[str, list[FieldType]]:
        """Return the fields that filters can ask for, with their types; those of tombstones among them."""
        return self.reader.fields()

    def field_texts(self, name: str) -> list[tuple[str, int]]:
        """Return the texts of a field, with the number of documents that have each; tombstones are counted."""
        return self.reader.field_texts(name)

    def name_counts(self) -> tuple[int, int]:
        """Return how many aliases live documents have, a name of a document counted once, and how many links."""
        aliases, links = self.reader.name_counts(self.tombstones)
        for document_id in self.names.documents - self.tombstones:
            stored = self.reader.aliases_of(document_id, limit=_NO_LIMIT)
            aliases += len(self.aliases_of(document_id, limit=_NO_LIMIT)) - len(stored)
        return aliases, links

    def _live(self, document_ids: Collection[int]) -> list[int]:
        return [int(each) for each in document_ids if int(each) not in self.tombstones]

    def _given(self) -> list[AliasRecord]:
        """Return the names that were given to live documents of the shard; their priors are not known yet."""
        documents = self.documents({each.document_id for each in self.names.given})
        return [
            AliasRecord(
                each.document_id,
                documents[each.document_id].doc_id,
                documents[each.document_id].title,
                each.alias,
                each.source,
                each.uses,
                1.0,
                each.prior,
            )
            for each in self.names.given
            if each.document_id in documents
        ]
