"""Putting shards together: their live documents in one new shard, whose bytes depend on nothing else.

Ids stay what they are, so shards whose ids do not overlap need no numbering; rows and codes are copied. Times and names
are given, not drawn: the same parts give the same files, on any machine and after any interruption.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from storage import schema
from storage.alias_rows import AliasRow, insert_alias_rows
from storage.ann_setup import read_setup
from storage.catalog import Generation, SegmentRow, insert_generation, insert_segment, live_segments, newest_generation
from storage.common_settings import CommonSettings
from storage.creation import ENCODER_DIRECTORY, appearing, vacuum_into, write_quantisers
from storage.database import DATABASE_NAME, reader_engine, run_in_autocommit, translated, writer_engine
from storage.durable import fsync_directory, remove_file
from storage.errors import UsageError
from storage.newest_schema import create_schema
from storage.operating_system import operating_system
from storage.records import Commit
from storage.segment import Segment, open_segment, segment_path
from storage.segment_merge import merge_segments
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY
from storage.settings import write_settings

__all__ = ["MergedShard", "ShardPart", "merge_shards"]

_BORN = 2
_TABLES = ("documents", "passages", "links", "aliases", "fields")


@dataclass(frozen=True)
class ShardPart:
    """A shard, or a part of one, and the `document_id`s of it that are dead, rising."""

    path: Path
    dead: Sequence[int] = ()


@dataclass(frozen=True)
class MergedShard:
    """What a new shard holds: counts, and the range of its ordinals."""

    documents: int
    passages: int
    rows: int
    first_ordinal: int
    end_ordinal: int


def merge_shards(
    target: Path,
    parts: Sequence[ShardPart],
    common: CommonSettings,
    *,
    name: str,
    created_at: str,
    anchors: Sequence[AliasRow] | None = None,
) -> MergedShard:
    """Make a shard of the live documents of others, ready to be published, and return what it holds.

    Args:
        target: Its directory, not there yet; it appears whole or not at all.
        parts: What it is made of, by rising ids that do not overlap, all made with the common settings.
        common: The settings.
        name: Of its segment: 32 hex digits.
        created_at: UTC, ISO 8601.
        anchors: Rows of table `aliases` with names counted from links, which take the place of the parts' own; None
            leaves these.

    Raises:
        UsageError: There is no live document in the parts.
        CorruptError: A part is damaged.
    """
    with appearing(target) as directory:
        for below in (SEGMENT_DIRECTORY, INDEX_DIRECTORY, ENCODER_DIRECTORY):
            operating_system().mkdir(directory / below)
        settings = dataclasses.replace(
            common.settings, created_at=created_at, build={"state": "complete", "position": _position(common)}
        )
        segments = directory / SEGMENT_DIRECTORY
        settings = write_quantisers(
            segments, settings, code=common.code, quantiser=common.quantiser, passages=common.passages
        )
        segment = _merged_segment(segments, parts, name)
        engine = writer_engine(directory, create=True)
        try:
            with translated(directory):
                with engine.begin() as connection:
                    create_schema(connection)
                    write_settings(connection, settings)
                    _insert_commits(connection, parts, created_at)
                for part in parts:
                    _copy_rows(engine, part)
                with engine.begin() as connection:
                    if anchors is not None:
                        connection.exec_driver_sql("DELETE FROM aliases WHERE source = 'anchor'")
                        insert_alias_rows(connection, anchors)
                    if segment is not None:
                        insert_segment(connection, segment, generation=_BORN)
                    merged = _merged(connection, segment)
                packed = directory / "packed.sqlite"
                run_in_autocommit(engine, vacuum_into(packed))
        finally:
            engine.dispose()
        for suffix in ("-wal", "-shm"):
            remove_file(directory / f"{DATABASE_NAME}{suffix}")
        operating_system().rename(packed, directory / DATABASE_NAME)
        if segment is not None:
            setup = read_setup(segments, settings)
            setup.prepare(directory / INDEX_DIRECTORY, open_segment(segment_path(segments, name), segment.file))
        for part_of in (segments, directory / INDEX_DIRECTORY, directory):
            fsync_directory(part_of)
    return merged


def _position(common: CommonSettings) -> dict[str, Any]:
    return dict(common.settings.build_position)


def _merged_segment(directory: Path, parts: Sequence[ShardPart], name: str) -> SegmentRow | None:
    opened: list[Segment] = []
    keep: list[NDArray[np.bool_]] = []
    for part in parts:
        with _reading(part.path) as connection:
            rows = live_segments(connection)
            gone = _dead_here(connection, part)
        for row in rows:
            segment = open_segment(segment_path(part.path / SEGMENT_DIRECTORY, row.file.name), row.file)
            opened.append(segment)
            keep.append(~np.isin(segment.arrays.document_ids, gone))
    if not opened:
        return None
    file = merge_segments(directory, opened, keep, name=name)
    if file is None:
        return None
    ids = np.concatenate([segment.arrays.passage_ids[mask] for segment, mask in zip(opened, keep, strict=True)])
    return SegmentRow(file, int(ids[0]), int(ids[-1]) + 1)


def _dead_here(connection: Connection, part: ShardPart) -> NDArray[np.int64]:
    statement = "SELECT document_id FROM documents WHERE dead_generation IS NOT NULL"
    own = [row[0] for row in connection.exec_driver_sql(statement)]
    return np.array(sorted({*own, *part.dead}), dtype=np.int64)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Connection]:
    engine = reader_engine(path)
    try:
        with translated(path), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _copy_rows(engine: Any, part: ShardPart) -> None:
    """Copy the rows of a part's live documents, each as it is, with its checksum."""
    raw = engine.raw_connection()
    try:
        connection: Any = raw.driver_connection
        connection.execute(
            "ATTACH DATABASE ? AS part", (f"file:{quote(str(part.path.absolute() / DATABASE_NAME))}?mode=ro",)
        )
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TEMP TABLE kept (document_id INTEGER PRIMARY KEY)")
            connection.execute(
                "INSERT INTO temp.kept SELECT document_id FROM part.documents WHERE dead_generation IS NULL "
                "AND document_id NOT IN (SELECT value FROM json_each(?)) ORDER BY document_id",
                (json.dumps([int(each) for each in part.dead]),),
            )
            # Its own commits are none of the new shard's: all is born at once.
            strange = connection.execute(
                "SELECT count(*) FROM part.documents JOIN temp.kept USING (document_id) WHERE born_generation <> ?",
                (_BORN,),
            ).fetchone()[0]
            if strange:
                raise UsageError(
                    f"{part.path} has {strange} documents that were not added in its first commit; merge shards only"
                )
            for table in _TABLES:
                columns = ", ".join(column.name for column in schema.metadata.tables[table].columns)
                order = {"documents": "document_id", "passages": "passage_id"}.get(table, columns)
                connection.execute(
                    f"INSERT INTO main.{table}({columns}) SELECT {columns} FROM part.{table} "
                    f"WHERE document_id IN (SELECT document_id FROM temp.kept) ORDER BY {order}"
                )
            connection.execute(
                f"INSERT INTO main.{schema.FTS_TABLE}(rowid, title, text) "
                "SELECT p.passage_id, d.title, p.text FROM part.passages AS p JOIN part.documents AS d "
                "USING (document_id) WHERE document_id IN (SELECT document_id FROM temp.kept) ORDER BY p.passage_id"
            )
            connection.execute("DROP TABLE temp.kept")
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        finally:
            connection.execute("DETACH DATABASE part")
    finally:
        raw.close()


