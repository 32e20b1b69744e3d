"""A shard that is elsewhere: asked as one that is here, answered by one of its replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from kbengine.cluster.calls import MANY, MANY_CALLS, Call, Method, Place, call, read_outcome
from kbengine.cluster.replicas import RejectedAnswer, ReplicaSet
from kbengine.cluster.wire import encode
from kbengine.errors import UsageError
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

SEARCHING: Mapping[str, Method] = {
    "count": Method(CountRequest, CountAnswer),
    "say": Method(SayRequest, SayAnswer),
    "look": Method(LookRequest, LookAnswer),
    "candidates": Method(CandidateRequest, CandidateAnswer),
    "score": Method(ScoreRequest, ScoreAnswer),
    "resolve": Method(ResolveRequest, ResolveAnswer),
    "known_names": Method(tuple[str, ...], tuple[str, ...]),
}
"""What a search asks of shards."""


def ask_together(shards: Sequence[RemoteShard], name: str, requests: Sequence[object]) -> list[Any]:
    """Return what shards that the same replicas have open answer to one kind of call, sent as one message.

    Where that fails, or takes longer than is usual, each is asked for itself.

    Args:
        shards: of one request.
        name: of the call.
        requests: one for each shard; a request that several have is encoded once.

    Raises:
        ShardUnavailableError: as when each is asked for itself.
        UsageError: what is asked cannot be asked.
    """
    method, first = SEARCHING[name], shards[0]
    messages = {id(each): b"" for each in requests}
    for each in requests:
        messages[id(each)] = messages[id(each)] or encode(each, method.request)
    calls = [encode(Call(shard.place, name, messages[id(each)])) for shard, each in zip(shards, requests, strict=True)]
    message = call(replace(first.place, shard=""), MANY, MANY_CALLS, tuple(calls))
    names = [shard.place.shard for shard in shards]
    # A second one where the first takes long: it is asked that has less to do.
    found = first.ask_once(name, message, names) or first.ask_once(name, message, names)
    if found is None:
        return [shard.ask(name, method, each) for shard, each in zip(shards, requests, strict=True)]
    answers = []
    for shard, each, outcome in zip(shards, requests, found, strict=True):
        try:
            answers.append(read_outcome(outcome, method))
        except RejectedAnswer:
            answers.append(shard.ask(name, method, each))
    return answers


class RemoteShard:
    """A shard as it is in one generation, for one request: `kbengine.search.shard.Shard` over its replicas.

    Args:
        place: the shard and the generation, the same for all of a request.
        replicas: what has it open.
        deadline: when answers are of no use, by the replicas' clock.
        patience_s: how long a shard that does not answer is waited for; None for as long as is usual.
    """

    def __init__(self, place: Place, replicas: ReplicaSet, *, deadline: float, patience_s: float | None = None) -> None:
        self.place = place
        self._replicas = replicas
        self._deadline = deadline
        self._patience_s = patience_s

    def count(self, request: CountRequest) -> CountAnswer:
        """Return how often terms occur and which documents have names."""
        return self._ask("count", request)  # type: ignore[no-any-return]  # its method says which

    def say(self, request: SayRequest) -> SayAnswer:
        """Return the passages that have all words of names."""
        return self._ask("say", request)  # type: ignore[no-any-return]

    def look(self, request: LookRequest) -> LookAnswer:
        """Return which passages say names."""
        return self._ask("look", request)  # type: ignore[no-any-return]

    def candidates(self, request: CandidateRequest) -> CandidateAnswer:
        """Return the candidates of queries."""
        return self._ask("candidates", request)  # type: ignore[no-any-return]

    def score(self, request: ScoreRequest) -> ScoreAnswer:
        """Return the best phrases in candidates."""
        return self._ask("score", request)  # type: ignore[no-any-return]

    def resolve(self, request: ResolveRequest) -> ResolveAnswer:
        """Return hits with their texts, or what has to be known before."""
        return self._ask("resolve", request)  # type: ignore[no-any-return]

    def known_names(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of the names that are a live document's title or alias, letter for letter."""
        return self._ask("known_names", names)  # type: ignore[no-any-return]

    def ask(self, name: str, method: Method, request: object) -> Any:
        """Return the answer to any call that the shard's host takes.

        Raises:
            ShardUnavailableError: no replica answered in time.
            UsageError: what is asked cannot be asked.
        """
        return self._replicas.ask(
            name,
            call(self.place, name, method, request),
            deadline=self._deadline,
            read=lambda message: read_outcome(message, method),
            patience_s=self._patience_s,
        )

    def ask_once(self, name: str, message: bytes, shards: Sequence[str]) -> Sequence[bytes] | None:
        """Return the answers to calls of shards in one message, None where they are to be sent one by one."""
        answer = self._replicas.ask_once(name, message, deadline=self._deadline, shards=shards)
        try:
            found = None if answer is None else cast(tuple[bytes, ...], read_outcome(answer, MANY_CALLS))
        except (RejectedAnswer, UsageError):
            return None
        return found if found is not None and len(found) == len(shards) else None

    def _ask(self, name: str, request: object) -> Any:
        return self.ask(name, SEARCHING[name], request)
