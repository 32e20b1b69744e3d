"""The rows that say what the knowledge base consists of: generations, segments, tombstones.

Functions on an open connection, inside the caller's transaction; used by writer, reader and verify alike.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from storage import schema
from storage.checksum import check_row, sealed
from storage.errors import CorruptError
from storage.records import Commit, DocumentRecord, PassageRecord
from storage.segment import SegmentFile

__all__ = [
    "Generation",
    "SegmentRow",
    "chunked",
    "commit_of",
    "commit_row",
    "dead_document_ids",
    "document_record",
    "forget_dead",
    "insert_generation",
    "insert_segment",
    "live_document_rows",
    "live_ids_of",
    "live_segments",
    "newest_generation",
    "newest_generation_number",
    "passage_record",
    "retire_documents",
    "retire_segments",
]

_IN_CHUNK = 5_000
_T = TypeVar("_T")


@dataclass(frozen=True)
class Generation:
    """A commit: its number and the ids that the one after it will allot."""

    number: int
    next_document_id: int
    next_passage_id: int
    next_token_id: int


@dataclass(frozen=True)
class SegmentRow:
    """A live segment: its file and the half-open range of passage ids that it covers."""

    file: SegmentFile
    first_passage_id: int
    end_passage_id: int
    born_generation: int = 0


def chunked(values: Iterable[_T], size: int = _IN_CHUNK) -> Iterator[tuple[_T, ...]]:
    """Yield the values in tuples of at most `size`: an SQL statement takes a limited number of parameters."""
    iterator = iter(values)
    while chunk := tuple(itertools.islice(iterator, size)):
        yield chunk


def newest_generation_number(connection: Connection) -> int:
    """Return the number of the newest commit."""
    number = connection.execute(select(func.max(schema.generations.c.generation))).scalar()
    return int(number or 0)


def newest_generation(connection: Connection) -> Generation:
    """Return the newest commit; CorruptError when its row is damaged or there is none."""
    table = schema.generations
    row = connection.execute(select(table).order_by(table.c.generation.desc()).limit(1)).mappings().first()
    if row is None:
        raise CorruptError("kb.sqlite: table generations is empty; restore the file from a backup")
    check_row("generations", row)
    return Generation(row["generation"], row["next_document_id"], row["next_passage_id"], row["next_token_id"])


def commit_of(connection: Connection, op_id: str | None) -> Commit | None:
    """Return the commit that an operation id made earlier, None when it made none."""
    row = None if op_id is None else commit_row(connection, op_id)
    if row is None:
        return None
    return Commit(
        row["generation"],
        row["op_id"],
        row["documents_added"],
        row["documents_replaced"],
        row["documents_deleted"],
    )


def op_ids_beginning(connection: Connection, prefix: str) -> list[str]:
    """Return the names of the operations that begin so."""
    op_id = schema.generations.c.op_id
    statement = select(op_id).where(op_id >= prefix, op_id < prefix + chr(0x10FFFF))
    return list(connection.execute(statement).scalars())


def commit_row(connection: Connection, op_id: str) -> Mapping[Any, Any] | None:
    """Return the row of the commit that an operation id made, checked; None when it made none."""
    row = connection.execute(select(schema.generations).where(schema.generations.c.op_id == op_id)).mappings().first()
    if row is not None:
        check_row("generations", row)
    return row


def insert_generation(
    connection: Connection,
    commit: Commit,
    *,
    operation: str,
    after: Generation,
    note: str | None = None,
    at: str | None = None,
) -> None:
    """Insert the commit's row. `after` holds the ids that the next commit will allot; `at` None is now."""
    row = {
        "generation": commit.generation,
        "op_id": commit.op_id,
        "operation": operation,
        "at": at or datetime.now(UTC).isoformat(timespec="milliseconds"),
        "documents_added": commit.documents_added,
        "documents_replaced": commit.documents_replaced,
        "documents_deleted": commit.documents_deleted,
        "next_document_id": after.next_document_id,
        "next_passage_id": after.next_passage_id,
        "next_token_id": after.next_token_id,
        "note": note,
    }
    connection.execute(insert(schema.generations), sealed(row))


def live_segments(connection: Connection) -> list[SegmentRow]:
    """Return the live segments in passage-id order, which is token-id order too."""
    table = schema.segments
    rows = connection.execute(
        select(table).where(table.c.dead_generation.is_(None)).order_by(table.c.first_passage_id)
    ).mappings()
    return [_segment_row(row) for row in rows]


def _segment_row(row: Mapping[Any, Any]) -> SegmentRow:
    check_row("segments", row)
    file = SegmentFile(**{field.name: row[field.name] for field in dataclasses.fields(SegmentFile)})
    return SegmentRow(file, row["first_passage_id"], row["end_passage_id"], row["born_generation"])


