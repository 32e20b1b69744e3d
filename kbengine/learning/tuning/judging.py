"""Which of the phrases that a search found are right, by each loss; what is read for it is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.corpus.normalise import norm
from kbengine.learning.tuning.losses import Loss
from kbengine.learning.tuning.rows import TuningRow

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.records import PassageRecord
    from storage.snapshot import Snapshot

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

MAX_PASSAGES = 1 << 16
"""Passages whose text is kept: some 100 MB."""


@dataclass(frozen=True)
class FoundPhrases:
    """The distinct phrases found for one query: global rows and snapshot passage indices, int64 (c,)."""

    first_rows: Int64
    last_rows: Int64
    passages: Int64


class Judge:
    """Tells right phrases from wrong ones.

    A search finds a hundred passages and tuning searches for every row in every epoch, so ids of documents and texts
    of passages are kept: neither changes while its internal id is the same.
    """

    def __init__(self, reader: KBReader, loss: Loss) -> None:
        self._reader = reader
        self._loss = loss
        self._doc_ids: dict[int, str] = {}
        self._passages: dict[int, PassageRecord] = {}
        self._generation: int | None = None

    def judge(self, snapshot: Snapshot, rows: Sequence[TuningRow], found: Sequence[FoundPhrases]) -> list[Bool] | None:
        """Return for each row which of its phrases are right, bool (c,); None when a commit forgot some of them."""
        if snapshot.generation != self._generation:
            # A commit may have forgotten documents, and with them the tokens that a passage's record speaks of.
            self._doc_ids, self._passages, self._generation = {}, {}, snapshot.generation
        if not self._read_documents(snapshot.document_ids[np.concatenate([each.passages for each in found])]):
            return None
        # A gold document is known by its id: no text is read for it.
        read = [each.passages for row, each in zip(rows, found, strict=True) if row.right_by(self._loss) != "doc"]
        if read and not self._read_passages(snapshot.passage_ids[np.unique(np.concatenate(read))]):
            return None
        judged = []
        for row, each in zip(rows, found, strict=True):
            is_right = self._judged(snapshot, row, each)
            if is_right is None:
                return None
            judged.append(is_right)
        return judged

    def _read_documents(self, document_ids: Int64) -> bool:
        """Return whether the id of every document is known now."""
        missing = set(document_ids.tolist()) - self._doc_ids.keys()
        if missing:
            self._doc_ids |= {id_: each.doc_id for id_, each in self._reader.documents(sorted(missing)).items()}
        return missing <= self._doc_ids.keys()

    def _read_passages(self, passage_ids: Int64) -> bool:
        """Return whether every passage is known now."""
        if len(self._passages) > MAX_PASSAGES:
            self._passages = {}
        missing = set(passage_ids.tolist()) - self._passages.keys()
        if missing:
            self._passages |= self._reader.passages(sorted(missing))
        return missing <= self._passages.keys()

    def _judged(self, snapshot: Snapshot, row: TuningRow, found: FoundPhrases) -> Bool | None:
        right = row.right_by(self._loss)
        passages, of = np.unique(found.passages, return_inverse=True)
        documents = [self._doc_ids[id_] for id_ in snapshot.document_ids[passages].tolist()]
        of_passages = np.array([doc_id in row.doc_ids for doc_id in documents], dtype=np.bool_)
        if right == "doc":
            return of_passages[of]
        records = [self._passages[id_] for id_ in snapshot.passage_ids[passages].tolist()]
        if right == "passage":
            ordinals = [record.ordinal for record in records]
            is_gold = [each in row.passages for each in zip(documents, ordinals, strict=True)]
            return np.array(is_gold, dtype=np.bool_)[of]
        is_right = np.zeros(len(of), dtype=np.bool_)
        answers = {norm(answer) for answer in row.answers}
        for number, record in enumerate(records):
            if right == "joint" and not of_passages[number]:
                continue
            at = np.flatnonzero(of == number)
            first, last = found.first_rows[at], found.last_rows[at]
            texts = _texts(record, snapshot.token_ids_of_rows(first), snapshot.token_ids_of_rows(last))
            if texts is None:
                return None
            is_right[at] = [norm(text) in answers for text in texts]
        return is_right


def _texts(passage: PassageRecord, first_tokens: Int64, last_tokens: Int64) -> list[str] | None:
    """Return the text of each phrase of a passage; None when it stores one of their tokens no more."""
    offsets = passage.offsets
    spans = []
    for tokens, characters in ((first_tokens, offsets.starts), (last_tokens, offsets.ends)):
        wanted = tokens - passage.first_token_id
        at = np.minimum(np.searchsorted(offsets.numbers, wanted), len(offsets.numbers) - 1)
        if (offsets.numbers[at] != wanted).any():
            return None
        spans.append(characters[at].tolist())
    return [passage.text[start:end] for start, end in zip(*spans, strict=True)]
