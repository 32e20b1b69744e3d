"""Reading a knowledge base: snapshots to search in, and by `RecordReader` the texts that belong to what was found.

A reader takes no lock and may live in any process, beside the writer. It sees whole commits only.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from storage import schema
from storage.acknowledged import read_acknowledged
from storage.alias_look_up import list_aliases, match_names, spellings_of
from storage.alias_records import AliasMatch, AliasRecord, AliasSource, Spelling
from storage.alias_rows import alias_table_exists, has_alias
from storage.catalog import (
    SegmentRow,
    dead_document_ids,
    live_document_rows,
    live_segments,
    newest_generation_number,
)
from storage.database import (
    check_file_system,
    database_path,
    pending_migration,
    raw_connection,
    reader_engine,
    translated,
    wal_path,
)
from storage.errors import (
    BuildIncompleteError,
    CorruptError,
    InvalidOptionError,
    StateError,
)
from storage.feedback_records import FeedbackRecord, Verdict
from storage.feedback_rows import feedback_table_exists, list_feedback
from storage.gpu import IndexDevice, uses_gpu
from storage.opening import check_complete
from storage.record_cache import RecordCache
from storage.record_reader import RecordReader
from storage.records import JSON, DocumentRecord, PassageRecord
from storage.restriction import Restrictions
from storage.segment_cache import DEFER_ROWS, SegmentCache
from storage.settings import KBSettings, read_setting, read_settings
from storage.snapshot import LoadedSegment, Snapshot
from storage.term_look_up import passages_with, titled
from storage.wal import check_wal
from storage.where_sql import matching_documents

__all__ = ["MAX_MATCHES", "KBReader"]

MAX_MATCHES = 32
"""Documents looked at for an alias that many have: any other's prior is below 1/32 (unless it was given)."""

_log = logging.getLogger(__name__)
_MAX_RETRIES = 20


