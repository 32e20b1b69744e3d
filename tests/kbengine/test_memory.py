"""How a process keeps its memory."""

from __future__ import annotations

import platform
import subprocess
import sys

CODE = """
import numpy as np
from kbengine.learning.loop.memory import keep_freed_memory
kept = keep_freed_memory()
def pages():
    return int(open("/proc/self/statm").read().split()[1]) if kept else 0
block = np.ones(2**24); before = pages(); del block
print(kept, pages() > before - 2**10)
"""


def test_freed_memory_stays_with_the_process_where_glibc_is():
    """128 MiB are freed and still resident; in a process of its own, for it cannot be undone. Elsewhere: told so."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)

    is_glibc = sys.platform == "linux" and platform.libc_ver()[0] == "glibc"
    assert done.stdout.split() == [str(is_glibc), str(is_glibc)]
