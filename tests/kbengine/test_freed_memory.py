"""Memory between the chunks of a build."""

from __future__ import annotations

import platform
import sys

from kbengine.build.freed_memory import return_freed_memory


def test_freed_memory_is_returned_where_there_is_a_way_to():
    """With glibc; anywhere else nothing is done, and told so."""
    assert return_freed_memory() == (sys.platform == "linux" and platform.libc_ver()[0] == "glibc")