class KBReader(RecordReader):
    """Read a knowledge base: snapshots, documents, names; safe to share between threads; a context manager.

    Attributes:
        damaged: What is wrong with segments that were left out (only with `allow_damaged`): answers are then
            incomplete.
    """

    def __init__(
        self,
        directory: Path,
        settings: KBSettings,
        *,
        allow_damaged: bool,
        defer_rows: int = DEFER_ROWS,
        index_device: IndexDevice = "cpu",
    ) -> None:
        """Use `KBReader.open`."""
        super().__init__(directory, reader_engine(directory))
        self.damaged: tuple[str, ...] = ()
        self._settings = settings
        self._allow_damaged = allow_damaged
        self._defer_rows = defer_rows
        # One connection only asks whether something was committed: data_version is a property of a connection.
        self._watch: Any = raw_connection(database_path(directory), mode="ro")
        self._watch_lock = threading.Lock()
        self._refresh_lock = threading.Lock()
        self._restrictions = Restrictions()
        self._records = RecordCache()
        # A damaged segment can be left out only where damage is found when it is opened.
        self._cache = SegmentCache(directory, device=index_device, whole=allow_damaged)
        self._seen: tuple[int, Snapshot] | None = None
        self._dead: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._aliases_at: tuple[int, bool] | None = None  # data version, and whether it has any alias

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        allow_incomplete: bool = False,
        allow_damaged: bool = False,
        defer_rows: int = DEFER_ROWS,
        index_device: IndexDevice = "cpu",
    ) -> KBReader:
        """Open a knowledge base for reading.

        Args:
            path: Its directory.
            allow_incomplete: Open it although its build has not been finished.
            allow_damaged: Leave damaged segments out (see `damaged`) instead of raising CorruptError.
            defer_rows: Merged segments with at least so many rows are opened in the background.
            index_device: Where candidates are sought: "cpu", "gpu", or "auto" for a GPU if FAISS has one.

        Raises:
            NotAKnowledgeBaseError: Nothing, or something else, is there.
            BuildIncompleteError: Its build was interrupted.
            FormatTooNewError: A newer kbengine wrote it.
            CorruptError: Its log lost a commit that was acknowledged.
            PlatformError: A graphics processor is asked for and there is none.
        """
        uses_gpu(index_device)
        directory = Path(path)
        database_path(directory)
        check_file_system(directory)
        check_wal(wal_path(directory))
        acknowledged = read_acknowledged(directory)
        engine = reader_engine(directory)
        try:
            with translated(directory), engine.connect() as connection:
                # Older revisions are read as they are, newer ones are refused; the next writer migrates.
                pending_migration(connection, name=str(directory))
                settings = read_settings(connection, name=str(directory))
                check_complete(directory, connection, acknowledged)
        finally:
            engine.dispose()
        if settings.build_state != "complete" and not allow_incomplete:
            raise BuildIncompleteError(
                f"the build of {directory} was interrupted at {dict(settings.build_position)}; run the same "
                "'kbengine build' again to resume it"
            )
        return cls(directory, settings, allow_damaged=allow_damaged, defer_rows=defer_rows, index_device=index_device)

    def close(self) -> None:
        """Close the connections. Snapshots already taken stay usable."""
        self._cache.wait()
        self._engine.dispose()
        with self._watch_lock:
            self._watch.close()

    def __enter__(self) -> KBReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def settings(self) -> KBSettings:
        """What the knowledge base was made with, as of the newest snapshot."""
        return self._settings

    @property
    def generation(self) -> int:
        """The newest commit."""
        return self.snapshot().generation

    def setting(self, key: str) -> JSON:
        """Return the value stored under `key` by `KBWriter.set_setting`, as of the newest commit, or None."""
        with translated(self.path), self._engine.connect() as connection:
            return read_setting(connection, key)

    # -- snapshots

    def snapshot(self, where: str | None = None) -> Snapshot:
        """Return the newest commit, to search in; it stays as it is whatever is written later.

        A commit that was acknowledged before this call is in it.

        Args:
            where: Only documents that pass this filter are found in it (see `storage.where`).

        Raises:
            CorruptError: A segment is damaged or missing.
            InvalidOptionError: The filter cannot be read, or does not fit the documents' fields.
        """
        snapshot = self._newest_snapshot()
        return snapshot if where is None else self._restricted(snapshot, where)

    def _restricted(self, snapshot: Snapshot, where: str) -> Snapshot:
        kept = self._restrictions.get(snapshot, where)
        if kept is not None:
            return kept
        for _ in range(_MAX_RETRIES):
            with translated(self.path), self._engine.connect() as connection:
                generation, passing = newest_generation_number(connection), matching_documents(connection, where)
            if generation == snapshot.generation:
                restricted = snapshot.restricted_to(passing)
                self._restrictions.keep(snapshot, where, restricted)
                return restricted
            snapshot = self._newest_snapshot()
        raise StateError(f"{self.path} is written to faster than it can be filtered; try again")

    def _newest_snapshot(self) -> Snapshot:
        version = self._data_version()
        seen = self._seen
        if seen is not None and seen[0] == version:
            return seen[1]
        with self._refresh_lock:
            version = self._data_version()
            if self._seen is None or self._seen[0] != version:
                self._seen = (version, self._newest(None if self._seen is None else self._seen[1]))
                self._restrictions = Restrictions(self._seen[1])
            return self._seen[1]

    def _data_version(self) -> int:
        with self._watch_lock, translated(self.path):
            return int(self._watch.execute("PRAGMA data_version").fetchone()[0])

    def _newest(self, current: Snapshot | None) -> Snapshot:
        tried = -1
        for _ in range(_MAX_RETRIES):
            acknowledged = read_acknowledged(self.path)
            with translated(self.path), self._engine.connect() as connection:
                generation = check_complete(self.path, connection, acknowledged)
                rows = live_segments(connection)
                sources = {row.file.name: _sources(connection, row) for row in rows if self._may_defer(row)}
                forgotten = current is None or _compacted_since(connection, current.generation)
                dead = dead_document_ids(connection, after=-1 if current is None or forgotten else current.generation)
                settings = read_settings(connection, name=str(self.path))
            if not forgotten:
                dead = np.union1d(self._dead, dead)
            else:
                # Sources hold rows of documents whose tombstones are gone: they must not answer any more.
                sources = {}
            self._cache.use(settings)
            try:
                segments, damaged = self._segments(rows, sources)
            except CorruptError as error:
                # A merge replaced the file after we read its name: there must be a newer commit then.
                if not isinstance(error.__cause__, FileNotFoundError) or generation == tried:
                    raise
                tried = generation
                continue
            self._dead, self._settings, self.damaged = dead, settings, damaged
            return Snapshot(generation, segments, dead)
        raise StateError(f"{self.path} is being merged faster than it can be opened; try again")

    def _may_defer(self, row: SegmentRow) -> bool:
        return row.file.n_rows >= self._defer_rows and self._cache.opened([row.file.name]) is None

    def _segments(
        self, rows: list[SegmentRow], sources: dict[str, list[str]]
    ) -> tuple[list[LoadedSegment], tuple[str, ...]]:
        loaded: list[LoadedSegment] = []
        damaged: list[str] = []
        for row in rows:
            standing_in = self._cache.opened(sources.get(row.file.name, []))
            if standing_in is not None:
                loaded += standing_in
                self._cache.open_later(row, self._look_again)
                continue
            try:
                loaded.append(self._cache.get(row))
            except CorruptError as error:
                missing = isinstance(error.__cause__, FileNotFoundError)
                if not self._allow_damaged or (missing and not self._still_live(row)):
                    raise
                _log.warning("left out a damaged segment: %s", error.message)
                damaged.append(error.message)
        self._cache.forget_except({entry.segment.name for entry in loaded} | {row.file.name for row in rows})
        return loaded, tuple(damaged)

    def _still_live(self, row: SegmentRow) -> bool:
        with translated(self.path), self._engine.connect() as connection:
            return row.file.name in {live.file.name for live in live_segments(connection)}

    def _look_again(self) -> None:
        with self._refresh_lock:
            if self._seen is not None:
                self._seen = (-1, self._seen[1])  # no data_version is negative: the next snapshot() composes anew

    def passing(self, where: str) -> NDArray[np.int64]:
        """Return the ids of the documents of the newest commit that pass a filter, int64 (n).

        Raises:
            InvalidOptionError: The filter cannot be read, or does not fit the documents' fields.
        """
        with translated(self.path), self._engine.connect() as connection:
            return matching_documents(connection, where)

    # -- records

    def passages_with_documents(
        self, passage_ids: Collection[int] | NDArray[np.int64]
    ) -> tuple[dict[int, PassageRecord], dict[int, DocumentRecord]]:
        """Return the passages by id and their documents by id; forgotten ids are absent.

        What was read of the same commits before is returned again (`storage.record_cache`).
        """
        wanted = [int(passage_id) for passage_id in passage_ids]
        version = self._data_version()
        passages, documents = self._records.passages_with_documents(version, wanted)
        rest = [passage_id for passage_id in wanted if passage_id not in passages]
        if rest:
            new_passages, new_documents = super().passages_with_documents(rest)
            if self._data_version() == version:
                self._records.keep(version, new_passages, new_documents)
            passages |= new_passages
            documents |= new_documents
        return passages, documents

    def known_names(self, names: Collection[str], *, without: Collection[int] = ()) -> frozenset[str]:
        """Return those that are a live document's title, its qualifier aside, or alias, letter for letter.

        Args:
            names: The names.
            without: Ids of documents whose names do not count.
        """
        if without:
            return super().known_names(names, without=without)
        return self._records.known_names(self._data_version, names, super().known_names)

    # -- words

    def titled(self, names: Sequence[str], *, limit: int) -> list[list[int]]:
        """Return for each name the ids of the first documents that have it as title, qualifiers aside.

        Args:
            names: The names; one without a word is nobody's title.
            limit: How many documents of each.
        """
        return titled(self.snapshot(), names, limit=limit)

    def n_passages_with(self, term: str) -> int:
        """Return how many passages have a term (see `storage.terms`)."""
        return len(self.snapshot().passages_with_term(term))

    def passages_with(self, term: str, places: Sequence[int]) -> list[int]:
        """Return the ids of some of the passages that have a term, by their places in the order of ids."""
        return passages_with(self.snapshot(), term, places)

    # -- names

    def alias_matches(self, names: Sequence[str], *, limit: int = MAX_MATCHES) -> list[list[AliasMatch]]:
        """Return for each name the live documents of which it is another name, best first; lists are empty without any.

        Exact matches come before case-folded ones, these before accent-folded ones; equal ones by prior. A document
        is there once for each alias that matches. Titles are no aliases, but for those that the lexical index cannot
        find in folded letters.

        Args:
            names: The names.
            limit: How many rows are read of an alias that more documents have: those with the highest priors.
        """
        if limit < 1:
            raise InvalidOptionError(f"limit is {limit}; wanted at least 1")
        if not names or not self._any_alias():
            return [[] for _ in names]
        with translated(self.path), self._engine.connect() as connection:
            return match_names(connection, names, limit=limit)

    def spellings(
        self, names: Sequence[str], *, limit: int = MAX_MATCHES, without: Collection[int] = ()
    ) -> list[Spelling]:
        """Return what is stored under each spelling of the names, whatever its case and accents; see `alias_matches`.

        Args:
            names: The names.
            limit: How many rows are read of a spelling that has more.
            without: Ids of documents whose names do not count.
        """
        if not names or not self._any_alias():
            return []
        with translated(self.path), self._engine.connect() as connection:
            return spellings_of(connection, names, limit=limit, without=without)

    def list_aliases(
        self,
        *,
        doc_id: str | None = None,
        prefix: str | None = None,
        source: AliasSource | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[AliasRecord]:
        """Return the aliases of live documents, ordered by name (accents and case folded).

        Args:
            doc_id: Only those of this document.
            prefix: Only names that begin so, accents and case folded.
            source: Only those from this source.
            after: Only what comes after this `AliasRecord.cursor`: that of the last one of the page before.
            limit: How many at most.

        Raises:
            UnknownDocumentError: No live document has the id.
        """
        if doc_id is not None:
            self.document(doc_id)
        with translated(self.path), self._engine.connect() as connection:
            if not alias_table_exists(connection):
                return []
            return list_aliases(connection, doc_id=doc_id, prefix=prefix, source=source, after=after, limit=limit)

    # -- feedback

    def list_feedback(
        self,
        *,
        task: str | None = None,
        asked: str | None = None,
        verdict: Verdict | None = None,
        after: int = 0,
        limit: int | None = None,
    ) -> list[FeedbackRecord]:
        """Return what people said about answers, oldest first; none where nobody did.

        Args:
            task: Only what is about this task.
            asked: Only what is about this input.
            verdict: Only what was found right, or wrong.
            after: Only what has a larger number than this: that of the last one of the page before.
            limit: How many at most; None: all.

        Raises:
            CorruptError: A row is not what was written.
        """
        with translated(self.path), self._engine.connect() as connection:
            if not feedback_table_exists(connection):
                return []
            return list(list_feedback(connection, task=task, asked=asked, verdict=verdict, after=after, limit=limit))

    def titles_of(self, doc_ids: Collection[str]) -> dict[str, str]:
        """Return the titles of the live documents among these ids of the user's."""
        with translated(self.path), self._engine.connect() as connection:
            return {row["doc_id"]: row["title"] for row in live_document_rows(connection, sorted(doc_ids))}

    def _any_alias(self) -> bool:
        version = self._data_version()
        known = self._aliases_at
        if known is None or known[0] != version:
            with translated(self.path), self._engine.connect() as connection:
                known = (version, has_alias(connection))
            self._aliases_at = known
        return known[1]


def _sources(connection: Connection, row: SegmentRow) -> list[str]:
    """Return the names of the segments that a merge made this one of, in order; none when an add made it."""
    table = schema.segments
    statement = (
        select(table.c.name).where(table.c.dead_generation == row.born_generation).order_by(table.c.first_passage_id)
    )
    return list(connection.execute(statement).scalars())


def _compacted_since(connection: Connection, generation: int) -> bool:
    table = schema.generations
    statement = select(table.c.generation).where(
        table.c.generation > generation, table.c.operation.in_(("compact", "repair", "reindex"))
    )
    return connection.execute(statement.limit(1)).first() is not None
