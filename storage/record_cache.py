"""Passages and documents that were read and checked a moment ago, for as long as the database is the same.

Answers to different questions stand in the same passages again and again: what is kept here is not read, compared with
its checksum and unpacked another time.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from storage.records import DocumentRecord, PassageRecord

__all__ = ["MAX_RECORDS", "RecordCache"]

MAX_RECORDS = 2048
"""Passages kept, and as many documents, and names: those used last; some 10 MB of passages of a hundred tokens."""

K = TypeVar("K")
V = TypeVar("V")


class RecordCache:
    """Records of one state of a database, known by its `PRAGMA data_version`; safe to share between threads.

    Whoever asks names the state: what another one had is forgotten first. What it returns may be changed by nobody but
    the documents' `meta`, which each caller has for itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version = -1
        self._passages: OrderedDict[int, PassageRecord] = OrderedDict()
        self._documents: OrderedDict[int, DocumentRecord] = OrderedDict()
        self._names: OrderedDict[str, bool] = OrderedDict()

    def passages_with_documents(
        self, version: int, passage_ids: Collection[int]
    ) -> tuple[dict[int, PassageRecord], dict[int, DocumentRecord]]:
        """Return those of the passages that are here together with their documents, both by id."""
        with self._lock:
            self._show(version)
            passages: dict[int, PassageRecord] = {}
            documents: dict[int, DocumentRecord] = {}
            for passage_id in passage_ids:
                passage = self._passages.get(passage_id)
                document = None if passage is None else self._documents.get(passage.document_id)
                if passage is not None and document is not None:
                    self._passages.move_to_end(passage_id)
                    passages[passage_id] = passage
                    if passage.document_id not in documents:
                        self._documents.move_to_end(passage.document_id)
                        documents[passage.document_id] = _own(document)
            return passages, documents

    def keep(
        self, version: int, passages: Mapping[int, PassageRecord], documents: Mapping[int, DocumentRecord]
    ) -> None:
        """Keep what was read of this state of the database."""
        with self._lock:
            if version == self._version:
                _add(self._passages, passages)
                _add(self._documents, {key: _own(document) for key, document in documents.items()})

    def known_names(
        self, version: Callable[[], int], names: Collection[str], look_up: Callable[[Collection[str]], Collection[str]]
    ) -> frozenset[str]:
        """Return those of the names that are known, those not asked for before as `look_up` says.

        Args:
            version: Returns the state of the database now.
            names: What may be names.
            look_up: Returns those that are, of some.
        """
        now = version()
        with self._lock:
            self._show(now)
            known = {name: self._names[name] for name in names if name in self._names}
        rest = [name for name in names if name not in known]
        if rest:
            found = look_up(rest)
            new = {name: name in found for name in rest}
            known.update(new)
            if version() == now:  # otherwise some of it may be of a commit since then
                with self._lock:
                    if now == self._version:
                        _add(self._names, new)
        return frozenset(name for name, is_known in known.items() if is_known)

    def _show(self, version: int) -> None:
        if version != self._version:
            self._version = version
            for kept in (self._passages, self._documents, self._names):
                kept.clear()


def _own(document: DocumentRecord) -> DocumentRecord:
    return replace(document, meta=copy.deepcopy(document.meta) if document.meta else {})


def _add(kept: OrderedDict[K, V], new: Mapping[K, V]) -> None:
    kept.update(new)
    while len(kept) > MAX_RECORDS:
        kept.popitem(last=False)
