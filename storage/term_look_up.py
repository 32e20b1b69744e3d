"""Terms looked up in a snapshot, one by one: which documents have a title, which passages a word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from storage.snapshot import Snapshot
from storage.terms import name_term

__all__ = ["passages_with", "titled"]


def titled(snapshot: Snapshot, names: Sequence[str], *, limit: int) -> list[list[int]]:
    """Return for each name the ids of the first documents that have it as title, qualifiers aside, rising.

    Args:
        snapshot: What is looked into.
        names: The names; one without a word is nobody's title.
        limit: How many documents of each.
    """
    found: list[list[int]] = []
    for name in names:
        term = name_term(name)
        passages = snapshot.passages_with_term(term) if term != name_term("") else np.zeros(0, dtype=np.int64)
        found.append(np.unique(snapshot.document_ids[passages])[:limit].tolist())
    return found


def passages_with(snapshot: Snapshot, term: str, places: Sequence[int]) -> list[int]:
    """Return the ids of some of the passages that have a term, by their places in the order of ids."""
    passages = snapshot.passages_with_term(term)
    ids: list[int] = snapshot.passage_ids[passages[np.asarray(places, dtype=np.int64)]].tolist()
    return ids
