"""Answers kept for as long as nothing they depend on has changed: a new commit has new keys, so nothing goes stale."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

MAX_BYTES = 64 << 20
"""Of all answers kept, counted as JSON; in memory they take a few times as much."""


def request_key(*request: object) -> str:
    """Return the name of a request: of what is asked and how, and of nothing else.

    Args:
        *request: Frozen dataclasses or plain values, whose `repr` tells them apart.
    """
    return hashlib.sha256(repr(request).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def cache_tag(key: str, generation: int, encoder: str) -> str:
    """Return the name of an answer: of the request's key, the generation searched and the encoder's fingerprint."""
    return f"{key}-{generation}-{encoder[:16]}"


class ResultCache:
    """The last answers used, at most so many and so many bytes; safe to use from several threads."""

    def __init__(self, entries: int, max_bytes: int = MAX_BYTES) -> None:
        self._entries = entries
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[Mapping[str, Any], int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, tag: str) -> Mapping[str, Any] | None:
        """Return the answer of that name, None when it is not kept."""
        with self._lock:
            found = self._kept.get(tag)
            if found is None:
                return None
            self._kept.move_to_end(tag)
            return found[0]

    def put(self, tag: str, answer: Mapping[str, Any], n_bytes: int) -> None:
        """Keep an answer of so many bytes of JSON, and forget those that were not used for longest."""
        if self._entries == 0 or n_bytes > self._max_bytes // 8:
            return
        with self._lock:
            self._forget(tag)
            self._kept[tag] = (answer, n_bytes)
            self._bytes += n_bytes
            while len(self._kept) > self._entries or self._bytes > self._max_bytes:
                self._forget(next(iter(self._kept)))

    def _forget(self, tag: str) -> None:
        _, n_bytes = self._kept.pop(tag, (None, 0))
        self._bytes -= n_bytes
