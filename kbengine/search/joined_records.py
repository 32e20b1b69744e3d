"""Documents, passages and names of all shards of a generation, as one knowledge base has them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kbengine.search.records import Records
from storage.alias_look_up import alias_order, joined_spellings, matches_of, prior_of
from storage.alias_records import AliasMatch, AliasRecord, AliasSource, DocumentNames, Spelling
from storage.errors import InvalidOptionError
from storage.field_rows import FieldType
from storage.reader import MAX_MATCHES
from storage.records import DocumentRecord, PassageRecord

V = TypeVar("V")

NO_LIMIT = 1 << 30


@dataclass(frozen=True)
class JoinedRecords:
    """The records of several shards, none of whose documents is another's.

    Attributes:
        parts: Those of each shard, by rising ids, without the documents that the generation has deleted
            (`LiveRecords`).
        generation: Which generation they are of.
    """

    parts: Sequence[Records]
    generation: int = 0

    def documents(self, document_ids: Collection[int]) -> dict[int, DocumentRecord]:
        """Return the documents by id; those that are not there are absent."""
        return self._joined(document_ids, lambda part, ids: part.documents(ids))

    def passages(self, passage_ids: Collection[int]) -> dict[int, PassageRecord]:
        """Return the passages by id; those that are not there are absent."""
        return self._joined(passage_ids, lambda part, ids: part.passages(ids))

    def passage_texts(self, passage_ids: Collection[int]) -> dict[int, str]:
        """Return the texts of passages by id."""
        return self._joined(passage_ids, lambda part, ids: part.passage_texts(ids))

    def titles(self, document_ids: Collection[int]) -> dict[int, str]:
        """Return the titles of documents by id."""
        return self._joined(document_ids, lambda part, ids: part.titles(ids))

    def aliases_of(self, document_id: int, *, limit: int) -> list[str]:
        """Return aliases of a document, those with the most uses first."""
        return next(filter(None, (part.aliases_of(document_id, limit=limit) for part in self.parts)), [])

    def live_documents(self, doc_ids: Sequence[str]) -> dict[str, DocumentRecord]:
        """Return the live documents among these ids of the user's."""
        found: dict[str, DocumentRecord] = {}
        for part in self.parts:
            found |= part.live_documents(doc_ids)
        return found

    def ids_of(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the `doc_id` of each live document that has the name as its id or, when it is none, as its title."""
        found: dict[str, list[str]] = {}
        for part in self.parts:
            for name, doc_ids in part.ids_of(names).items():
                found.setdefault(name, []).extend(doc_ids)
        return {name: sorted(dict.fromkeys(own), key=lambda each: each != name) for name, own in found.items()}

    def passages_of_document(self, document_id: int) -> list[PassageRecord]:
        """Return the document's passages in order."""
        return next(filter(None, (part.passages_of_document(document_id) for part in self.parts)), [])

    def first_passages(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the text of the first passage of each live document among these ids of the user's."""
        found: dict[str, str] = {}
        for part in self.parts:
            found |= part.first_passages(doc_ids)
        return found

    def known_names(self, names: Collection[str]) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter."""
        return frozenset(itertools.chain.from_iterable(part.known_names(names) for part in self.parts))

    def document_names(self, document_id: int) -> DocumentNames:
        """Return the aliases that a document was given, and its links."""
        found = (part.document_names(document_id) for part in self.parts)
        return next((each for each in found if each != DocumentNames()), DocumentNames())

    def linking_documents(self, doc_id: str, title: str, *, limit: int) -> list[tuple[DocumentRecord, int]]:
        """Return the documents that link to a document, and how often each does; those that do most first."""
        found = [each for part in self.parts for each in part.linking_documents(doc_id, title, limit=limit)]
        return sorted(found, key=lambda each: (-each[1], each[0].document_id))[:limit]

    def titled(self, names: Sequence[str], *, limit: int) -> list[list[int]]:
        """Return for each name the ids of the first documents that have it as title, qualifiers aside."""
        found = [part.titled(names, limit=limit) for part in self.parts]
        return [sorted(itertools.chain.from_iterable(own))[:limit] for own in zip(*found, strict=True)]

    def n_passages_with(self, term: str) -> int:
        """Return how many passages have a term (see `storage.terms`)."""
        return sum(part.n_passages_with(term) for part in self.parts)

    def passages_with(self, term: str, places: Sequence[int]) -> list[int]:
        """Return the ids of some of the passages that have a term, by their places in the order of ids.

        Parts are in the order of ids, and none of their ranges lies in another's.
        """
        found: list[int] = []
        first = 0
        for part in self.parts:
            n = part.n_passages_with(term)
            own = [place - first for place in places if first <= place < first + n]
            found += part.passages_with(term, own) if own else []
            first += n
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
        found = [
            each
            for part in self.parts
            for each in part.list_documents(after=after, limit=limit, title_prefix=title_prefix, where=where)
        ]
        return sorted(found, key=lambda each: each.doc_id.encode())[:limit]

    def lexical_documents(
        self, query: str, *, limit: int = 10, where: str | None = None
    ) -> list[tuple[DocumentRecord, float]]:
        """Return the live documents that have words of a text, best first, for people who look for one.

        Scores are those of each shard by itself, which counts the words of its own documents only: with many shards
        the order may differ a little from that of one knowledge base. Answers do not come from here.
        """
        found = [each for part in self.parts for each in part.lexical_documents(query, limit=limit, where=where)]
        return sorted(found, key=lambda each: (-each[1], each[0].document_id))[:limit]

    def spellings(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[Spelling]:
        """Return what is stored under each spelling of the names, whatever its case and accents."""
        return joined_spellings([part.spellings(names, limit=limit) for part in self.parts], limit=limit)

    def alias_matches(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[list[AliasMatch]]:
        """Return for each name the live documents of which it is another name, best first."""
        if limit < 1:
            raise InvalidOptionError(f"limit is {limit}; wanted at least 1")
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
        if doc_id is not None:
            parts = [part for part in self.parts if part.live_documents([doc_id])] or self.parts[:1]
        else:
            parts = list(self.parts)
        found = [
            each
            for part in parts
            for each in part.list_aliases(doc_id=doc_id, prefix=prefix, source=source, after=after, limit=limit)
        ]
        found.sort(key=lambda each: alias_order(each.cursor))
        found = found[:limit]
        # A prior is a share of the uses in all shards.
        names = list(dict.fromkeys(each.alias for each in found))
        known = {each.alias: each for each in self.spellings(names, limit=NO_LIMIT) if each.alias in set(names)}
        return [replace(each, prior=prior_of(known[each.alias], each.document_id)) for each in found]

    def fields(self) -> dict[str, list[FieldType]]:
        """Return the fields that filters can ask for, with their types."""
        found: dict[str, set[FieldType]] = {}
        for part in self.parts:
            for name, types in part.fields().items():
                found.setdefault(name, set()).update(types)
        return {name: sorted(found[name]) for name in sorted(found)}

    def field_texts(self, name: str) -> list[tuple[str, int]]:
        """Return the texts of a field, with the number of documents that have each."""
        found: dict[str, int] = {}
        for part in self.parts:
            for text, n in part.field_texts(name):
                found[text] = found.get(text, 0) + n
        return sorted(found.items())

    def name_counts(self) -> tuple[int, int]:
        """Return how many aliases live documents have, a name of a document counted once, and how many links."""
        counts = [part.name_counts() for part in self.parts]
        return sum(aliases for aliases, _ in counts), sum(links for _, links in counts)

    def _joined(self, ids: Collection[int], ask: Callable[[Records, Collection[int]], Mapping[int, V]]) -> dict[int, V]:
        """Return what all shards together know of some ids."""
        found: dict[int, V] = {}
        rest = {int(each) for each in ids}
        for part in self.parts:
            if not rest:
                break
            found |= ask(part, rest)
            rest -= found.keys()
        return found
