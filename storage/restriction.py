"""Snapshots restricted to the documents that pass a filter, kept as long as nothing is committed."""

from __future__ import annotations

import threading
from collections import OrderedDict

from storage.snapshot import Snapshot

__all__ = ["Restrictions"]

# Each may hold the codes of the rows that pass, up to 30,000, and a bit for every row of the knowledge base.
_MAX_KEPT = 8


class Restrictions:
    """The restrictions of one snapshot that were asked for last; safe to share between threads."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self._snapshot = snapshot
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, Snapshot] = OrderedDict()

    def get(self, snapshot: Snapshot, where: str) -> Snapshot | None:
        """Return the snapshot restricted by the filter if it was kept."""
        with self._lock:
            if snapshot is not self._snapshot or where not in self._kept:
                return None
            self._kept.move_to_end(where)
            return self._kept[where]

    def keep(self, snapshot: Snapshot, where: str, restricted: Snapshot) -> None:
        """Keep a restricted snapshot, unless it is of another snapshot than these."""
        with self._lock:
            if snapshot is self._snapshot:
                self._kept[where] = restricted
                while len(self._kept) > _MAX_KEPT:
                    self._kept.popitem(last=False)
