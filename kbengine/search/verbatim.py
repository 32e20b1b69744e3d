"""Passages that say a name word for word: a phrase query to the full text.

Postings know words, not their order: passages that have all words of the name are looked into, so many at most.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from storage.folding import folded_text
from storage.terms import name_term, names_of_title, terms_of

if TYPE_CHECKING:
    from storage.reader import KBReader
    from storage.snapshot import Snapshot

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]

READ_PASSAGES = 128
"""Passages whose text is looked into for a name."""
READ_FOR_OTHERS = 32
"""And for each other name of what it means."""
OTHER_NAMES = 4
"""Other names that are looked for."""
MAX_POSTINGS = 20_000
"""Passages with the rarest word of a name that are looked up for the others."""
OTHER_SCORE = 0.8
"""What another name counts against the one asked for."""


@dataclass(frozen=True)
class Sayings:
    """The passages that say a name, or may.

    Attributes:
        passages: int64 (n,), snapshot passage indices, rising.
        scores: float32 (n,), 1 for those that were looked into and say it; for those that have all of its words and
            were not looked into the share of those that were and did.
    """

    passages: Int64
    scores: Float32


def spoken_names(name: str) -> list[tuple[str, float]]:
    """Return the names to look for, with what each counts: texts leave out what tells titles apart.

    >>> spoken_names("Kes (film)"), spoken_names("Lincoln, Nebraska")
    ([('Kes', 1.0)], [('Lincoln, Nebraska', 1.0), ('Lincoln', 0.8)])
    """
    whole, *bare = (each for each in names_of_title(name) if name_term(each) != name_term(""))
    if bare and whole.endswith(")"):
        return [(bare[0], 1.0)]
    return [(whole, 1.0), *((each, OTHER_SCORE) for each in bare)]


def other_names(reader: KBReader, name: str, document_id: int) -> list[str]:
    """Return other names of the document that the name means: its title, then its aliases, a few at most."""
    found = [*reader.titles([document_id]).values(), *reader.aliases_of(document_id, limit=2 * OTHER_NAMES)]
    distinct = {name_term(spoken): spoken for each in reversed(found) for spoken, _ in spoken_names(each)[:1]}
    known = {name_term(""), *(name_term(spoken) for spoken, _ in spoken_names(name))}
    return [distinct[term] for term in reversed(distinct) if term not in known][:OTHER_NAMES]


def sayings_of(
    reader: KBReader, snapshot: Snapshot, name: str, order: Float32 | None, *, limit: int = READ_PASSAGES
) -> Sayings:
    """Return the passages that say the name, whatever its case and accents.

    Costs no more than reading the postings of its words, which BM25 does too, and `limit` texts.

    Args:
        reader: of the texts.
        snapshot: what is searched.
        name: what is said.
        order: float32 (n_passages,), what the passages are looked into by, highest first; None for their own order.
        limit: how many are looked into.
    """
    having = _with_all_words(snapshot, name, order)
    if not len(having):
        return Sayings(having, np.zeros(0, dtype=np.float32))
    at = np.arange(len(having))
    if len(having) > limit:
        at = at[:limit] if order is None else np.argsort(-order[having], kind="stable")[:limit]
    ids = snapshot.passage_ids[having[at]].tolist()
    texts = reader.passage_texts(ids)
    pattern = re.compile(rf"(?<!\w){re.escape(folded_text(name))}(?!\w)")
    is_said = np.array([bool(pattern.search(folded_text(texts.get(each, "")))) for each in ids], dtype=np.bool_)
    scores = np.full(len(having), is_said.mean(), dtype=np.float32)
    scores[at] = is_said
    kept = np.flatnonzero(scores > 0)
    return Sayings(having[kept], scores[kept])


def _with_all_words(snapshot: Snapshot, name: str, order: Float32 | None) -> Int64:
    """Return the passages that have each word of the name, int64 (n,), rising."""
    lists = sorted((snapshot.passages_with_term(term) for term in dict.fromkeys(terms_of(name))), key=len)
    if not lists:
        return np.zeros(0, dtype=np.int64)
    having = lists[0]
    if len(having) > MAX_POSTINGS:
        best = slice(MAX_POSTINGS) if order is None else np.argpartition(-order[having], MAX_POSTINGS)[:MAX_POSTINGS]
        having = np.sort(having[best])
    for others in lists[1:]:
        if not len(having):
            break
        places = np.minimum(np.searchsorted(others, having), len(others) - 1)
        having = having[others[places] == having]
    return having
