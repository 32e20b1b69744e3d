"""Ctrl-C during training: the step in progress ends, a checkpoint is written, and only then the program stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

Stop = Callable[[], bool]


def never() -> bool:
    """Return False: nothing asks to stop."""
    return False


@contextmanager
def stop_on_interrupt() -> Iterator[Stop]:
    """Give a function that tells whether Ctrl-C or SIGTERM has come; a second one stops the program at once.

    Outside the main thread signals cannot be caught: the function then always says no.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield never
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        asked.set()
        restore()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield asked.is_set
    finally:
        restore()
