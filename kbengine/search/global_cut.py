"""The best of what several shards have found, as one shard would have ranked it.

Each shard's list is in the order of all, so what stays of it is its beginning; with one shard there is nothing to cut
but its end.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import StateError
from kbengine.search.shard_answers import Nearest, Ranked, RankedPhrases
from storage.coded_search import nearest_of

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


def firsts(parts: Sequence[Ranked], k: int, *, before: Sequence[Float32] | None = None) -> list[int]:
    """Return how many of each shard's best are among the k best of all.

    Args:
        parts: what each shard found.
        k: how many stay.
        before: float32 (n) of each shard: of equal scores the higher one here comes first; None: the lower id.
    """
    if len(parts) == 1:
        return [min(k, len(parts[0].numbers))]
    scores, ids, owners = _joined(parts)
    keys = (ids, -scores) if before is None else (ids, -np.concatenate(before), -scores)
    return _counts(owners[np.lexsort(keys)[:k]], len(parts))


def ranked_first(parts: Sequence[Ranked], k: int) -> list[tuple[int, int]]:
    """Return the k best of all, each as a shard's number and a place in its list."""
    if len(parts) == 1:
        return [(0, i) for i in range(min(k, len(parts[0].numbers)))]
    scores, ids, owners = _joined(parts)
    within = np.concatenate([np.arange(len(part.numbers)) for part in parts])
    order = np.lexsort((ids, -scores))[:k]
    return list(zip(owners[order].tolist(), within[order].tolist(), strict=True))


def nearest(parts: Sequence[Nearest], k: int) -> list[Int64]:
    """Return the rows, or passages, in each shard of the k that are nearest to a vector, best first.

    Raises:
        StateError: some shards look at every row and others seek among codes.
    """
    if len(parts) == 1:
        return [parts[0].found.numbers[:k]]
    scores, ids, owners = _joined([part.found for part in parts])
    # A shard without a passage says nothing about how others seek.
    fetched = {part.n_fetched for part in parts if part.n_fetched or len(part.found.numbers)} or {0}
    if len(fetched) > 1:
        raise StateError("some shards seek among codes and others do not; build them with common settings")
    n_fetched = fetched.pop()
    if n_fetched:
        best = nearest_of(np.concatenate([part.coarse for part in parts]), scores, ids, n_fetched, k)
    else:
        best = np.lexsort((ids, -scores))[:k]
    numbers = np.concatenate([part.found.numbers for part in parts])
    return [numbers[best[owners[best] == number]] for number in range(len(parts))]


def phrase_order(parts: Sequence[tuple[Float32, Int64, Int64]]) -> list[tuple[int, int]]:
    """Return the phrases of all shards, best first, each as a shard's number and a place in its list.

    Args:
        parts: of each shard scores float32 (n), and the ids of first and last tokens int64 (n); in the order of all.
    """
    if len(parts) == 1:
        return [(0, i) for i in range(len(parts[0][0]))]
    scores, first_ids, last_ids = (np.concatenate(each) for each in zip(*parts, strict=True))
    lengths = [len(each) for each, _, _ in parts]
    owners = np.repeat(np.arange(len(parts)), lengths)
    within = np.concatenate([np.arange(n) for n in lengths])
    order = np.lexsort((last_ids, first_ids, -scores))
    return list(zip(owners[order].tolist(), within[order].tolist(), strict=True))


def first_phrases(parts: Sequence[RankedPhrases], k: int) -> list[int]:
    """Return how many of each shard's best phrases are among the k best of all."""
    if len(parts) == 1:
        return [min(k, len(parts[0].phrases))]
    order = phrase_order([(part.phrases.score, part.first_ids, part.last_ids) for part in parts])[:k]
    return _counts(np.array([owner for owner, _ in order], dtype=np.int64), len(parts))


def _joined(parts: Sequence[Ranked]) -> tuple[Float32, Int64, Int64]:
    """Return all scores and ids, and the number of each one's shard."""
    scores = np.concatenate([part.scores for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    return scores, ids, np.repeat(np.arange(len(parts)), [len(part.numbers) for part in parts])


def _counts(owners: Int64, n: int) -> list[int]:
    counts: list[int] = np.bincount(owners, minlength=n).tolist()
    return counts
