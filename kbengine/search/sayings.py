"""Passages that say a name word for word, in all shards: a phrase query to the full text.

Postings know words, not their order: passages that have all words of the name are looked into, so many at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kbengine.search.global_cut import firsts
from kbengine.search.shard_answers import Sayers
from kbengine.search.shard_requests import LexicalQuery, Look, LookRequest, Saying, SayRequest, Scope
from kbengine.search.verbatim import MAX_POSTINGS

if TYPE_CHECKING:
    from kbengine.search.shards import Shards

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class Sought:
    """A name that is sought.

    Attributes:
        name: What is said.
        limit: How many passages are looked into.
        lexical: Whose scores in each shard say which are looked into first; None for their own order.
        languages: Those of documents, beside English.
    """

    name: str
    limit: int
    lexical: tuple[LexicalQuery, ...] | None
    languages: tuple[str, ...] = ()

    def saying(self, shard: int, rarest: int | None = None, n_first: int | None = None) -> Saying:
        """Return what a shard is asked."""
        lexical = None if self.lexical is None else self.lexical[shard]
        return Saying(self.name, self.limit, lexical, rarest, n_first, self.languages)


@dataclass(frozen=True)
class Sayings:
    """The passages of a shard that say a name, or may.

    Attributes:
        passages: int64 (n,), snapshot passage indices, rising.
        scores: float32 (n,), 1 for those that were looked into and say it; for those that have all of its words and
            were not looked into the share of those that were and did.
    """

    passages: Int64
    scores: Float32


def sayings_of(shards: Shards, scope: Scope, sought: Sequence[Sought]) -> list[list[Sayings]]:
    """Return for each name the passages of each shard that say it, whatever its case and accents.

    Args:
        shards: all of the generation.
        scope: what is searched.
        sought: the names.
    """
    if not sought:
        return []
    found = _sayers(shards, scope, sought)
    cuts = [firsts([each.first for each in own], one.limit) for own, one in zip(found, sought, strict=True)]
    looks = [
        tuple(
            Look(one.name, True, own[shard].first.numbers[: cut[shard]])
            for one, own, cut in zip(sought, found, cuts, strict=True)
        )
        for shard in range(len(shards.members))
    ]
    looked = shards.each(lambda number, shard: shard.look(LookRequest(scope, looks[number])))
    sayings = []
    for i, own in enumerate(found):
        said = [answer.is_said[i] for answer in looked]
        n_looked = sum(map(len, said))
        share = sum(int(np.count_nonzero(each)) for each in said) / n_looked if n_looked else 0.0
        passages = [each[i].passages for each in looks]
        sayings.append(
            [_scored(each, is_said, share, at) for each, is_said, at in zip(own, said, passages, strict=True)]
        )
    return sayings


def _scored(sayers: Sayers, is_said: NDArray[np.bool_], share: float, looked: Int64) -> Sayings:
    """Return the passages of a shard that say a name, or may, given which of those that were looked into say it."""
    scores = np.full(len(sayers.passages), share, dtype=np.float32)
    scores[np.searchsorted(sayers.passages, looked)] = is_said
    kept = np.flatnonzero(scores > 0)
    return Sayings(sayers.passages[kept], scores[kept])


def _sayers(shards: Shards, scope: Scope, sought: Sequence[Sought]) -> list[list[Sayers]]:
    """Return for each name the passages of each shard that have all of its words.

    Where all words are frequent the shards first say how many passages have each, then which are the best with the
    rarest one, and these alone are looked through.
    """
    found = _asked(shards, scope, [[one.saying(shard) for one in sought] for shard in range(len(shards.members))])
    if len(shards.members) == 1:
        return found
    rarest = {}
    for i, own in enumerate(found):
        frequencies = np.sum([each.frequencies for each in own], axis=0)
        if len(frequencies) and frequencies.min() > MAX_POSTINGS:
            rarest[i] = int(np.argmin(frequencies))
    if not rarest:
        return found
    shard_numbers = range(len(shards.members))
    best = _asked(
        shards, scope, [[sought[i].saying(shard, rare) for i, rare in rarest.items()] for shard in shard_numbers]
    )
    n_first = [firsts([each.first for each in own], MAX_POSTINGS) for own in best]
    again = _asked(
        shards,
        scope,
        [
            [sought[i].saying(shard, rare, n[shard]) for (i, rare), n in zip(rarest.items(), n_first, strict=True)]
            for shard in shard_numbers
        ],
    )
    for i, own in zip(rarest, again, strict=True):
        found[i] = own
    return found


def _asked(shards: Shards, scope: Scope, sayings: Sequence[Sequence[Saying]]) -> list[list[Sayers]]:
    """Return what the shards answer, by name and shard."""
    answers = shards.each(lambda number, shard: shard.say(SayRequest(scope, tuple(sayings[number]))))
    return [list(each) for each in zip(*(answer.sayers for answer in answers), strict=True)]
