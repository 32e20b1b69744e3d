"""Writers killed at random moments of random operations: the kernel ends them, nothing acknowledged is lost."""

from __future__ import annotations

import os
from pathlib import Path

from tests.storage import crash_child
from tests.storage.test_crash import Nursery, kill_many_times

KILLS = 20


def run(seed: int, scratch: Path, *, kills: int = KILLS) -> dict[str, int]:
    """So many kills, of children forked from a process that has imported everything and computed nothing."""
    acknowledged = kill_many_times(
        scratch / "kb", scratch, kills=kills, seed=1000 + seed, nursery=forked_nursery(), max_done=24
    )
    return {"kills": kills, "acknowledged": acknowledged}


def forked_nursery() -> Nursery:
    """A nursery that is forked off here, not started."""
    orders, answers = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(orders[1])
        with os.fdopen(orders[0]) as lines, os.fdopen(answers[1], "w") as told:
            crash_child.serve(lines, told)
        os._exit(0)
    os.close(orders[0])
    os.close(answers[1])
    return Nursery(os.fdopen(orders[1], "w"), os.fdopen(answers[0]), lambda: os.waitpid(pid, 0))
