"""Waiting for what other threads and processes do: for the thing itself, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

HANG_S = 120.0
"""After so long nothing is slow any more: it hangs, and the test fails instead of standing still."""


def wait_until(condition: Callable[[], object], *, interval_s: float = 0.005, hang_s: float = HANG_S) -> None:
    """Wait until the condition holds, for `hang_s` seconds at most."""
    until = time.monotonic() + hang_s
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(interval_s)
