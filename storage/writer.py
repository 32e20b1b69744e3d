"""Writing to a knowledge base: each call is all or nothing, and durable when it returns.

The order is what makes it so: a segment file is written, synced, renamed and its directory synced; then one
SQLite transaction names it together with the documents; its commit is the commit of the whole. Killed before
that, a file is left that nothing refers to, and the next open removes it.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from storage.alias_changes import AliasChange, add_aliases, count_links, delete_aliases
from storage.alias_records import AliasSource, NewAlias
from storage.ann_setup import AnnSetup, read_setup
from storage.catalog import (
    insert_generation,
    live_segments,
    newest_generation,
)
from storage.creation import FirstIds, create_directory, migrated_settings, remove_leftovers
from storage.database import check_file_system, database_path
from storage.document_changes import add_documents, delete_documents
from storage.errors import (
    InvalidOptionError,
)
from storage.feedback_records import FeedbackRecord, NewFeedback
from storage.feedback_rows import FeedbackChange, add_feedback, copy_feedback, delete_feedback
from storage.index_kind import DEFAULT_KIND, LARGE_KIND, LARGE_ROWS
from storage.links import LinkCounts
from storage.lock import WriterLock
from storage.merger import Merger
from storage.merging import MAX_ROWS
from storage.opening import check_log
from storage.quantiser import Quantiser
from storage.records import JSON, Commit, NewDocument
from storage.reindexing import Reindexed, ReindexRequest, Stage, choose_indexed, reindex
from storage.session import WriteSession
from storage.settings import KBSettings, read_setting, write_setting
from storage.sizes import count_indexed
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
        self._merger = Merger(session, self._ann)
        self._setup: tuple[object, AnnSetup] | None = None

    # -- opening and closing

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        settings: KBSettings,
        *,
        code: Quantiser | None = None,
        quantiser: Quantiser | None = None,
        passages: Quantiser | None = None,
        first: FirstIds | None = None,
    ) -> KBWriter:
        """Create an empty knowledge base and return its writer; its directory appears whole or not at all.

        Args:
            path: Its directory.
            settings: What it is made with.
            code: What token vectors are stored in where the settings say 4 bits; None: measured on the first ones.
            quantiser: Of the index, where the kind of index needs one; None: trained when there are vectors.
            passages: Of the index of passage vectors, for shards that share one; None: segments have lists of their
                own.
            first: The ids given first; None: all from 1.

        Raises:
            KnowledgeBaseExistsError: The path exists and is not an empty directory.
            PlatformError: A network file system, or an SQLite that is too old.
        """
        target = Path(path)
        create_directory(target, settings, code, quantiser=quantiser, passages=passages, first=first)
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
        self._merger.close()
        self._session.close()
        self._lock.release()

    def __enter__(self) -> KBWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_usable(self) -> bool:
        """Whether it takes changes: after a failed sync only a writer that is opened anew knows what is on the disk."""
        return self._session.is_usable

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
        return self._merger.at_work

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
        with self._session.mutex:
            commit, self._settings = add_documents(
                self._session,
                self._settings,
                documents,
                replace=replace,
                op_id=op_id,
                build_position=build_position,
                ann=self._ann,
            )
        self._merge_if_due()
        return commit

    def delete(self, doc_ids: Iterable[str], *, op_id: str | None = None) -> Commit:
        """Delete documents and return the commit; it is one transaction and touches no file.

        Raises:
            UnknownDocumentError: Some ids are not there; then nothing was deleted.
        """
        count_links = self._settings.build_state != "building"
        return delete_documents(self._session, doc_ids, op_id=op_id, count_links=count_links)

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
        return self._merger.merge_small()

    def merge_all(self, *, max_rows: int = MAX_ROWS) -> int:
        """Merge until adjacent segments are as large as `max_rows` stored tokens allow; return the number of merges."""
        return self._merger.merge_all(max_rows=max_rows)

    def compact(self, *, purge: bool = False, max_rows: int = MAX_ROWS) -> int:
        """Drop vectors and texts of deleted and replaced documents; return the number of documents forgotten.

        With `purge`, free pages are overwritten and the database is written anew, so that no file of the knowledge
        base holds their bytes any more. Copies that you or a migration made are not touched.
        """
        return self._merger.compact(purge=purge, max_rows=max_rows)

    def wait_for_merging(self) -> None:
        """Wait until the background thread, if one runs, has ended."""
        self._merger.wait()

    def _merge_if_due(self) -> None:
        # While building, merging would compete with the encoder for the processor; the build ends with merge_all.
        if self._merge_in_background and self._settings.build_state != "building":
            self._merger.start_if_due()

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
        with self._merger.lock, self._session.mutex:
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

    def choose_kind(self, *, large_rows: int = LARGE_ROWS) -> None:
        """Let a knowledge base that is large have the kind of index for large ones, unless a kind was chosen.

        For the end of a build, before `merge_all` makes the index.
        """
        with self._session.mutex:
            settings = self._settings
            if "kind" in settings.ann:
                return
            with self._session.reading() as connection:
                rows = live_segments(connection)
            if count_indexed(self.path, rows, settings.indexed_from) < large_rows:
                return
            ann: dict[str, JSON] = {**settings.ann, "kind": LARGE_KIND}
            self._change_setting("ann", ann, operation="build")
            self._settings = dataclasses.replace(settings, ann=ann)

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
