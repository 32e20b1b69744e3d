"""Whether what was measured again and again stays what it was."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def check_flat(what: str, seen: Sequence[int], *, allowed: int) -> None:
    """After the first quarter nothing grows: the last quarter is what the second was, but for what is allowed."""
    quarter = len(seen) // 4
    if quarter >= 3:
        early, late = np.median(seen[quarter : 2 * quarter]), np.median(seen[-quarter:])
        assert late <= early + allowed, f"{what}: {early:.0f}, then {late:.0f}"


def own_memory_kb(process: int | str = "self") -> int:
    """How much memory a process has of its own: mapped files, which its page cache may hold, are not counted."""
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon:"))