def _insert_commits(connection: Connection, parts: Sequence[ShardPart], at: str) -> None:
    """Enter the two commits that a shard has: that which made it, and that which brought all its documents."""
    after = Generation(_BORN, 1, 1, 1)
    for part in parts:
        with _reading(part.path) as reading:
            newest = newest_generation(reading)
        after = Generation(
            _BORN,
            max(after.next_document_id, newest.next_document_id),
            max(after.next_passage_id, newest.next_passage_id),
            max(after.next_token_id, newest.next_token_id),
        )
    first = Generation(1, 1, 1, 1)
    insert_generation(connection, Commit(1, None, 0, 0, 0), operation="create", after=first, at=at)
    insert_generation(connection, Commit(_BORN, None, 0, 0, 0), operation="add", after=after, at=at)


def _merged(connection: Connection, segment: SegmentRow | None) -> MergedShard:
    statement = "SELECT count(*), min(document_id), max(document_id) FROM documents"
    documents, first, last = connection.exec_driver_sql(statement).one()
    if not documents:
        raise UsageError("there is no live document in the shards to merge, wanted one at least; leave them out")
    n_passages = int(connection.exec_driver_sql("SELECT count(*) FROM passages").scalar_one())
    n_rows = 0 if segment is None else segment.file.n_rows
    return MergedShard(documents, n_passages, n_rows, first - 1, last)
