"""Run by the soak before the words of a command, which it does in a process whose calls fail now and then.

Only calls of threads fail, so the service starts; each failure is a line of JSON beside those of the service's log.
"""

from __future__ import annotations

import errno
import json
import os
import random
import sys
import threading
from contextvars import ContextVar
from pathlib import Path

from storage import operating_system
from tests.storage.failing_calls import FailingCalls

RATE = 0.004


def main(seed: str, *command: str) -> None:
    """Do what a command says, given as `PYTHON -m kbengine.cli ARGUMENTS`."""
    generator = random.Random(int(seed))
    main_thread = threading.main_thread()

    def wanted(call: str, _path: Path | None) -> bool:
        if threading.current_thread() is main_thread or generator.random() >= RATE:
            return False
        os.write(2, (json.dumps({"event": "a call fails", "call": call}) + "\n").encode())
        return True

    calls = FailingCalls(errno.EIO, wanted)
    operating_system._CURRENT = ContextVar("operating_system", default=calls)
    sys.argv = ["kbengine", *command[3:]]
    from kbengine.cli import main as kbengine

    kbengine()


if __name__ == "__main__":
    main(*sys.argv[1:])
