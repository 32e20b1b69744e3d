"""Documents and passages as they are stored: by id, in lists, one after another.

Each call is one read transaction of its own and sees the newest commit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, func, select, text

from storage import schema
from storage.alias_records import AliasUse, DocumentNames
from storage.alias_rows import alias_table_exists, name_counts, name_counts_of
from storage.catalog import document_record, live_document_rows, live_ids_of, op_ids_beginning, passage_record
from storage.database import translated
from storage.document_listing import DocumentPage, FieldChoice, field_choices, page_of_documents
from storage.errors import InvalidOptionError, UnknownDocumentError
from storage.field_rows import FieldType, field_texts, known_fields
from storage.information import KBInfo, gather_info
from storage.known_names import known_names, known_titles
from storage.links import linking_documents, names_of_documents
from storage.records import DocumentRecord, PassageRecord
from storage.where_sql import matching_documents, where_clause

_WORD = re.compile(r"\w+")
_MAX_QUERY_WORDS = 64
_STREAM_ROWS = 500


class RecordReader:
    """Read documents, passages and names from a knowledge base's database; `KBReader` adds snapshots.

    Attributes:
        path: The knowledge base's directory.
    """

    def __init__(self, directory: Path, engine: Engine) -> None:
        """Use `KBReader.open`."""
        self.path = directory
        self._engine = engine

    def documents(self, document_ids: Collection[int] | NDArray[np.int64]) -> dict[int, DocumentRecord]:
        """Return the documents by id. Ids that a compaction forgot are absent; deleted ones are there until then."""
        table = schema.documents
        with translated(self.path), self._engine.connect() as connection:
            rows = connection.exec_driver_sql(_BY_ID[table.name], (_json_list(document_ids),)).mappings()
            return {row["document_id"]: document_record(row) for row in rows}

    def passages(self, passage_ids: Collection[int] | NDArray[np.int64]) -> dict[int, PassageRecord]:
        """Return the passages by id. Ids that a compaction forgot are absent; search a newer snapshot then."""
        table = schema.passages
        with translated(self.path), self._engine.connect() as connection:
            rows = connection.exec_driver_sql(_BY_ID[table.name], (_json_list(passage_ids),)).mappings()
            return {row["passage_id"]: passage_record(row) for row in rows}

    def passage_texts(self, passage_ids: Collection[int] | NDArray[np.int64]) -> dict[int, str]:
        """Return the texts of passages by id, for looking into many: unlike records they are not checked."""
        statement = "SELECT passage_id, text FROM passages WHERE passage_id IN (SELECT value FROM json_each(?))"
        with translated(self.path), self._engine.connect() as connection:
            return dict(tuple(row) for row in connection.exec_driver_sql(statement, (_json_list(passage_ids),)))

    def aliases_of(self, document_id: int, *, limit: int) -> list[str]:
        """Return aliases of a document, at most `limit`, those with the most uses first; unlike records not checked."""
        statement = (
            "SELECT alias FROM aliases WHERE document_id = ? GROUP BY alias ORDER BY max(uses) DESC, alias LIMIT ?"
        )
        with translated(self.path), self._engine.connect() as connection:
            if not alias_table_exists(connection):
                return []
            return [row[0] for row in connection.exec_driver_sql(statement, (document_id, limit))]

    def alias_uses(self, document_id: int) -> list[tuple[str, AliasUse]]:
        """Return the aliases of a document, each with its row; unlike records not checked."""
        statement = "SELECT alias, document_id, source, uses, prior FROM aliases WHERE document_id = ?"
        with translated(self.path), self._engine.connect() as connection:
            if not alias_table_exists(connection):
                return []
            return [(row[0], AliasUse(*row[1:])) for row in connection.exec_driver_sql(statement, (document_id,))]

    def titles(self, document_ids: Collection[int] | NDArray[np.int64]) -> dict[int, str]:
        """Return the titles of documents by id, for looking at many: unlike records they are not checked."""
        statement = "SELECT document_id, title FROM documents WHERE document_id IN (SELECT value FROM json_each(?))"
        with translated(self.path), self._engine.connect() as connection:
            return dict(tuple(row) for row in connection.exec_driver_sql(statement, (_json_list(document_ids),)))

    def passages_with_documents(
        self, passage_ids: Collection[int] | NDArray[np.int64]
    ) -> tuple[dict[int, PassageRecord], dict[int, DocumentRecord]]:
        """Return the passages by id and their documents by id, in one read transaction; forgotten ids are absent."""
        with translated(self.path), self._engine.connect() as connection:
            passages = {row["passage_id"]: passage_record(row) for row in _rows(connection, "passages", passage_ids)}
            wanted = {passage.document_id for passage in passages.values()}
            rows = _rows(connection, "documents", wanted)
            return passages, {row["document_id"]: document_record(row) for row in rows}

    def document(self, doc_id: str) -> DocumentRecord:
        """Return the live document with the user's id; UnknownDocumentError when there is none."""
        table = schema.documents
        with translated(self.path), self._engine.connect() as connection:
            statement = select(table).where(table.c.doc_id == doc_id, table.c.dead_generation.is_(None))
            row = connection.execute(statement).mappings().first()
        if row is None:
            raise UnknownDocumentError(
                f"no live document {doc_id!r} in {self.path}; 'kbengine inspect live_documents' lists the ids"
            )
        return document_record(row)

    def live_documents(self, doc_ids: Sequence[str]) -> dict[str, DocumentRecord]:
        """Return the live documents among these ids of the user's, by id; those that are not there are absent."""
        with translated(self.path), self._engine.connect() as connection:
            return {row["doc_id"]: document_record(row) for row in live_document_rows(connection, doc_ids)}

    def ids_of(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Return the `doc_id` of each live document that has the name as its id or, when it is none, as its title."""
        with translated(self.path), self._engine.connect() as connection:
            return live_ids_of(connection, names)

    def passages_of_document(self, document_id: int) -> list[PassageRecord]:
        """Return the document's passages in the order in which they were given."""
        table = schema.passages
        with translated(self.path), self._engine.connect() as connection:
            statement = select(table).where(table.c.document_id == document_id).order_by(table.c.passage_id)
            return [passage_record(row) for row in connection.execute(statement).mappings()]

    def first_passages(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the text of the first passage of each live document among these ids of the user's."""
        table = schema.passages
        with translated(self.path), self._engine.connect() as connection:
            of_document = {row["document_id"]: row["doc_id"] for row in live_document_rows(connection, doc_ids)}
            first = select(func.min(table.c.passage_id)).where(table.c.document_id.in_(of_document))
            statement = select(table).where(table.c.passage_id.in_(first.group_by(table.c.document_id)))
            found = [passage_record(row) for row in connection.execute(statement).mappings()]
        return {of_document[passage.document_id]: passage.text for passage in found}

    def known_names(self, names: Collection[str], *, without: Collection[int] = ()) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter.

        Args:
            names: The names.
            without: Ids of documents whose names do not count.
        """
        with translated(self.path), self._engine.connect() as connection:
            return known_names(connection, names, without=without)

    def known_titles(self, names: Collection[str], *, without: Collection[int] = ()) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside; arguments as of `known_names`."""
        with translated(self.path), self._engine.connect() as connection:
            return known_titles(connection, names, without=without)

    def document_names(self, document_id: int) -> DocumentNames:
        """Return the aliases that a document was given, and its links, as they can be given again."""
        with translated(self.path), self._engine.connect() as connection:
            return names_of_documents(connection, [document_id]).get(document_id, DocumentNames())

    def name_counts(self, without: Collection[int] = ()) -> tuple[int, int]:
        """Return how many aliases and links there are, those of some documents left out."""
        with translated(self.path), self._engine.connect() as connection:
            aliases, links = name_counts(connection)
            left_out = name_counts_of(connection, list(without))
            return aliases - left_out[0], links - left_out[1]

    def linking_documents(self, doc_id: str, title: str, *, limit: int) -> list[tuple[DocumentRecord, int]]:
        """Return the documents that link to a document, and how often each does; those that do most first.

        Args:
            doc_id: the user's id of the document that the links lead to.
            title: its title, which links may name it by.
            limit: how many at most.
        """
        with translated(self.path), self._engine.connect() as connection:
            if not alias_table_exists(connection):
                return []
            found = linking_documents(connection, doc_id, title, limit=limit)
            rows = connection.exec_driver_sql(
                _BY_ID["documents"], (_json_list([document_id for document_id, _ in found]),)
            ).mappings()
            records = {row["document_id"]: document_record(row) for row in rows}
        return [(records[document_id], n) for document_id, n in found if document_id in records]

    def list_documents(
        self,
        *,
        after: str | None = None,
        limit: int = 100,
        title_prefix: str | None = None,
        where: str | None = None,
    ) -> list[DocumentRecord]:
        """Return the live documents, ordered by `doc_id`.

        Args:
            after: Only documents whose `doc_id` comes after this one: the last of the page before.
            limit: How many at most.
            title_prefix: Only titles that begin so, ASCII letters in either case.
            where: Only documents that pass this filter; errors as in `KBReader.snapshot`.
        """
        if limit < 1:
            raise InvalidOptionError(f"limit is {limit}; wanted at least 1")
        table = schema.documents
        statement = select(table).where(table.c.dead_generation.is_(None)).order_by(table.c.doc_id).limit(limit)
        if after is not None:
            statement = statement.where(table.c.doc_id > after)
        if title_prefix:
            statement = statement.where(
                text("title COLLATE NOCASE >= :low AND title COLLATE NOCASE < :high").bindparams(
                    low=title_prefix, high=title_prefix + chr(0x10FFFF)
                )
            )
        with translated(self.path), self._engine.connect() as connection:
            if where is not None:
                statement = statement.where(where_clause(connection, where))
            return [document_record(row) for row in connection.execute(statement).mappings()]

    def page_of_documents(
        self,
        *,
        sort: str = "id",
        where: str | None = None,
        among: Sequence[int] | None = None,
        offset: int = 0,
        limit: int = 100,
    ) -> DocumentPage:
        """Return some live documents of a sorted listing, and how many it has (`storage.document_listing`)."""
        with translated(self.path), self._engine.connect() as connection:
            return page_of_documents(connection, sort=sort, where=where, among=among, offset=offset, limit=limit)

    def field_choices(self) -> list[FieldChoice]:
        """Return what documents can be narrowed or sorted by: their fields, with the values where these are few."""
        with translated(self.path), self._engine.connect() as connection:
            return field_choices(connection)

    def lexical_documents(
        self, query: str, *, limit: int = 10, where: str | None = None
    ) -> list[tuple[DocumentRecord, float]]:
        """Return the live documents whose passages match any word of the query, best first, with their scores (BM25).

        For people who look for a document; `Snapshot.lexical_scores` is what search uses.

        Args:
            query: The words.
            limit: How many at most.
            where: Only documents that pass this filter; errors as in `KBReader.snapshot`.
        """
        if limit < 1:
            raise InvalidOptionError(f"limit is {limit}; wanted at least 1")
        words = list(dict.fromkeys(_WORD.findall(query)))[:_MAX_QUERY_WORDS]
        if not words:
            return []
        # Quoted, each word is a plain string to FTS5, whatever operators it spells.
        match = " OR ".join(f'"{word}"' for word in words)
        # The plus keeps SQLite from asking the index of words once for every passage that passes.
        passing = (
            "AND +rowid IN (SELECT passage_id FROM passages "
            "WHERE document_id IN (SELECT value FROM json_each(:passing))) "
        )
        statement = text(
            f"SELECT p.document_id, -f.rank AS score FROM (SELECT rowid, rank FROM {schema.FTS_TABLE} "
            f"WHERE {schema.FTS_TABLE} MATCH :match {passing if where is not None else ''}"
            "ORDER BY rank LIMIT :fetch) AS f JOIN passages AS p ON p.passage_id = f.rowid ORDER BY f.rank, f.rowid"
        )
        with translated(self.path), self._engine.connect() as connection:
            values: dict[str, str | int] = {"match": match, "fetch": limit * 20}
            if where is not None:
                values["passing"] = _json_list(matching_documents(connection, where))
            best: dict[int, float] = {}
            for row in connection.execute(statement, values):
                best.setdefault(row.document_id, float(row.score))
            chosen = list(best.items())[:limit]
            rows = connection.exec_driver_sql(
                _BY_ID["documents"], (_json_list([document_id for document_id, _ in chosen]),)
            ).mappings()
            found = {row["document_id"]: document_record(row) for row in rows}
        return [(found[document_id], score) for document_id, score in chosen if document_id in found]

    def iterate_records(self) -> Iterator[DocumentRecord]:
        """Yield the live documents of one generation without passages, in order of adding, a few at a time."""
        table = schema.documents
        statement = select(table).where(table.c.dead_generation.is_(None)).order_by(table.c.document_id)
        with translated(self.path), self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=_STREAM_ROWS).execute(statement).mappings()
            yield from (document_record(row) for row in rows)

    def iterate_documents(self) -> Iterator[tuple[DocumentRecord, list[PassageRecord]]]:
        """Yield the live documents of one generation with their passages, in order of adding, a few at a time."""
        for document, passages, _ in self.iterate_with_names(names=False):
            yield document, passages

    def iterate_with_names(
        self, *, names: bool = True
    ) -> Iterator[tuple[DocumentRecord, list[PassageRecord], DocumentNames]]:
        """Yield the same with each document's given aliases and its links, which stay empty without `names`."""
        documents, passages = schema.documents, schema.passages
        with translated(self.path), self._engine.connect() as connection:
            live = documents.c.dead_generation.is_(None)
            names = names and alias_table_exists(connection)
            document_rows = connection.execution_options(yield_per=_STREAM_ROWS).execute(
                select(documents).where(live).order_by(documents.c.document_id)
            )
            for partition in document_rows.mappings().partitions(_STREAM_ROWS):
                chunk = [document_record(row) for row in partition]
                rows = connection.execute(
                    select(passages)
                    .where(passages.c.document_id.in_([document.document_id for document in chunk]))
                    .order_by(passages.c.passage_id)
                ).mappings()
                by_document: dict[int, list[PassageRecord]] = {document.document_id: [] for document in chunk}
                for row in rows:
                    by_document[row["document_id"]].append(passage_record(row))
                given = names_of_documents(connection, list(by_document)) if names else {}
                for document in chunk:
                    yield document, by_document[document.document_id], given.get(document.document_id, DocumentNames())

    def op_ids(self, prefix: str) -> list[str]:
        """Return the names of the committed operations that begin so."""
        with translated(self.path), self._engine.connect() as connection:
            return op_ids_beginning(connection, prefix)

    def fields(self) -> dict[str, list[FieldType]]:
        """Return the names of the fields that live documents have, sorted, with the types of their values."""
        with translated(self.path), self._engine.connect() as connection:
            return known_fields(connection)

    def field_texts(self, name: str) -> list[tuple[str, int]]:
        """Return the texts that live documents have in a field, sorted, each with how many have it."""
        with translated(self.path), self._engine.connect() as connection:
            return field_texts(connection, name)

    def info(self) -> KBInfo:
        """Return what the knowledge base holds and how large it is; reads all counts, so not for each query."""
        with translated(self.path), self._engine.connect() as connection:
            return gather_info(connection, self.path)


_BY_ID = {
    table.name: f"SELECT {', '.join(column.name for column in table.columns)} FROM {table.name} "
    f"WHERE {key} IN (SELECT value FROM json_each(?))"
    for table, key in ((schema.documents, "document_id"), (schema.passages, "passage_id"))
}


def _rows(connection: Connection, table: str, ids: Collection[int] | NDArray[np.int64]) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a table with these ids, as plain mappings: they are made for each query."""
    found = connection.exec_driver_sql(_BY_ID[table], (_json_list(ids),))
    names = tuple(found.keys())
    return (dict(zip(names, row, strict=True)) for row in found.fetchall())


def _json_list(ids: Collection[int] | NDArray[np.int64]) -> str:
    # One parameter however many ids, so SQLite keeps one compiled statement.
    return "[" + ",".join(str(int(value)) for value in ids) + "]"
