"""What a search holds of one query while it goes on: its vectors, and what was found for it so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kbengine.search.aggregation import ScoredPhrases
from kbengine.search.query import Query, Unit
from kbengine.search.results import Hit, with_reader_part
from kbengine.search.shard_requests import LexicalQuery, NameScores
from kbengine.search.strategies import Plan
from storage.sparse_scores import SparseQuery

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
KeyOf = Callable[[int, Hit], Hashable | None]
"""Returns what makes a hit of the query at a place one answer with others, None where it is no answer."""


@dataclass(frozen=True)
class AskedVectors:
    """One query's vectors float32 (d,), its sparse vectors, and its words and name scores for each shard.

    The last three are None where they do not count.
    """

    start: Float32
    end: Float32
    passage: Float32
    sparse: SparseQuery | None
    lexical: tuple[LexicalQuery, ...] | None
    names: tuple[NameScores, ...] | None

    def lexical_of(self, shard: int) -> LexicalQuery | None:
        """Return its words for a shard."""
        return None if self.lexical is None else self.lexical[shard]

    def names_of(self, shard: int) -> NameScores | None:
        """Return its name scores in a shard."""
        return None if self.names is None else self.names[shard]


@dataclass
class ShardPool:
    """What one query found in one shard: candidates of the round, and phrases so far, to be read or not."""

    token_rows: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    passages: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    phrases: ScoredPhrases | None = None
    new: ScoredPhrases | None = None
    to_read: ScoredPhrases | None = None

    def add(self, new: ScoredPhrases) -> None:
        """Add the phrases of a round."""
        self.new = new
        self.phrases = new if self.phrases is None else self.phrases.followed_by(new)


@dataclass
class Pool:
    """What was found so far for one query: phrases of distinct units, their hits, and where each round ended."""

    place: int
    query: Query
    vectors: AskedVectors
    plan: Plan
    unit: Unit
    shards: list[ShardPool]
    lexical_factor: float | None = None
    hits: list[Hit] = field(default_factory=list)
    round_ends: list[int] = field(default_factory=list)
    keys: set[Hashable] = field(default_factory=set)
    shown: set[Hashable] = field(default_factory=set)
    n_left_out: int = 0
    is_exhausted: bool = False
    unread_part: float = 0.0

    @property
    def n_phrases(self) -> int:
        """How many phrases were found, in all shards."""
        return sum(0 if part.phrases is None else len(part.phrases) for part in self.shards)

    @property
    def is_to_be_read(self) -> bool:
        """Whether there are passages to read."""
        return any(part.to_read is not None and len(part.to_read) for part in self.shards)

    def n_wanted(self, k: int, key_of: KeyOf | None) -> int | None:
        """Return how many of a round's hits are wanted for `k` answers; None where only they tell: then all are.

        So it is where several may be one answer or stand in one sentence, and where what is read changes their order.
        """
        if key_of is not None or self.unit == "sentence" or self.unread_part or self.is_to_be_read:
            return None
        return max(0, k - len(self.keys))

    def wants_more(self, k: int) -> bool:
        """Tell whether there are fewer than `k` answers and more may be found."""
        return not self.is_exhausted and len(self.keys) < k

    def take(self, hits: Sequence[Hit], key_of: KeyOf | None, *, n_left_out: int = 0) -> None:
        """Add the hits of a round; one whose answer an earlier round found stays out, and so does what is no answer.

        Args:
            hits: what the round found, best first.
            key_of: what makes hits one answer; None: each is one.
            n_left_out: how many more there are that nobody wants to see.
        """
        of_round: set[Hashable] = set()
        if self.round_ends and self.unread_part:  # what later rounds find was not read
            hits = [with_reader_part(hit, self.unread_part) for hit in hits]
        for hit in hits:
            # Several phrases may stand in one sentence: the best of them shows it, once.
            own = (hit.passage.passage_id, hit.span)
            key = own if key_of is None else key_of(self.place, hit)
            if key is None or key in self.keys or own in self.shown:
                continue
            of_round.add(key)
            self.shown.add(own)
            rank = len(self.hits) + 1
            self.hits.append(hit if hit.rank == rank else replace(hit, rank=rank))
        self.keys |= of_round
        self.n_left_out += n_left_out
        self.round_ends.append(len(self.hits) + self.n_left_out)
