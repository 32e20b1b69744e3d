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
from kbengine.learning.tuning.stored_texts import StoredTexts, phrase_offsets

if TYPE_CHECKING:
    from storage.records import PassageRecord
    from storage.snapshot import Snapshot

Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class FoundPhrases:
    """The distinct phrases found for one query: global rows and snapshot passage indices, int64 (c,)."""

    first_rows: Int64
    last_rows: Int64
    passages: Int64


class Judge:
    """Tells right phrases from wrong ones, by what is stored about them."""

    def __init__(self, texts: StoredTexts, loss: Loss) -> None:
        self._texts = texts
        self._loss = loss

    def judge(self, snapshot: Snapshot, rows: Sequence[TuningRow], found: Sequence[FoundPhrases]) -> list[Bool] | None:
        """Return for each row which of its phrases are right, bool (c,); None when a commit forgot some of them."""
        self._texts.use(snapshot)
        if not self._texts.read_documents(snapshot.document_ids[np.concatenate([each.passages for each in found])]):
            return None
        # A gold document is known by its id: no text is read for it.
        read = [each.passages for row, each in zip(rows, found, strict=True) if row.right_by(self._loss) != "doc"]
        if read and not self._texts.read_passages(snapshot.passage_ids[np.unique(np.concatenate(read))]):
            return None
        judged = []
        for row, each in zip(rows, found, strict=True):
            is_right = self._judged(snapshot, row, each)
            if is_right is None:
                return None
            judged.append(is_right)
        return judged

    def _judged(self, snapshot: Snapshot, row: TuningRow, found: FoundPhrases) -> Bool | None:
        right = row.right_by(self._loss)
        passages, of = np.unique(found.passages, return_inverse=True)
        documents = [self._texts.documents[id_].doc_id for id_ in snapshot.document_ids[passages].tolist()]
        of_passages = np.array([doc_id in row.doc_ids for doc_id in documents], dtype=np.bool_)
        if right == "doc":
            return of_passages[of]
        records = [self._texts.passages[id_] for id_ in snapshot.passage_ids[passages].tolist()]
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
    offsets = phrase_offsets(passage, first_tokens, last_tokens)
    if offsets is None:
        return None
    return [passage.text[start:end] for start, end in zip(*(each.tolist() for each in offsets), strict=True)]
