"""How a process keeps its memory: what training on a processor needs besides fast kernels."""

from __future__ import annotations

import ctypes
import platform
import sys

# Names and meanings as in glibc's malloc.h and mallopt(3): nothing is mapped by itself, freed memory is never
# returned, the heap grows by 64 MiB.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4
_SETTINGS = {_M_MMAP_MAX: 0, _M_TRIM_THRESHOLD: -1, _M_TOP_PAD: 2**26}


def keep_freed_memory() -> bool:
    """Return whether the process from now on keeps the memory of freed arrays for the next ones: with glibc only.

    By default glibc gives every large block back to the system and gets it anew, page by page and zeroed: a third of a
    training step. The process then never shrinks again, so this is for those that train and end, and the
    application's choice like `set_thread_defaults`; the training commands make it.
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return all(mallopt(name, value) == 1 for name, value in _SETTINGS.items())
