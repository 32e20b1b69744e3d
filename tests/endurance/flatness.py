"""Whether what was measured again and again stays what it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def check_flat(what: str, seen: Sequence[int], *, allowed: int) -> None:
    """After the first quarter nothing grows: the last quarter is what the second was, but for what is allowed."""
    quarter = len(seen) // 4
    if quarter >= 3:
        early, late = np.median(seen[quarter : 2 * quarter]), np.median(seen[-quarter:])
        assert late <= early + allowed, f"{what}: {early:.0f}, then {late:.0f}"
