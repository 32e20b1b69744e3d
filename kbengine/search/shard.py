"""One of the parts that a generation is searched in; a local knowledge base is one by itself.

A search asks all shards the same round, puts their answers together and goes on with the next:

    count       how often terms occur, which documents have names: added up, this weighs words alike in all shards
    say, look   passages that say a name word for word (only where a query asks for that)
    candidates  the nearest rows and the best passages of each shard; the best of all of them go on
    score       the best phrases in what each shard holds of these; the best of all of them go on
    resolve     their texts

Answers are then those that one shard with all documents would give, bit for bit: nothing is decided in a shard that
depends on what others hold. That takes shards made with common settings (`storage.common_settings`).
"""

from __future__ import annotations

from typing import Protocol

from kbengine.search.shard_answers import (
    CandidateAnswer,
    CountAnswer,
    LookAnswer,
    ResolveAnswer,
    SayAnswer,
    ScoreAnswer,
)
from kbengine.search.shard_requests import (
    CandidateRequest,
    CountRequest,
    LookRequest,
    ResolveRequest,
    SayRequest,
    ScoreRequest,
)


class Shard(Protocol):
    """What a search asks of a shard. Each answer follows from its request and the shard alone.

    All raise `StateError` for a generation that the shard does not hold, `InvalidOptionError` for a filter that cannot
    be read, and `SnapshotOutdatedError` where a local knowledge base has forgotten meanwhile what is asked for.
    """

    def count(self, request: CountRequest) -> CountAnswer:
        """Return how often terms occur and which documents have names."""
        ...

    def say(self, request: SayRequest) -> SayAnswer:
        """Return the passages that have all words of names."""
        ...

    def look(self, request: LookRequest) -> LookAnswer:
        """Return which passages say names."""
        ...

    def candidates(self, request: CandidateRequest) -> CandidateAnswer:
        """Return the candidates of queries."""
        ...

    def score(self, request: ScoreRequest) -> ScoreAnswer:
        """Return the best phrases in candidates."""
        ...

    def resolve(self, request: ResolveRequest) -> ResolveAnswer:
        """Return hits with their texts, or what has to be known before."""
        ...

    def known_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the names that are a live document's title or alias, letter for letter."""
        ...
