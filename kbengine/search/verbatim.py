"""Passages that say a name word for word: a phrase query to the full text.

Postings know words, not their order: passages that have all words of the name are looked into, so many at most.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.search.shard_answers import Ranked, Sayers
from kbengine.search.shard_requests import Look, Saying
from storage.folding import folded_text
from storage.terms import name_term, names_of_title, terms_of

if TYPE_CHECKING:
    from kbengine.search.live_records import LiveRecords
    from kbengine.search.query_vectors import LexicalScores
    from kbengine.search.records import Records
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


def spoken_names(name: str) -> list[tuple[str, float]]:
    """Return the names to look for, with what each counts: texts leave out what tells titles apart.

    >>> spoken_names("Kes (film)"), spoken_names("Lincoln, Nebraska")
    ([('Kes', 1.0)], [('Lincoln, Nebraska', 1.0), ('Lincoln', 0.8)])
    """
    whole, *bare = (each for each in names_of_title(name) if name_term(each) != name_term(""))
    if bare and whole.endswith(")"):
        return [(bare[0], 1.0)]
    return [(whole, 1.0), *((each, OTHER_SCORE) for each in bare)]


def other_names(records: Records, name: str, document_id: int) -> list[str]:
    """Return other names of the document that the name means: its title, then its aliases, a few at most."""
    found = [*records.titles([document_id]).values(), *records.aliases_of(document_id, limit=2 * OTHER_NAMES)]
    distinct = {name_term(spoken): spoken for each in reversed(found) for spoken, _ in spoken_names(each)[:1]}
    known = {name_term(""), *(name_term(spoken) for spoken, _ in spoken_names(name))}
    return [distinct[term] for term in reversed(distinct) if term not in known][:OTHER_NAMES]


def sayers_of(snapshot: Snapshot, saying: Saying, order: LexicalScores | None, *, is_alone: bool) -> Sayers:
    """Return the passages that have each word of a name.

    Costs no more than reading the postings of its words, which BM25 does too. Of a name whose words are all frequent
    only the best passages with the rarest one are looked through; which those are is known where all shards have said
    how many they have.

    Args:
        snapshot: what is searched.
        saying: the name, and what is known about its words.
        order: whose scores say which passages are looked into first, the highest; None for their own order.
        is_alone: whether there are no other shards.
    """
    lists = [_having(snapshot, stems) for stems in _stems(saying.name, saying.languages)]
    frequencies = np.array([len(each) for each in lists], dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    if not lists:
        return Sayers(frequencies, none, _first(snapshot, none, order, 0, is_alone))
    rarest = int(np.argmin(frequencies)) if saying.rarest is None else saying.rarest
    having, n_first = lists[rarest], saying.n_first
    if saying.rarest is None and len(having) > MAX_POSTINGS:
        if not is_alone:  # then so has the rarest word of all shards, whichever it is
            return Sayers(frequencies, none, _first(snapshot, none, order, 0, is_alone))
        n_first = MAX_POSTINGS
    elif saying.rarest is not None and n_first is None:
        return Sayers(frequencies, none, _first(snapshot, having, order, MAX_POSTINGS, is_alone))
    if n_first is not None:
        having = np.sort(_first(snapshot, having, order, n_first, is_alone=True).numbers)
    for others in (each for number, each in enumerate(lists) if number != rarest):
        if not len(having) or not len(others):
            having = none
            break
        places = np.minimum(np.searchsorted(others, having), len(others) - 1)
        having = having[others[places] == having]
    return Sayers(frequencies, having, _first(snapshot, having, order, saying.limit, is_alone))


def _stems(name: str, languages: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the stems that each distinct word of a name has in English and in some other languages."""
    own = terms_of(name)
    others = [terms_of(name, language) for language in languages]
    # A word that is two in another spelling would shift those after it.
    aligned = zip(own, *(each for each in others if len(each) == len(own)), strict=True)
    return list(dict.fromkeys(tuple(dict.fromkeys(stems)) for stems in aligned))


def _having(snapshot: Snapshot, stems: Sequence[str]) -> Int64:
    """Return the passages that have one of the terms, rising."""
    found = [snapshot.passages_with_term(term) for term in stems]
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found))


def passages_saying(records: KBReader | LiveRecords, snapshot: Snapshot, look: Look) -> NDArray[np.bool_]:
    """Return which of the passages say a name, bool (n)."""
    ids = snapshot.passage_ids[look.passages].tolist()
    if not ids:
        return np.zeros(0, dtype=np.bool_)
    texts = records.passage_texts(ids)
    pattern = re.compile(rf"(?<!\w){re.escape(folded_text(look.name) if look.is_folded else look.name)}(?!\w)")
    found = (texts.get(each, "") for each in ids)
    said = [bool(pattern.search(folded_text(text) if look.is_folded else text)) for text in found]
    return np.array(said, dtype=np.bool_)


def _first(snapshot: Snapshot, passages: Int64, order: LexicalScores | None, n: int, is_alone: bool) -> Ranked:
    """Return the n best of some passages, which rise, by their scores; of equal ones the first."""
    scores = np.zeros(len(passages), dtype=np.float32) if order is None else order.before_gate(passages)
    if len(passages) > n:
        kept = np.arange(n)
        if order is not None:
            kept = np.flatnonzero(scores >= np.partition(scores, len(scores) - n)[len(scores) - n]) if n else kept
        passages, scores = passages[kept], scores[kept]
    best = np.argsort(-scores, kind="stable")[:n]
    numbers = passages[best]
    ids = np.zeros(0, dtype=np.int64) if is_alone else snapshot.passage_ids[numbers]
    return Ranked(numbers, scores[best], ids)