def insert_segment(connection: Connection, row: SegmentRow, *, generation: int) -> None:
    """Insert the segment as live from this generation on."""
    table = schema.segments
    next_id = int(connection.execute(select(func.coalesce(func.max(table.c.segment_id), 0))).scalar_one()) + 1
    file = row.file
    connection.execute(
        insert(table),
        sealed(
            {
                "segment_id": next_id,
                "name": file.name,
                "sha256": file.sha256,
                "n_bytes": file.n_bytes,
                "n_rows": file.n_rows,
                "n_passages": file.n_passages,
                "first_passage_id": row.first_passage_id,
                "end_passage_id": row.end_passage_id,
                "first_token_id": file.first_token_id,
                "end_token_id": file.end_token_id,
                "born_generation": generation,
                "dead_generation": None,
            }
        ),
    )


def retire_segments(connection: Connection, names: Sequence[str], *, generation: int) -> None:
    """Mark these segments as dead from this generation on."""
    table = schema.segments
    rows = connection.execute(select(table).where(table.c.name.in_(names))).mappings().all()
    _mark_dead(connection, table, "segment_id", rows, generation=generation)


def live_document_rows(connection: Connection, doc_ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of the live documents among these ids, checked."""
    table = schema.documents
    rows: list[dict[str, Any]] = []
    for chunk in chunked(doc_ids):
        statement = select(table).where(table.c.doc_id.in_(chunk), table.c.dead_generation.is_(None))
        rows += [dict(row) for row in connection.execute(statement).mappings()]
    for row in rows:
        check_row("documents", row)
    return rows


def live_ids_of(connection: Connection, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the live documents of which each name is the id or, when it is none, the title; all of them."""
    found: dict[str, list[str]] = {}
    live = "CROSS JOIN documents AS d ON d.dead_generation IS NULL AND"
    for chunk in chunked(names):
        rows = connection.exec_driver_sql(
            f"SELECT j.value, d.doc_id, 0 FROM json_each(?) AS j {live} d.doc_id = j.value UNION ALL "
            f"SELECT j.value, d.doc_id, 1 FROM json_each(?) AS j {live} d.title COLLATE NOCASE = j.value "
            "AND d.title = j.value ORDER BY 3",
            (json.dumps(chunk), json.dumps(chunk)),
        )
        for name, doc_id, by_title in rows:
            if not (by_title and name in found.get(name, ())):
                found.setdefault(name, []).append(doc_id)
    return found


def retire_documents(connection: Connection, rows: Sequence[Mapping[Any, Any]], *, generation: int) -> None:
    """Make these documents tombstones from this generation on, and take their passages out of the full text."""
    _mark_dead(connection, schema.documents, "document_id", rows, generation=generation)
    table = schema.passages
    passage_ids: list[int] = []
    for chunk in chunked(row["document_id"] for row in rows):
        passage_ids += connection.execute(select(table.c.passage_id).where(table.c.document_id.in_(chunk))).scalars()
    if passage_ids:
        connection.exec_driver_sql(
            f"DELETE FROM {schema.FTS_TABLE} WHERE rowid = ?", [(passage_id,) for passage_id in passage_ids]
        )


def _mark_dead(
    connection: Connection, table: Any, key: str, rows: Sequence[Mapping[Any, Any]], *, generation: int
) -> None:
    changes = []
    for row in rows:
        dead = sealed({**row, "dead_generation": generation})
        changes.append({"key_": row[key], "dead_": generation, "checksum_": dead["checksum"]})
    if changes:
        connection.execute(
            update(table)
            .where(table.c[key] == bindparam("key_"))
            .values(dead_generation=bindparam("dead_"), checksum=bindparam("checksum_")),
            changes,
        )


def dead_document_ids(connection: Connection, *, after: int = -1) -> NDArray[np.int64]:
    """Return the document ids int64 (n), sorted, of the tombstones born after generation `after`."""
    table = schema.documents
    ids = connection.execute(select(table.c.document_id).where(table.c.dead_generation > after)).scalars().all()
    return np.sort(np.array(ids, dtype=np.int64))


def forget_dead(connection: Connection, *, up_to: int) -> int:
    """Delete the rows of documents dead at `up_to` or before, and of their passages; return how many documents.

    Rows of dead segments go, too.
    """
    documents, passages, segments = schema.documents, schema.passages, schema.segments
    dead = select(documents.c.document_id).where(documents.c.dead_generation <= up_to)
    connection.execute(delete(passages).where(passages.c.document_id.in_(dead)))
    n_documents = connection.execute(delete(documents).where(documents.c.dead_generation <= up_to)).rowcount
    connection.execute(delete(segments).where(segments.c.dead_generation.is_not(None)))
    return n_documents


def document_record(row: Mapping[Any, Any]) -> DocumentRecord:
    """Return the record of a row of table documents; CorruptError when the row is not what was written."""
    check_row("documents", row)
    return DocumentRecord(
        row["document_id"],
        row["doc_id"],
        row["title"],
        row["url"],
        json.loads(row["meta"]),
        row["passage_count"],
        row["born_generation"],
        row["dead_generation"],
    )


def passage_record(row: Mapping[Any, Any]) -> PassageRecord:
    """Return the record of a row of table passages; CorruptError when the row is not what was written."""
    check_row("passages", row)
    return PassageRecord(
        row["passage_id"],
        row["document_id"],
        row["ordinal"],
        row["text"],
        row["first_token_id"],
        row["token_count"],
        row["encoded_token_count"],
        row["offsets"],
        row["section"],
        row["char_offset"],
    )
