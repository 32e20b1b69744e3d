"""Merging and compaction of an open knowledge base, one at a time, on demand or in a thread of its own."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable

from storage.ann_setup import AnnSetup
from storage.catalog import live_segments
from storage.compaction import compact
from storage.errors import InvalidOptionError, KBError, StorageFullError
from storage.merging import MAX_ROWS, merge_and_commit, plan_groups, plan_merge, segment_size
from storage.session import WriteSession

__all__ = ["Merger"]

_log = logging.getLogger(__name__)


class Merger:
    """Merges the segments of one writer.

    Attributes:
        lock: Held while segments are merged, compacted or changed otherwise.
    """

    def __init__(self, session: WriteSession, ann: Callable[[], AnnSetup]) -> None:
        self.lock = threading.Lock()
        self._session = session
        self._ann = ann
        self._thread: threading.Thread | None = None
        self._closing = False

    @property
    def at_work(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def merge_small(self) -> bool:
        """Merge a full tier of adjacent small segments; return whether one was due."""
        with self.lock:
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
        with self.lock:
            with self._session.reading() as connection:
                rows = live_segments(connection)
            for group in plan_groups([segment_size(row) for row in rows], max_size=max_rows):
                if len(group) > 1:
                    members = [rows[position] for position in group]
                    n_merges += merge_and_commit(self._session, members, ann=self._ann())
        return n_merges

    def compact(self, *, purge: bool = False, max_rows: int = MAX_ROWS) -> int:
        """Drop what is dead; return the number of documents forgotten."""
        with self.lock:
            return compact(self._session, purge=purge, max_rows=max_rows, ann=self._ann())

    def start_if_due(self) -> None:
        """Begin to merge in the background, where that is due and not under way."""
        with self._session.mutex:
            if self.at_work:
                return
            with self._session.reading() as connection:
                due = plan_merge([segment_size(row) for row in live_segments(connection)])
            if due is not None:
                self._thread = threading.Thread(
                    target=contextvars.copy_context().run, args=(self._merge_until_done,), name="kbengine-merge"
                )
                self._thread.start()

    def wait(self) -> None:
        """Wait until the thread, if one runs, has ended."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def close(self) -> None:
        """End after the merge that is under way."""
        self._closing = True
        self.wait()

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
