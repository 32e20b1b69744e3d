"""How well documents that the mentions of one text may mean go together.

Three things speak for a candidate: that it says the names of the other mentions, that its words are those of the other
mentions' candidates, and that links lead from one to another.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from storage.folding import folded_text
from storage.terms import terms_of

Float32 = NDArray[np.float32]

DIMENSIONS = 4096
"""Terms are counted in so many bins, so that a window's documents are one small matrix."""
NEAREST = 5
"""The other mentions that go best with a candidate are those that count."""


@dataclass(frozen=True)
class Described:
    """A document as far as it was found: its id, title and passages, and the ids or titles it links to."""

    doc_id: str
    title: str
    passages: tuple[str, ...]
    targets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Coherence:
    """What speaks for a candidate among the others: each 0 where nothing does.

    Attributes:
        said: Log of 1 + how many of the other mentions' names its passages say.
        alike: Mean cosine of its words with those of the candidates that go best with it, weighed by probability.
        linked: Log of 1 + how many other mentions have a probable candidate that it links to or that links to it.
    """

    said: float = 0.0
    alike: float = 0.0
    linked: float = 0.0


def coherences(names: Sequence[str], candidates: Sequence[Sequence[tuple[Described, float]]]) -> list[list[Coherence]]:
    """Return what speaks for each candidate of each mention of one text.

    Args:
        names: of the mentions, distinct.
        candidates: of each mention, with how probable each is by itself, 0 to 1.
    """
    documents = {each.doc_id: each for of_one in candidates for each, _ in of_one}
    order = {doc_id: i for i, doc_id in enumerate(documents)}
    vectors = _vectors(list(documents.values()))
    cosines = vectors @ vectors.T
    # How probable each document is as the meaning of each mention: (mentions, documents).
    probable = np.zeros((len(names), len(documents)), dtype=np.float32)
    for i, of_one in enumerate(candidates):
        for each, probability in of_one:
            probable[i, order[each.doc_id]] = probability
    patterns = [re.compile(rf"(?<!\w){re.escape(folded_text(name))}(?!\w)") for name in names]
    said = {doc_id: _said(each, patterns) for doc_id, each in documents.items()}
    links = _links(documents, order)
    found = []
    for i, of_one in enumerate(candidates):
        others = np.arange(len(names)) != i
        row = []
        for each, _ in of_one:
            at = order[each.doc_id]
            # Another mention of the same document says nothing about which document it is.
            elsewhere = probable[others].copy()
            elsewhere[:, at] = 0
            best = np.sort((elsewhere * cosines[at]).max(axis=1, initial=0.0))[::-1][:NEAREST]
            linked = (elsewhere * links[at]).max(axis=1, initial=0.0).sum()
            own = folded_text(names[i])
            others_said = sum(
                is_said for j, is_said in enumerate(said[each.doc_id]) if j != i and folded_text(names[j]) not in own
            )
            row.append(
                Coherence(
                    said=math.log1p(others_said),
                    alike=float(best.sum() / NEAREST),
                    linked=math.log1p(float(linked)),
                )
            )
        found.append(row)
    return found


def _said(document: Described, patterns: Sequence[re.Pattern[str]]) -> list[bool]:
    text = folded_text(" \n ".join((document.title, *document.passages)))
    return [bool(pattern.search(text)) for pattern in patterns]


def _links(documents: Mapping[str, Described], order: Mapping[str, int]) -> Float32:
    """Return which documents link to each other, either way, float32 (n, n)."""
    linked = np.zeros((len(documents), len(documents)), dtype=np.float32)
    known = {each.title: doc_id for doc_id, each in documents.items()} | {doc_id: doc_id for doc_id in documents}
    for doc_id, each in documents.items():
        for target in each.targets & known.keys():
            linked[order[doc_id], order[known[target]]] = linked[order[known[target]], order[doc_id]] = 1.0
    return linked


def _vectors(documents: Sequence[Described]) -> Float32:
    """Return the documents' words, rarer ones counting more, float32 (n, DIMENSIONS), normalised."""
    counts = [Counter(terms_of(" ".join((each.title, *each.passages)))) for each in documents]
    having = Counter(term for each in counts for term in each)
    vectors = np.zeros((len(documents), DIMENSIONS), dtype=np.float32)
    for i, each in enumerate(counts):
        for term, count in each.items():
            rarity = math.log((len(documents) + 1) / (having[term] + 0.5))
            vectors[i, zlib.crc32(term.encode()) % DIMENSIONS] += max(0.0, rarity) * (1 + math.log(count))
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalised: Float32 = vectors / np.maximum(norms, 1e-9)
    return normalised
