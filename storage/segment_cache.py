"""Opened segments, shared by all snapshots of a reader; large merged ones are opened in the background.

Opening makes the index where no file holds it: milliseconds for the segment of one add, more for a large merge. What is
stored is checked where it is read first (`storage.stored_array`), and lists are filled when a search looks into them
(`storage.list_filling`). A merged segment holds nothing that its sources do not hold, so as long as the sources are
open they go on answering.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from storage.ann_options import AnnOptions
from storage.ann_setup import AnnSetup, read_setup
from storage.catalog import SegmentRow
from storage.errors import KBError
from storage.gpu import IndexDevice
from storage.segment import open_segment, segment_path
from storage.session import INDEX_DIRECTORY, SEGMENT_DIRECTORY
from storage.settings import KBSettings
from storage.snapshot import LoadedSegment

__all__ = ["DEFER_ROWS", "SegmentCache"]

DEFER_ROWS = 50_000
"""Segments of at least this many rows are opened in the background when their sources are still open."""

_log = logging.getLogger(__name__)


class SegmentCache:
    """The open segments of one reader, by name. All methods but `forget_except` may be called from any thread."""

    def __init__(self, directory: Path, *, device: IndexDevice = "cpu", whole: bool = False) -> None:
        """`use` says how segments are searched before the first one is opened; `whole`: every byte is checked then."""
        self._whole = whole
        self._directory = directory
        self._device = device
        self._lock = threading.Lock()
        self._made_for: object = None
        self._setup = AnnSetup(AnnOptions())
        self._loaded: dict[str, LoadedSegment] = {}
        # Opened under other settings; the checked file goes on being used, its index is made anew.
        self._outdated: dict[str, LoadedSegment] = {}
        self._threads: dict[str, threading.Thread] = {}

    def use(self, settings: KBSettings) -> None:
        """Search segments as these settings say from now on."""
        wanted = settings.search_facts
        if wanted == self._made_for:
            return
        setup = read_setup(self._directory / SEGMENT_DIRECTORY, settings, device=self._device)
        with self._lock:
            self._made_for, self._setup = wanted, setup
            self._outdated |= self._loaded
            self._loaded = {}

    def get(self, row: SegmentRow) -> LoadedSegment:
        """Return the opened segment; opened and checked now when it is not there yet.

        Raises:
            CorruptError: The file is missing (`__cause__` is FileNotFoundError) or is not what was written.
        """
        name = row.file.name
        with self._lock:
            loaded = self._loaded.get(name)
            outdated, setup = self._outdated.get(name), self._setup
        if loaded is None:
            if outdated is not None:
                segment = outdated.segment
            else:
                path = segment_path(self._directory / SEGMENT_DIRECTORY, name)
                segment = open_segment(path, row.file, whole=self._whole)
            loaded = LoadedSegment(segment, *setup.load(self._directory / INDEX_DIRECTORY, segment))
            with self._lock:
                if setup is self._setup:
                    loaded = self._loaded.setdefault(name, loaded)
                    self._outdated.pop(name, None)
        return loaded

    def opened(self, names: Sequence[str]) -> list[LoadedSegment] | None:
        """Return the segments of these names, None unless all of them are open."""
        with self._lock:
            if not names or any(name not in self._loaded for name in names):
                return None
            return [self._loaded[name] for name in names]

    def open_later(self, row: SegmentRow, when_done: Callable[[], None]) -> None:
        """Open the segment in a thread, which then calls `when_done`. A failure shows when `get` tries again."""

        def work() -> None:
            try:
                self.get(row)
            except KBError as error:
                _log.warning("opening a merged segment failed: %s", error.message)
            finally:
                when_done()
                with self._lock:
                    self._threads.pop(row.file.name, None)

        with self._lock:
            if row.file.name in self._threads:
                return
            thread = threading.Thread(target=work, name="kbengine-open", daemon=True)
            self._threads[row.file.name] = thread
        thread.start()

    def forget_except(self, names: set[str]) -> None:
        """Drop all segments but these; snapshots that use the others keep them alive."""
        with self._lock:
            self._loaded = {name: loaded for name, loaded in self._loaded.items() if name in names}
            self._outdated = {name: loaded for name, loaded in self._outdated.items() if name in names}

    def wait(self) -> None:
        """Wait until the segments that are being opened in the background are open (or failed)."""
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join()
