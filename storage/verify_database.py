"""The part of verification that looks into `kb.sqlite`: structure, rows, full text."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pysqlite3 import dbapi2
from sqlalchemy import Connection, Table, select

from storage import schema
from storage.alias_rows import alias_table_exists
from storage.checksum import check_row
from storage.database import DATABASE_NAME, pending_migration
from storage.errors import CorruptError
from storage.feedback_rows import feedback_table_exists
from storage.findings import Findings, Severity
from storage.newest_schema import defined_in, newest_schema
from storage.records import unpack_offsets

__all__ = ["DatabaseFacts", "check_full_text", "check_rows", "check_structure"]

_MAX_MESSAGES = 20
_STREAM_ROWS = 1_000
# What integrity_check says of things that can be built again from the rows.
_REBUILDABLE = ("missing from index", "wrong # of entries in index", "non-unique entry in index", "fts5")
# One row per occurrence of a word; summed per word, so that 20 million rows stay inside SQLite.
_VOCABULARY = """
    SELECT term, count(*), sum((doc * 7919 + "offset" * 31 + (col = 'title')) % 1000000007 * 48271 % 2147483647)
    FROM temp.words GROUP BY term"""


@dataclass
class DatabaseFacts:
    """What was read of the database, for comparison with full text and segments.

    Attributes:
        complete: All rows could be read.
        segments_known: The list of live segments could be read.
        generation: Newest commit.
        n_documents: Rows of documents.
        passage_ids: int64 (p), rising.
        document_ids: int64 (p).
        first_token_ids: int64 (p).
        token_counts: int64 (p).
        live: bool (p), whether the passage's document is live.
        ordinals: uint32, the kept token ordinals of all passages, one after the other.
        numbers: uint32, the kept token numbers of all passages, likewise.
        next_ids: What the newest commit left to allot.
    """

    complete: bool = False
    segments_known: bool = False
    generation: int = 0
    n_documents: int = 0
    passage_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    document_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    first_token_ids: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    token_counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    live: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))
    ordinals: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    numbers: NDArray[np.uint32] = field(default_factory=lambda: np.empty(0, dtype=np.uint32))
    next_ids: dict[str, int] = field(default_factory=dict)


def check_structure(connection: Connection, findings: Findings) -> None:
    """Note damaged pages, indexes and foreign keys, and a changed schema, in `findings`."""
    with findings.checking(DATABASE_NAME):
        for message in connection.exec_driver_sql(f"PRAGMA integrity_check({_MAX_MESSAGES})").scalars():
            if message != "ok":
                rebuildable = any(sign in str(message).lower() for sign in _REBUILDABLE)
                severity: Severity = "repairable" if rebuildable else "error"
                findings.add(DATABASE_NAME, str(message), severity)
    with findings.checking(DATABASE_NAME):
        for table, rowid, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(_MAX_MESSAGES):
            findings.add(f"{DATABASE_NAME}: {table}", f"row {rowid} refers to a missing row of {parent}", "error")
    with findings.checking(f"{DATABASE_NAME}: schema"):
        pending = pending_migration(connection, name=str(findings.directory))
        if pending is None:
            expected, seen = newest_schema(), defined_in(connection)
            for name in sorted(set(expected.items()) ^ set(seen.items())):
                findings.add(f"{DATABASE_NAME}: schema", f"{name[0]} is not defined as kbengine defines it", "error")
    with findings.checking(DATABASE_NAME):
        seen_id = connection.exec_driver_sql("PRAGMA application_id").scalar()
        if seen_id != schema.APPLICATION_ID:
            findings.add(DATABASE_NAME, f"application_id is {seen_id}, wanted {schema.APPLICATION_ID}", "repairable")


def check_rows(connection: Connection, facts: DatabaseFacts, findings: Findings) -> None:
    """Note rows whose checksum or numbers are wrong in `findings`, and ids and numbers in `facts`."""
    for _ in _checked(connection, schema.settings, findings):
        pass
    _check_generations(list(_checked(connection, schema.generations, findings)), facts, findings)
    for _ in _checked(connection, schema.segments, findings):
        pass
    if alias_table_exists(connection):
        for table in (schema.aliases, schema.links):
            for _ in _checked(connection, table, findings):
                pass
    if feedback_table_exists(connection):
        for _ in _checked(connection, schema.feedback, findings):
            pass
    documents: dict[int, tuple[int, bool]] = {}
    for row in _checked(connection, schema.documents, findings):
        documents[row["document_id"]] = (row["passage_count"], row["dead_generation"] is None)
    facts.n_documents = len(documents)
    _check_passages(_checked(connection, schema.passages, findings), documents, facts, findings)


def _checked(connection: Connection, table: Table, findings: Findings) -> Iterator[Mapping[Any, Any]]:
    """Yield all rows of a table in key order; those that are not what was written are noted."""
    key = next(iter(table.primary_key.columns))
    wrong = 0
    rows = connection.execution_options(yield_per=_STREAM_ROWS).execute(select(table).order_by(key)).mappings()
    for row in rows:
        try:
            check_row(table.name, row)
        except (CorruptError, TypeError) as error:
            wrong += 1
            if wrong <= _MAX_MESSAGES:
                findings.add(f"{DATABASE_NAME}: {table.name}", str(error), "error")
        yield row
    if wrong > _MAX_MESSAGES:
        findings.add(f"{DATABASE_NAME}: {table.name}", f"{wrong} rows are not what was written", "error")


def _check_generations(rows: list[Mapping[Any, Any]], facts: DatabaseFacts, findings: Findings) -> None:
    where = f"{DATABASE_NAME}: generations"
    numbers = [row["generation"] for row in rows]
    if numbers != list(range(1, len(numbers) + 1)) or not numbers:
        findings.add(where, f"{len(numbers)} rows up to generation {max(numbers, default=0)}: some are gone", "error")
    facts.generation = max(numbers, default=0)
    for name in ("next_document_id", "next_passage_id", "next_token_id"):
        if any(left[name] > right[name] for left, right in itertools.pairwise(rows)):
            findings.add(where, f"{name} falls from one commit to the next", "error")
    if rows:
        facts.next_ids = {name: rows[-1][name] for name in ("next_document_id", "next_passage_id", "next_token_id")}


def _check_passages(
    rows: Iterable[Mapping[Any, Any]],
    documents: dict[int, tuple[int, bool]],
    facts: DatabaseFacts,
    findings: Findings,
) -> None:
    where = f"{DATABASE_NAME}: passages"
    numbers: list[tuple[int, int, int, int]] = []
    ordinals: list[NDArray[np.uint32]] = []
    token_numbers: list[NDArray[np.uint32]] = []
    counted: dict[int, int] = {}
    for row in rows:
        passage_id = row["passage_id"]
        numbers.append((passage_id, row["document_id"], row["first_token_id"], row["token_count"]))
        counted[row["document_id"]] = counted.get(row["document_id"], 0) + 1
        with findings.checking(where):
            offsets = unpack_offsets(row["offsets"], passage_id=passage_id)
            ordinals.append(offsets.ordinals)
            token_numbers.append(offsets.numbers)
            if len(offsets.ordinals) != row["token_count"]:
                findings.add(
                    where,
                    f"passage {passage_id} has {row['token_count']} kept tokens and {len(offsets.ordinals)} offsets",
                    "error",
                )
    for document_id, (count, _) in documents.items():
        if counted.get(document_id, 0) != count:
            findings.add(
                where, f"document {document_id} has {counted.get(document_id, 0)} passages, wanted {count}", "error"
            )
    table = np.array(numbers, dtype=np.int64).reshape(-1, 4)
    facts.passage_ids, facts.document_ids, facts.first_token_ids, facts.token_counts = table.T
    live_documents = np.array([key for key, (_, live) in documents.items() if live], dtype=np.int64)
    facts.live = np.isin(facts.document_ids, live_documents)
    facts.ordinals = np.concatenate([np.empty(0, dtype=np.uint32), *ordinals])
    facts.numbers = np.concatenate([np.empty(0, dtype=np.uint32), *token_numbers])
    ends = facts.first_token_ids + facts.token_counts
    if (facts.first_token_ids[1:] < ends[:-1]).any():
        findings.add(where, "token ids of passages overlap", "error")
    # Ids at or above the next one to allot would be given twice.
    for name, largest in (
        ("next_document_id", max(documents, default=0)),
        ("next_passage_id", int(facts.passage_ids.max(initial=0))),
        ("next_token_id", int(ends.max(initial=1)) - 1),
    ):
        if facts.next_ids.get(name, 0) <= largest:
            findings.add(where, f"{name} is {facts.next_ids.get(name)}, but id {largest} is in use", "error")


def check_full_text(connection: Connection, facts: DatabaseFacts, findings: Findings, *, deep: bool) -> None:
    """Note in `findings` a full-text index that is not about exactly the live passages."""
    where = f"{DATABASE_NAME}: {schema.FTS_TABLE}"
    ids = np.array(
        connection.exec_driver_sql(f"SELECT rowid FROM {schema.FTS_TABLE} ORDER BY rowid").scalars().all(),
        dtype=np.int64,
    )
    if not facts.complete:
        return
    wanted = facts.passage_ids[facts.live]
    missing, surplus = np.setdiff1d(wanted, ids), np.setdiff1d(ids, wanted)
    if len(missing):
        findings.add(where, f"{len(missing)} live passages are not in it, the first is {missing[0]}", "repairable")
    if len(surplus):
        findings.add(where, f"{len(surplus)} rows of no live passage, the first is {surplus[0]}", "repairable")
    if deep and not len(missing) and not len(surplus):
        difference = _first_different_word(connection)
        if difference is not None:
            findings.add(where, f"it says something else than the text about the word {difference!r}", "repairable")


def _first_different_word(connection: Connection) -> str | None:
    """Return a word whose places in the full-text index are not those in the stored text; None when there is none."""
    sql = connection.exec_driver_sql("SELECT sql FROM sqlite_master WHERE name = ?", (schema.FTS_TABLE,)).scalar()
    connection.exec_driver_sql("DROP TABLE IF EXISTS temp.words")
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', '{schema.FTS_TABLE}', 'instance')"
    )
    with tempfile.TemporaryDirectory(prefix="kbengine-verify-") as directory:
        fresh = dbapi2.connect(str(Path(directory) / "words.sqlite"), isolation_level=None)
        try:
            fresh.execute("PRAGMA journal_mode=OFF")
            fresh.execute("PRAGMA synchronous=OFF")
            fresh.execute("BEGIN")
            fresh.execute(sql)
            rows = connection.execution_options(yield_per=_STREAM_ROWS).exec_driver_sql(
                "SELECT p.passage_id, d.title, p.text FROM passages AS p JOIN documents AS d USING (document_id) "
                "WHERE d.dead_generation IS NULL"
            )
            fresh.executemany(
                f"INSERT INTO {schema.FTS_TABLE}(rowid, title, text) VALUES (?, ?, ?)", (tuple(row) for row in rows)
            )
            fresh.execute(f"CREATE VIRTUAL TABLE temp.words USING fts5vocab('main', '{schema.FTS_TABLE}', 'instance')")
            stored = connection.exec_driver_sql(_VOCABULARY)
            for seen, wanted in itertools.zip_longest(stored, fresh.execute(_VOCABULARY)):
                if seen is None or wanted is None or tuple(seen) != tuple(wanted):
                    return str((wanted or seen)[0])
        finally:
            fresh.close()
    return None
