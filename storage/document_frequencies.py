"""How many documents have each term: what many knowledge bases have to add up to weigh a term alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["document_frequencies"]


def document_frequencies(
    posting_starts: NDArray[np.int64], posting_passages: NDArray[np.uint32], document_ids: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Return the number of documents that have each term, uint32 (t).

    A term's postings rise by passage, and passages stand side by side by document: each change of document counts.

    Args:
        posting_starts: int64 (t + 1), where each term's postings start; each has some.
        posting_passages: uint32 (q), passage indices.
        document_ids: int64 (p), each passage's document.
    """
    if len(posting_starts) < 2:
        return np.zeros(0, dtype=np.uint32)
    documents = document_ids[posting_passages]
    begins = np.append(True, documents[1:] != documents[:-1])[: len(documents)]
    begins[posting_starts[:-1]] = True
    counts = np.add.reduceat(begins, posting_starts[:-1], dtype=np.int64)
    return counts.astype(np.uint32)
