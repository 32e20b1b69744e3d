"""A call to the process that has a shard open: which generation, which shard, what is asked; and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kbengine.cluster.bundle import bundled, unbundled
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
    """What is asked: `method` of the shard at `place`, with the request, or several of them, as messages."""

    place: Place
    method: str
    requests: tuple[bytes | memoryview, ...]


@dataclass(frozen=True)
class Failure:
    """The error that a call ended with: its stable code and its message."""

    code: str
    message: str


@dataclass(frozen=True)
class _Head:
    """What a call is about."""

    place: Place
    method: str


MANY = "many"
"""Several calls in one message, each as a message of its own; so are the answers, in their order."""

_FINE = b""
"""What an answer begins with; after a failure, that is there instead, and nothing more."""


def call(place: Place, name: str, method: Method, request: object) -> bytes:
    """Return the message of a call."""
    return called(place, name, encode(request, method.request))


def called(place: Place, name: str, *requests: bytes) -> bytes:
    """Return the message of a call whose request, or requests, are messages already."""
    return bundled([_head(place, name), *requests])


@lru_cache(maxsize=4096)
def _head(place: Place, name: str) -> bytes:
    """Return the same bytes for the same shard and method, which many calls begin with."""
    return encode(_Head(place, name))


@lru_cache(maxsize=4096)
def _read_head(message: bytes) -> _Head:
    return decode(_Head, message)


def parsed_call(message: bytes | memoryview) -> Call:
    """Return a call whose requests are not read yet.

    Raises:
        MessageError: it is none.
    """
    parts = unbundled(message)
    if not parts:
        raise MessageError("a call without a message that says what it is about")
    head = _read_head(bytes(parts[0]))
    return Call(head.place, head.method, tuple(parts[1:]))


def request_of(found: Call, methods: Mapping[str, Method]) -> Any:
    """Return the request of a call of one shard.

    Raises:
        MessageError: it asks for what there is not.
    """
    if found.method not in methods:
        raise MessageError(f"a call of {found.method!r}, wanted one of {', '.join(methods)}")
    if len(found.requests) != 1:
        raise MessageError(f"a call of {found.method!r} has {len(found.requests)} requests, wanted 1")
    return decode(methods[found.method].request, found.requests[0])


def answered(method: Method, answer: object) -> bytes:
    """Return the message of an answer."""
    return answered_with(encode(answer, method.answer))


def answered_with(*answers: bytes) -> bytes:
    """Return the message of an answer, or several, that are messages already."""
    return bundled([_FINE, *answers])


def failed(error: KBError) -> bytes:
    """Return the message of an error."""
    return bundled([encode(Failure(error.code, error.message))])


def read_outcome(message: bytes | memoryview, method: Method) -> Any:
    """Return the answer in a message.

    Raises:
        UsageError: what was asked cannot be asked; it is the class that the shard raised.
        RejectedAnswer: anything else went wrong there: another replica may do better.
    """
    answers = read_outcomes(message)
    try:
        if len(answers) == 1:
            return decode(method.answer, answers[0])
    except MessageError as error:
        raise RejectedAnswer(error.message) from error
    raise RejectedAnswer(f"a message has {len(answers)} answers, wanted 1")


def read_outcomes(message: bytes | memoryview) -> list[memoryview]:
    """Return the answers in a message, which are messages; raises what `read_outcome` raises."""
    try:
        parts = unbundled(message)
        if parts and not len(parts[0]):
            return parts[1:]
        if len(parts) != 1:
            raise MessageError("an answer holds neither an answer nor a failure")
        failure = decode(Failure, parts[0])
    except MessageError as error:
        raise RejectedAnswer(error.message) from error
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
