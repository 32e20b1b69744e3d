"""Small shards are put together in the background: each change makes one, and a search asks them all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kbengine.cluster.plan import CREATED_AT
from kbengine.errors import KBError
from kbengine.version import __version__
from storage.cluster import Cluster
from storage.cluster_compaction import CompactionLimits, compact_step
from storage.errors import CatalogUnavailableError, LockedError
from storage.generation_manifest import ShardEntry

_log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often it is looked whether something is due; what others change is seen so, too."""
MOST_PAUSE_S = 600.0
"""After failures it is looked less often, at last so often."""
ENDS_S = 10.0
"""How long closing waits for the step under way, which asks between its parts whether to go on."""


@dataclass(frozen=True)
class CompactionCounts:
    """What was done so far: shards made of others, how many went into them, attempts that failed."""

    made: int = 0
    replaced: int = 0
    failed: int = 0


class Compacting:
    """A thread that puts small shards of a cluster together, one step after the other, as long as it is open.

    Of several services that do this for one cluster, one does it at a time. Killed, it has changed nothing, and
    another may go on after a minute.

    Args:
        cluster: which; searched and changed meanwhile.
        limits: what is due.
        scratch: a folder for what is made on the way.
        uploaded: told of a new shard, and the names of those in whose place it comes, before searches see it.
        look_s: how often it is looked whether something is due.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: CompactionLimits,
        scratch: Path,
        uploaded: Callable[[ShardEntry, frozenset[str]], None],
        look_s: float = LOOK_S,
    ) -> None:
        self._cluster = cluster
        self._limits = limits
        self._scratch = scratch
        self._uploaded = uploaded
        self._look_s = look_s
        self._replaces: frozenset[str] = frozenset()
        self.counts = CompactionCounts()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kbengine-compacting", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; a step under way is given up, which costs nothing but its work."""
        self._closed.set()
        self._thread.join(ENDS_S)

    def _run(self) -> None:
        pause_s = self._look_s
        while not self._closed.wait(pause_s):
            try:
                pause_s = 0.0 if self._step() else self._look_s
            except (LockedError, CatalogUnavailableError):  # another does it, or the next look may go better
                pause_s = self._look_s
            except KBError as error:
                pause_s = self._failed(pause_s, error.message)
            except Exception as error:  # whatever it was, searching goes on
                if not self._closed.is_set():
                    _log.debug("putting shards together failed", exc_info=True)
                    pause_s = self._failed(pause_s, f"{type(error).__name__}: {error}")

    def _step(self) -> bool:
        made = compact_step(
            self._cluster,
            self._limits,
            created_at=CREATED_AT,
            kbengine_version=__version__,
            scratch=self._scratch,
            goes_on=lambda: not self._closed.is_set(),
            uploaded=self._note,
        )
        if made is None:
            return False
        counts, n = self.counts, len(self._replaces)
        self.counts = CompactionCounts(counts.made + 1, counts.replaced + n, counts.failed)
        _log.info("generation %d has one shard in the place of %d", made.generation, n)
        return True

    def _note(self, entry: ShardEntry, old: frozenset[str]) -> None:
        self._replaces = old
        self._uploaded(entry, old)

    def _failed(self, pause_s: float, what: str) -> float:
        counts = self.counts
        self.counts = CompactionCounts(counts.made, counts.replaced, counts.failed + 1)
        longer_s = min(MOST_PAUSE_S, 2 * max(pause_s, self._look_s))
        _log.warning("small shards stay as they are, tried again in %.0f s: %s", longer_s, what)
        return longer_s
