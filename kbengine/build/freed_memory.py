"""Giving freed memory back to the system between the parts of a long piece of work."""

from __future__ import annotations

import ctypes
import platform
import sys


def return_freed_memory() -> bool:
    """Give the memory of freed arrays back to the system, and return whether there was a way to: with glibc only.

    glibc keeps what was freed between blocks that are still in use. The arrays of one chunk are freed while those of
    the next are being made, so without this a build takes more memory with every chunk.
    """
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return False
    return True
