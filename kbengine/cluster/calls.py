"""A call to the process that has a shard open: which generation, which shard, what is asked; and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kbengine.cluster.replicas import RejectedAnswer
from kbengine.cluster.wire import decode, encode
from kbengine.errors import KBError, MessageError, UsageError


@dataclass(frozen=True)
class Method:
    """What can be asked of a shard: the type of the request, and that of its answer."""

    request: Any
    answer: Any


@dataclass(frozen=True)
class Place:
    """A shard as it is in one generation.

    Attributes:
        generation: Number of the generation.
        manifest: SHA-256 of its manifest, hex: two generations of one number are told apart.
        shard: Name of the shard; empty where no one shard is meant.
    """

    generation: int
    manifest: str
    shard: str


@dataclass(frozen=True)
class Call:
    """What is sent: `method` of the shard at `place`, with the request as a message of its own."""

    place: Place
    method: str
    request: bytes


@dataclass(frozen=True)
class Failure:
    """The error that a call ended with: its stable code and its message."""

    code: str
    message: str


@dataclass(frozen=True)
class Outcome:
    """What comes back: an answer as a message of its own, or a failure."""

    answer: bytes | None
    failure: Failure | None


MANY = "many"
MANY_CALLS = Method(tuple[bytes, ...], tuple[bytes, ...])
"""Several calls in one message, each as a message of its own; so are the answers, in their order."""


def call(place: Place, name: str, method: Method, request: object) -> bytes:
    """Return the message of a call."""
    return encode(Call(place, name, encode(request, method.request)))


def read_call(message: bytes, methods: Mapping[str, Method]) -> tuple[Call, object]:
    """Return a call and its request.

    Raises:
        MessageError: it is none, or asks for what there is not.
    """
    found = decode(Call, message)
    if found.method == MANY:
        return found, decode(MANY_CALLS.request, found.request)
    if found.method not in methods:
        raise MessageError(f"a call of {found.method!r}, wanted one of {', '.join(methods)}")
    return found, decode(methods[found.method].request, found.request)


def answered(method: Method, answer: object) -> bytes:
    """Return the message of an answer."""
    return encode(Outcome(encode(answer, method.answer), None))


def failed(error: KBError) -> bytes:
    """Return the message of an error."""
    return encode(Outcome(None, Failure(error.code, error.message)))


def read_outcome(message: bytes, method: Method) -> object:
    """Return the answer in a message.

    Raises:
        UsageError: what was asked cannot be asked; it is the class that the shard raised.
        RejectedAnswer: anything else went wrong there: another replica may do better.
    """
    try:
        outcome = decode(Outcome, message)
        if outcome.failure is None and outcome.answer is not None:
            return decode(method.answer, outcome.answer)
    except MessageError as error:
        raise RejectedAnswer(error.message) from error
    failure = outcome.failure or Failure(MessageError.code, "an answer holds neither an answer nor a failure")
    kind = _usage_errors().get(failure.code)
    if kind is not None:
        raise kind(failure.message)
    raise RejectedAnswer(failure.message)


def _usage_errors() -> dict[str, type[UsageError]]:
    """Return the classes of what callers do wrong, by code."""
    found: dict[str, type[UsageError]] = {}
    pending: list[type[UsageError]] = [UsageError]
    while pending:
        kind = pending.pop()
        found[kind.code] = kind
        pending += kind.__subclasses__()
    return found
