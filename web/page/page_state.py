"""What the page keeps between requests, per app: examples, and documents that can still be brought back."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from flask import current_app

from kbengine.corpus.document import CorpusDocument
from web.page.examples import Examples

PAGE_STATE = "kbengine_page"

MAX_DELETED = 50
MAX_DELETED_CHARS = 64_000_000


@dataclass(frozen=True)
class Deleted:
    """A document that was deleted on the page, as it can be added again, and the commit that deleted it."""

    document: CorpusDocument
    generation: int

    @property
    def n_chars(self) -> int:
        """Return how much text it holds."""
        return sum(len(passage.text) for passage in self.document.passages)


class RecentlyDeleted:
    """The last documents deleted on this page, under random tokens; the oldest are forgotten first."""

    def __init__(self, *, max_documents: int = MAX_DELETED, max_chars: int = MAX_DELETED_CHARS) -> None:
        self._lock = threading.Lock()
        self._deleted: OrderedDict[str, Deleted] = OrderedDict()
        self._max_documents, self._max_chars = max_documents, max_chars

    def keep(self, deleted: Deleted) -> str:
        """Return the token under which the document can be found."""
        token = secrets.token_urlsafe(16)
        with self._lock:
            self._deleted[token] = deleted
            while len(self._deleted) > self._max_documents or (
                len(self._deleted) > 1 and sum(one.n_chars for one in self._deleted.values()) > self._max_chars
            ):
                self._deleted.popitem(last=False)
        return token

    def find(self, token: str) -> Deleted | None:
        """Return the document, or None when it was forgotten or brought back."""
        with self._lock:
            return self._deleted.get(token)

    def forget(self, token: str) -> None:
        """Forget the document: it cannot be brought back any more."""
        with self._lock:
            self._deleted.pop(token, None)


class PageState:
    """What one app's page keeps; `asset_version` is the same as long as its styles and scripts are."""

    def __init__(self, static_folder: Path) -> None:
        self.examples = Examples()
        self.recently_deleted = RecentlyDeleted()
        digest = hashlib.sha256()
        for path in sorted(static_folder.iterdir()):
            digest.update(path.name.encode() + path.read_bytes())
        self.asset_version = digest.hexdigest()[:12]


def current_page_state() -> PageState:
    """Return the state of the app that handles the current request."""
    kept = current_app.extensions[PAGE_STATE]
    assert isinstance(kept, PageState)
    return kept
