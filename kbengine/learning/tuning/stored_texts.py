"""What is stored about the passages that searches found: ids of documents, titles, texts; each read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.records import PassageRecord
    from storage.snapshot import Snapshot

Int64 = NDArray[np.int64]

MAX_PASSAGES = 1 << 16
"""Passages whose text is kept: some 100 MB."""


class DocumentName(NamedTuple):
    """A document's id, the user's, and its title."""

    doc_id: str
    title: str


class StoredTexts:
    """Documents and passages by their internal ids.

    A search finds a hundred passages and tuning searches for every row in every epoch, so they are kept: neither
    changes while its internal id is the same.

    Attributes:
        documents: By id, those read so far.
        passages: By id, likewise.
    """

    def __init__(self, reader: KBReader) -> None:
        self._reader = reader
        self.documents: dict[int, DocumentName] = {}
        self.passages: dict[int, PassageRecord] = {}
        self._generation: int | None = None

    def use(self, snapshot: Snapshot) -> None:
        """Forget what an earlier commit's snapshot was told: the newest may have forgotten documents."""
        if snapshot.generation != self._generation:
            self.documents, self.passages, self._generation = {}, {}, snapshot.generation

    def read_documents(self, document_ids: Int64) -> bool:
        """Return whether every document is known now; false when a commit forgot some."""
        missing = set(document_ids.tolist()) - self.documents.keys()
        if missing:
            found = self._reader.documents(sorted(missing))
            self.documents |= {id_: DocumentName(each.doc_id, each.title) for id_, each in found.items()}
        return missing <= self.documents.keys()

    def read_passages(self, passage_ids: Int64) -> bool:
        """Return whether every passage is known now; false when a commit forgot some."""
        if len(self.passages) > MAX_PASSAGES:
            self.passages = {}
        wanted = set(passage_ids.tolist())
        missing = wanted - self.passages.keys()
        if missing:
            self.passages |= self._reader.passages(sorted(missing))
        return wanted <= self.passages.keys()


def phrase_offsets(passage: PassageRecord, first_tokens: Int64, last_tokens: Int64) -> tuple[Int64, Int64] | None:
    """Return where phrases begin and end in the passage's text, in characters, both int64 (c,).

    None when the passage stores one of their tokens no more.

    Args:
        passage: as stored.
        first_tokens: int64 (c,), ids of the first tokens.
        last_tokens: int64 (c,), of the last ones.
    """
    offsets = passage.offsets
    spans = []
    for tokens, characters in ((first_tokens, offsets.starts), (last_tokens, offsets.ends)):
        wanted = tokens - passage.first_token_id
        at = np.minimum(np.searchsorted(offsets.numbers, wanted), len(offsets.numbers) - 1)
        if (offsets.numbers[at] != wanted).any():
            return None
        spans.append(characters[at].astype(np.int64))
    return spans[0], spans[1]
