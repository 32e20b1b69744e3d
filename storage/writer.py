"""Writing to a knowledge base: each call is all or nothing, and durable when it returns.

The order is what makes it so: a segment file is written, synced, renamed and its directory synced; then one
SQLite transaction names it together with the documents; its commit is the commit of the whole. Killed before
that, a file is left that nothing refers to, and the next open removes it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from sqlalchemy import insert

from storage import schema
from storage.addition import (
    PlacedPassage,
    check_documents,
    common_scales,
    measured_code,
    prepare_batch,
    segment_arrays,
)
from storage.alias_changes import AliasChange, add_aliases, change_names, count_links, delete_aliases
from storage.alias_records import AliasSource, NewAlias
from storage.ann_setup import AnnSetup, read_setup
from storage.catalog import (
    SegmentRow,
    commit_of,
    insert_generation,
    insert_segment,
    live_document_rows,
    live_segments,
    newest_generation,
    retire_documents,
)
from storage.compaction import compact
from storage.creation import create_directory, migrated_settings, remove_leftovers
from storage.database import check_file_system, database_path
from storage.errors import (
    CorruptError,
    DuplicateDocumentError,
    InvalidOptionError,
    KBError,
    StorageFullError,
    UnknownDocumentError,
)
from storage.feedback_records import FeedbackRecord, NewFeedback
from storage.feedback_rows import FeedbackChange, add_feedback, copy_feedback, delete_feedback
from storage.field_rows import delete_fields, insert_fields
from storage.index_kind import DEFAULT_KIND
from storage.links import LinkCounts
from storage.lock import WriterLock
from storage.merging import MAX_ROWS, merge_and_commit, plan_groups, plan_merge, segment_size
from storage.opening import check_log
from storage.quantiser import Quantiser
from storage.quantiser_file import write_quantiser
from storage.records import JSON, Commit, NewDocument
from storage.reindexing import Reindexed, ReindexRequest, Stage, choose_indexed, reindex
from storage.segment import SegmentFile, write_segment
from storage.session import WriteSession
from storage.settings import KBSettings, read_setting, write_setting
from storage.tuned_files import remove_tuned_leftovers

__all__ = ["KBWriter"]

_OWN_SETTINGS = frozenset(field.name for field in dataclasses.fields(KBSettings)) - {"ann", "encoder_name"}

_log = logging.getLogger(__name__)


class KBWriter:
    """Write to a knowledge base, as the only one; safe to share between threads; a context manager.

    Holds `writer.lock` until `close()`. Small segments are merged in a background thread while it is open.
    """

    def __init__(self, session: WriteSession, lock: WriterLock, settings: KBSettings, *, merge: bool) -> None:
        """Use `KBWriter.create` or `KBWriter.open`."""
        self._session = session
        self._lock = lock
        self._settings = settings
        self._merge_in_background = merge
        self._merge_lock = threading.Lock()  # one merge or compaction at a time
        self._thread: threading.Thread | None = None
        self._closing = False
        self._setup: tuple[object, AnnSetup] | None = None

    # -- opening and closing

    @classmethod
    def create(cls, path: str | os.PathLike[str], settings: KBSettings, *, code: Quantiser | None = None) -> KBWriter:
        """Create an empty knowledge base and return its writer; its directory appears whole or not at all.

        Args:
            path: Its directory.
            settings: What it is made with.
            code: What token vectors are stored in where the settings say 4 bits; None: measured on the first ones.

        Raises:
            KnowledgeBaseExistsError: The path exists and is not an empty directory.
            PlatformError: A network file system, or an SQLite that is too old.
        """
        target = Path(path)
        create_directory(target, settings, code)
        return cls.open(target)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, lock_timeout_s: float = 10.0, background_merging: bool = True
    ) -> KBWriter:
        """Open an existing knowledge base for writing, after tidying up what a crash may have left.

        Raises:
            NotAKnowledgeBaseError: Nothing, or something else, is there.
            LockedError: Another process writes; the message names it.
            FormatTooNewError: A newer kbengine wrote it.
            CorruptError: The log or the settings are damaged.
        """
        directory = Path(path)
        database_path(directory)
        check_file_system(directory)
        lock = WriterLock(directory, timeout_s=lock_timeout_s)
        session: WriteSession | None = None
        try:
            check_log(directory)
            session = WriteSession(directory)
            # After a failed fsync the log may be in memory only; kb.sqlite is written and synced anew from it.
            session.run_outside_transaction("PRAGMA wal_checkpoint(TRUNCATE)")
            settings = migrated_settings(session)
            remove_leftovers(session, settings)
            remove_tuned_leftovers(directory)
            session.note_newest()
        except BaseException:
            if session is not None:
                session.close()
            lock.release()
            raise
        return cls(session, lock, settings, merge=background_merging)

    def close(self) -> None:
        """End background merging, fold the log into kb.sqlite and free the lock."""
        self._closing = True
        self.wait_for_merging()
        self._session.close()
        self._lock.release()

    def __enter__(self) -> KBWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def path(self) -> Path:
        """The knowledge base's directory."""
        return self._session.directory

    @property
    def settings(self) -> KBSettings:
        """What the knowledge base was made with, as of the last commit of this writer."""
        return self._settings

    @property
    def merging(self) -> bool:
        """Whether small segments are being merged in the background; `close` waits for it."""
        return self._thread is not None and self._thread.is_alive()

    # -- documents

    def add(
        self,
        documents: Iterable[NewDocument],
        *,
        replace: bool = True,
        op_id: str | None = None,
        build_position: Mapping[str, JSON] | None = None,
    ) -> Commit:
        """Add documents and return the commit, which makes all of them findable at once.

        Args:
            documents: What to store; a document whose id is there already replaces the old one.
            replace: False refuses ids that are there already.
            op_id: The caller's name for this operation: a second call with the same name changes nothing and
                returns the first one's commit, so a call whose outcome is unknown can be repeated.
            build_position: Stored in the same transaction: where an interrupted build goes on.

        Raises:
            DuplicateDocumentError: One id comes twice, or is there already and `replace` is False.
            StorageFullError: No space; nothing was changed and the writer stays usable.
        """
        documents = list(documents)
        check_documents(documents, d=self._settings.d, sparse_model=self._settings.sparse_model)
        with self._session.mutex:
            with self._session.reading() as connection:
                earlier = commit_of(connection, op_id)
                if earlier is not None:
                    return earlier
                replaced = live_document_rows(connection, [document.doc_id for document in documents])
                before = newest_generation(connection)
            if replaced and not replace:
                raise DuplicateDocumentError(
                    f"{_some(row['doc_id'] for row in replaced)} already in {self.path}, and replace is "
                    "off; turn it on, or leave them out"
                )
            batch = prepare_batch(documents, before)
            commit = Commit(batch.after.number, op_id, len(documents) - len(replaced), len(replaced), 0)
            settings = self._settings
            if build_position is not None:
                settings = dataclasses.replace(
                    settings, build={"state": settings.build_state, "position": dict(build_position)}
                )
            files: list[SegmentFile] = []
            try:
                if batch.placed:
                    tokens, passages = common_scales(batch.placed, settings)
                    settings = dataclasses.replace(settings, token_scale=tokens, passage_scale=passages)
                    coder, settings = self._stored_with(batch.placed, settings)
                    arrays = segment_arrays(
                        batch.placed,
                        token_scale=tokens,
                        passage_scale=passages,
                        encoder=settings.encoder_fingerprint,
                        quantiser=coder,
                    )
                    with self._session.file_work():
                        files.append(write_segment(self._session.segment_directory, arrays))
                with self._session.writing() as connection:
                    insert_generation(connection, commit, operation="add", after=batch.after)
                    # First: the unique index allows one live document per id.
                    retire_documents(connection, replaced, generation=commit.generation)
                    delete_fields(connection, replaced)
                    if batch.documents:
                        connection.execute(insert(schema.documents), batch.documents)
                        insert_fields(connection, batch.documents)
                    if batch.passages:
                        connection.execute(insert(schema.passages), batch.passages)
                        connection.exec_driver_sql(
                            f"INSERT INTO {schema.FTS_TABLE}(rowid, title, text) VALUES (?, ?, ?)", batch.full_text
                        )
                    ids = [row["document_id"] for row in batch.documents]
                    change_names(
                        connection,
                        retired=replaced,
                        added=list(zip(ids, documents, strict=True)),
                        count_links=settings.build_state != "building",
                    )
                    for file in files:
                        row = SegmentRow(file, batch.placed[0].passage_id, batch.placed[-1].passage_id + 1)
                        insert_segment(connection, row, generation=commit.generation)
                    for name in ("token_scale", "passage_scale", "build", "store"):
                        value = getattr(settings, name)
                        if value != getattr(self._settings, name):
                            write_setting(connection, name, value)
            except BaseException:
                self._session.discard(files)
                raise
            self._settings = settings
        self._merge_if_due()
        return commit

    def _stored_with(
        self, placed: Sequence[PlacedPassage], settings: KBSettings
    ) -> tuple[Quantiser | None, KBSettings]:
        """Return what codes the vectors that are stored, None for int8, and the settings, which name its file."""
        if not settings.drops_vectors and settings.code_bits == 8:
            return None, settings
        if not settings.drops_vectors and settings.store_file is None:
            code = measured_code(placed)
            with self._session.file_work():
                file = write_quantiser(self._session.segment_directory, code)
            return code, dataclasses.replace(settings, store={**settings.store, "code": file.to_json()})
        setup = self._ann()
        quantiser = setup.quantiser if settings.drops_vectors else setup.stored
        if quantiser is None:
            raise CorruptError(
                f"{self.path} stores quantised vectors and what decodes them is damaged or missing; restore "
                "segments/ from a backup"
            )
        return quantiser, settings

    def delete(self, doc_ids: Iterable[str], *, op_id: str | None = None) -> Commit:
        """Delete documents and return the commit; it is one transaction and touches no file.

        Raises:
            UnknownDocumentError: Some ids are not there; then nothing was deleted.
        """
        wanted = list(dict.fromkeys(doc_ids))
        with self._session.writing() as connection:
            earlier = commit_of(connection, op_id)
            if earlier is not None:
                return earlier
            rows = live_document_rows(connection, wanted)
            missing = set(wanted) - {row["doc_id"] for row in rows}
            if missing:
                raise UnknownDocumentError(
                    f"no live document {_some(doc_id for doc_id in wanted if doc_id in missing)} in {self.path}; "
                    "nothing was deleted: check the ids ('kbengine inspect live_documents')"
                )
            before = newest_generation(connection)
            commit = Commit(before.number + 1, op_id, 0, 0, len(rows))
            after = dataclasses.replace(before, number=commit.generation)
            insert_generation(connection, commit, operation="delete", after=after)
            retire_documents(connection, rows, generation=commit.generation)
            delete_fields(connection, rows)
            change_names(connection, retired=rows, added=[], count_links=self._settings.build_state != "building")
        return commit

    # -- names

    def add_aliases(
        self, aliases: Iterable[tuple[str, NewAlias]], *, replace: bool = False, op_id: str | None = None
    ) -> AliasChange:
        """Add other names of documents and return what that did: all are added, or none when one is refused.

        Args:
            aliases: Pairs of a document's id and an alias; read while the transaction is open, in bounded memory.
            replace: Whether an alias that the document has from the same source gets the new prior.
            op_id: As in `add`.

        Raises:
            UnknownDocumentError: An id is not there.
            DuplicateAliasError: An alias is there already, or comes twice, and `replace` is False.
        """
        return add_aliases(self._session, aliases, replace=replace, op_id=op_id)

    def delete_aliases(
        self,
        doc_id: str,
        aliases: Sequence[str] | None = None,
        *,
        source: AliasSource | None = None,
        op_id: str | None = None,
    ) -> AliasChange:
        """Delete other names of a document and return what that did.

        An alias counted from links takes these links with it, so that it does not come back with the next count.

        Args:
            doc_id: The document.
            aliases: The names, spelt as they are stored; None deletes all.
            source: Only aliases from this source.
            op_id: As in `add`.

        Raises:
            UnknownDocumentError: The document is not there.
            UnknownAliasError: It has not all of these aliases; then none was deleted.
        """
        return delete_aliases(self._session, doc_id, aliases, source=source, op_id=op_id)

    def count_links(self) -> LinkCounts:
        """Make the aliases from links anew from all links, in one transaction, and return what was counted.

        A build calls it once at its end; every later change of documents keeps the counts right by itself.
        """
        return count_links(self._session)

    # -- feedback

    def add_feedback(self, feedback: Iterable[NewFeedback], *, op_id: str | None = None) -> FeedbackChange:
        """Store what somebody says about answers and return the commit with the numbers of what was stored.

        Of the same answer of the same document to the same input the last word counts: it takes the place of earlier
        ones.

        Args:
            feedback: What is said.
            op_id: As in `add`.
        """
        return add_feedback(self._session, feedback, op_id=op_id)

    def copy_feedback(self, records: Iterable[FeedbackRecord]) -> FeedbackChange:
        """Store feedback as another knowledge base has it, with its numbers and dates, and return the commit.

        What has one of these numbers here is replaced: copying twice is as good as once.
        """
        return copy_feedback(self._session, records)

    def delete_feedback(self, ids: Sequence[int], *, op_id: str | None = None) -> FeedbackChange:
        """Delete feedback by its numbers and return the commit.

        Args:
            ids: The numbers.
            op_id: As in `add`.

        Raises:
            UnknownFeedbackError: There is none of one of these numbers; then none was deleted.
        """
        return delete_feedback(self._session, ids, op_id=op_id)

    # -- merging

    def merge_small(self) -> bool:
        """Merge a full tier of adjacent small segments; call it until it returns False to merge all that is due."""
        with self._merge_lock:
            with self._session.reading() as connection:
                rows = live_segments(connection)
            due = plan_merge([segment_size(row) for row in rows])
            if due is None:
                return False
            members = [rows[position] for position in due]
            return merge_and_commit(self._session, members, ann=self._ann())

    def merge_all(self, *, max_rows: int = MAX_ROWS) -> int:
        """Merge until adjacent segments are as large as `max_rows` stored tokens allow; return the number of merges."""
        if max_rows < 1:
            raise InvalidOptionError(f"max_rows is {max_rows}; wanted at least 1")
        n_merges = 0
        with self._merge_lock:
            with self._session.reading() as connection:
                rows = live_segments(connection)
            for group in plan_groups([segment_size(row) for row in rows], max_size=max_rows):
                if len(group) > 1:
                    members = [rows[position] for position in group]
                    n_merges += merge_and_commit(self._session, members, ann=self._ann())
        return n_merges

    def compact(self, *, purge: bool = False, max_rows: int = MAX_ROWS) -> int:
        """Drop vectors and texts of deleted and replaced documents; return the number of documents forgotten.

        With `purge`, free pages are overwritten and the database is written anew, so that no file of the knowledge
        base holds their bytes any more. Copies that you or a migration made are not touched.
        """
        with self._merge_lock:
            return compact(self._session, purge=purge, max_rows=max_rows, ann=self._ann())

    def wait_for_merging(self) -> None:
        """Wait until the background thread, if one runs, has ended."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _merge_if_due(self) -> None:
        # While building, merging would compete with the encoder for the processor; the build ends with merge_all.
        if not self._merge_in_background or self._settings.build_state == "building":
            return
        with self._session.mutex:
            if self._thread is not None and self._thread.is_alive():
                return
            with self._session.reading() as connection:
                due = plan_merge([segment_size(row) for row in live_segments(connection)])
            if due is not None:
                self._thread = threading.Thread(target=self._merge_until_done, name="kbengine-merge")
                self._thread.start()

    def _merge_until_done(self) -> None:
        try:
            while not self._closing and self.merge_small():
                pass
        except StorageFullError as error:
            _log.warning("merging waits for free space: %s", error.message)
        except KBError as error:
            # Searching and adding need no merge; what is wrong is named by the next call or by verify.
            _log.error("merging failed: %s", error.message)
        except Exception:
            _log.exception("merging failed; the segments stay as they were")

    def reindex(
        self,
        request: ReindexRequest,
        *,
        source: Path | None = None,
        stage: Stage = lambda _what, _done, _total: None,
    ) -> Reindexed:
        """Change which tokens are indexed or stored, their code or their index, in one commit; return what was done.

        Token ids stay. Readers go on with what was there until the commit; other writes wait for it.

        Args:
            request: What is to change.
            source: Where the segment files are, by default in this knowledge base. From another directory all are
                written anew into this one, and the database is packed.
            stage: Shown the progress.

        Raises:
            InvalidOptionError: More tokens are asked for than are stored, or the vectors needed are not there.
        """
        own = self._session.segment_directory
        with self._merge_lock, self._session.mutex:
            done, self._settings = reindex(self._session, self._settings, request, source=source or own, stage=stage)
            if source not in (None, own):
                self._session.run_outside_transaction("VACUUM")
        return done

    def stored_rows(self) -> int:
        """Return the number of stored token vectors, those of dead documents included."""
        with self._session.reading() as connection:
            return sum(row.file.n_rows for row in live_segments(connection))

    def _ann(self) -> AnnSetup:
        """Return how segments are searched, with the quantiser read once."""
        settings = self._settings
        wanted = settings.search_facts
        if self._setup is None or self._setup[0] != wanted:
            self._setup = (wanted, read_setup(self._session.segment_directory, settings))
        return self._setup[1]

    # -- settings and builds

    def set_setting(self, key: str, value: JSON) -> None:
        """Store a setting. What shaped the stored vectors cannot be changed."""
        if key in _OWN_SETTINGS:
            raise InvalidOptionError(f"setting {key!r} describes what is stored and cannot be changed; build anew")
        with self._session.mutex:
            settings = self._settings
            if key == "ann" and _kind_of(value) != settings.ann_options.kind:
                raise InvalidOptionError(
                    f"the index is of kind {settings.ann_options.kind!r}, wanted is {_kind_of(value)!r}; "
                    "'kbengine reindex --index' changes it"
                )
            if key in ("ann", "encoder_name"):
                settings = dataclasses.replace(settings, **{key: value})  # type: ignore[arg-type]  # checked there
            self._change_setting(key, value, operation="setting")
            self._settings = settings

    def get_setting(self, key: str) -> JSON:
        """Return the value of a setting, None when there is none."""
        with self._session.reading() as connection:
            return read_setting(connection, key)

    def choose_indexed(self) -> None:
        """Fix which of the stored tokens are indexed, from the share of them that the settings want.

        For the end of a build, before `merge_all` makes the index; without a share, and where only indexed tokens are
        stored, nothing changes.
        """
        with self._session.mutex:
            settings = choose_indexed(self._session, self._settings)
            if settings is self._settings:
                return
            with self._session.writing() as connection:
                for name in ("filter", "build"):
                    write_setting(connection, name, getattr(settings, name))
            self._settings = settings

    def finish_build(self) -> None:
        """Mark the build as complete: readers may open the knowledge base."""
        with self._session.mutex:
            build: dict[str, JSON] = {"state": "complete", "position": dict(self._settings.build_position)}
            self._change_setting("build", build, operation="build")
            self._settings = dataclasses.replace(self._settings, build=build)

    def _change_setting(self, key: str, value: JSON, *, operation: str) -> None:
        with self._session.writing() as connection:
            before = newest_generation(connection)
            after = dataclasses.replace(before, number=before.number + 1)
            insert_generation(
                connection, Commit(after.number, None, 0, 0, 0), operation=operation, after=after, note=key
            )
            write_setting(connection, key, value)


def _kind_of(ann: JSON) -> JSON:
    return ann.get("kind", DEFAULT_KIND) if isinstance(ann, dict) else DEFAULT_KIND


def _some(names: Iterable[str], *, limit: int = 5) -> str:
    """Return the first names, quoted, and how many more there are."""
    listed = list(names)
    shown = ", ".join(repr(name) for name in listed[:limit])
    return shown if len(listed) <= limit else f"{shown} and {len(listed) - limit:,} more"
