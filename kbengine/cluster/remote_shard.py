"""A shard that is elsewhere: asked as one that is here, answered by one of its replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kbengine.cluster.calls import MANY, Method, Place, call, called, read_outcome, read_outcomes
from kbengine.cluster.replicas import Begun, RejectedAnswer, ReplicaSet
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


class Sent:
    """Calls of one kind to shards that the same replicas have open, sent as one message; their answers are read later.

    Args:
        shards: of one request.
        name: of the call.
        requests: one for each shard.
        encoded: messages of the requests, by `id`: one that several shards have is encoded once.

    Raises:
        MessageError: a request cannot be sent.
    """

    def __init__(
        self, shards: Sequence[RemoteShard], name: str, requests: Sequence[object], encoded: dict[int, bytes]
    ) -> None:
        self._shards, self._name, self._requests, self._method = shards, name, requests, SEARCHING[name]
        for each in requests:
            if id(each) not in encoded:
                encoded[id(each)] = encode(each, self._method.request)
        calls = [called(shard.place, name, encoded[id(each)]) for shard, each in zip(shards, requests, strict=True)]
        first = shards[0]
        self._message = calls[0] if len(calls) == 1 else called(replace(first.place, shard=""), MANY, *calls)
        self._begun = first.replicas.begin(self._message)

    def is_there(self) -> bool:
        """Wait for as long as answers usually take, and return whether there is one."""
        if self._begun is None:
            return False
        first = self._shards[0]
        return self._begun.is_there(first.replicas.hedges_in_s(self._name, self._begun, deadline=first.deadline))

    def abandon(self) -> None:
        """Take note that nobody will read the answers."""
        if self._begun is not None:
            self._begun.abandon()

    def answers(self) -> list[Any]:
        """Return what the shards answer, each asked for itself where asking them together fails or takes long.

        Raises:
            ShardUnavailableError: no replica answered in time.
            UsageError: what is asked cannot be asked.
        """
        first, name, method = self._shards[0], self._name, self._method
        if len(self._shards) == 1:
            return [first.answer_to(name, method, self._message, begun=self._begun)]
        names = [shard.place.shard for shard in self._shards]
        # A second one where the first takes long: it is asked that has less to do.
        found = first.ask_once(name, self._message, names, begun=self._begun) or first.ask_once(
            name, self._message, names
        )
        if found is None:
            return [shard.ask(name, method, each) for shard, each in zip(self._shards, self._requests, strict=True)]
        answers = []
        for shard, each, outcome in zip(self._shards, self._requests, found, strict=True):
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
        self.replicas = replicas
        self.deadline = deadline
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
        return self.answer_to(name, method, call(self.place, name, method, request))

    def answer_to(self, name: str, method: Method, message: bytes, *, begun: Begun | None = None) -> Any:
        """Return the answer to a call's message, as `ask` does; `begun`: it was sent already."""
        return self.replicas.ask(
            name,
            message,
            deadline=self.deadline,
            read=lambda answer: read_outcome(answer, method),
            patience_s=self._patience_s,
            begun=begun,
        )

    def ask_once(
        self, name: str, message: bytes, shards: Sequence[str], *, begun: Begun | None = None
    ) -> Sequence[memoryview] | None:
        """Return the answers to calls of shards in one message, None where they are to be sent one by one."""
        answer = self.replicas.ask_once(name, message, deadline=self.deadline, shards=shards, begun=begun)
        try:
            found = None if answer is None else read_outcomes(answer)
        except (RejectedAnswer, UsageError):
            return None
        return found if found is not None and len(found) == len(shards) else None

    def _ask(self, name: str, request: object) -> Any:
        return self.ask(name, SEARCHING[name], request)
