"""Changes of the knowledge base: one after the other, in one thread, each under the name its caller gave it."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from web.errors import IdempotencyConflictError, QueueFullError, StoppingError

if TYPE_CHECKING:
    from kbengine.knowledge_base import KnowledgeBase

T = TypeVar("T")

MAX_WAITING_WRITES = 16
_DIGITS = 32


def operation_name(op_id: str, payload: Any) -> str:
    """Return the name under which the operation is committed: the caller's name and what was asked, both hashed.

    The payload is part of it, so that one name used for two different things is noticed, also after a restart.
    """
    text = json.dumps(payload, sort_keys=True, ensure_ascii=True, default=_plain)
    return f"{_prefix(op_id)}{_digest(text)}"


class WriteQueue:
    """The one thread that changes a knowledge base; callers wait for their change to be durable.

    Attributes:
        pending: How many changes are running or waiting.
    """

    def __init__(self, knowledge_base: KnowledgeBase) -> None:
        self._knowledge_base = knowledge_base
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kbengine-writes")
        self._lock = threading.Lock()
        self.pending = 0
        self._last = time.monotonic()
        self._stopping = False

    @property
    def idle_s(self) -> float:
        """Return the seconds since the last change ended; 0 while one is under way."""
        return 0.0 if self.pending else time.monotonic() - self._last

    def run(self, change: Callable[..., T], *arguments: Any, op_id: str | None = None, **keywords: Any) -> T:
        """Return what a change did, such as `knowledge_base.add`: durable, and in every query from now on.

        Args:
            change: A method of the knowledge base, called with the operation's name after all earlier changes.
            *arguments: What it is called with.
            op_id: The caller's name for the change: with the same name it is done once.
            **keywords: What it is called with, too.

        Raises:
            QueueFullError: too many changes wait.
            IdempotencyConflictError: `op_id` named a change with another payload before.
            StoppingError: the service is stopping.
            KBError: what the change itself raises; then nothing was changed.
        """
        with self._lock:
            if self._stopping:
                raise StoppingError("the service is stopping; send the change to it again when it is back")
            if self.pending >= MAX_WAITING_WRITES:
                raise QueueFullError(
                    f"{self.pending} changes are waiting, {MAX_WAITING_WRITES} may; try again later", retry_after_s=5
                )
            done = self._pool.submit(self._change, change, arguments, keywords, op_id)
            self.pending += 1
        try:
            made = done.result()
            self._knowledge_base.warm_up()  # segments are opened now rather than in the next query
            return made
        finally:
            with self._lock:
                self.pending -= 1
                self._last = time.monotonic()

    def close(self) -> None:
        """Finish the changes that were accepted and refuse later ones."""
        with self._lock:
            self._stopping = True
        self._pool.shutdown(wait=True)

    def _change(
        self, change: Callable[..., T], arguments: Sequence[Any], keywords: Mapping[str, Any], op_id: str | None
    ) -> T:
        if op_id is None:
            return change(*arguments, **keywords)
        payload = [change.__name__.replace("_", " "), *arguments, *keywords.values()]
        name = operation_name(op_id, payload)
        earlier = self._knowledge_base.reader.op_ids(_prefix(op_id))
        if earlier and name not in earlier:
            raise IdempotencyConflictError(
                "this idempotency key was used for something else before; use a new key for each change, and the same "
                "one only to send the same change again"
            )
        return change(*arguments, **keywords, op_id=name)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def _prefix(op_id: str) -> str:
    return f"http:{_digest(op_id)}:"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
