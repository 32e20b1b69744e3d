"""One job: what is to be done, how far it is, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

State = Literal["queued", "running", "succeeded", "failed", "cancelled"]
STATES: tuple[State, ...] = get_args(State)
UNFINISHED: tuple[State, ...] = ("queued", "running")

Kind = Literal["upload", "annotate", "fill", "backup", "export"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Progress:
    """How far a job is.

    Attributes:
        stage: What is being done.
        done: Units done of this stage.
        total: Units of this stage; None while that is not known.
        seconds_left: Of this stage, by its rate so far; None while that is not known.
    """

    stage: str
    done: int
    total: int | None
    seconds_left: float | None = None

    @property
    def fraction(self) -> float | None:
        """Return the share of the stage that is done, 0 to 1."""
        return None if not self.total else min(1.0, self.done / self.total)


@dataclass(frozen=True)
class ResultFile:
    """What a finished job gives to download: a file's name for people, and its media type."""

    name: str
    media_type: str


@dataclass(frozen=True)
class Outcome:
    """What came of a job: facts to show, and a file to download where it makes one."""

    facts: Mapping[str, Any] = field(default_factory=dict)
    file: ResultFile | None = None


@dataclass(frozen=True)
class Job:
    """One job as it is stored.

    Attributes:
        number: Counts the jobs of a knowledge base in order of coming.
        id: Random; names the job in addresses.
        kind: What is done.
        title: What people know it by, such as a file's name.
        arguments: What the work needs to know beside its input, as JSON values.
        owner: Id of the API key that asked for it; None where there are no keys.
        state: Where it stands.
        is_cancelling: Whether it was told to stop and has not yet.
        attempts: How often it was begun: once, and once more after each end of a process.
        created_at: Seconds since 1970, and so are the next two.
        started_at: When it was first begun.
        finished_at: When it succeeded, failed or was cancelled.
        progress: How far it is; None before it was begun.
        cursor: Where it goes on after an interruption, as JSON values of its kind's own.
        outcome: What came of it, once it succeeded.
        problem: Why it failed, as a problem document.
    """

    number: int
    id: str
    kind: str
    title: str
    arguments: Mapping[str, Any]
    owner: str | None
    state: State
    is_cancelling: bool
    attempts: int
    created_at: float
    started_at: float | None
    finished_at: float | None
    progress: Progress | None
    cursor: Any
    outcome: Outcome | None
    problem: Mapping[str, Any] | None

    @property
    def is_finished(self) -> bool:
        """Tell whether nothing more will be done."""
        return self.state not in UNFINISHED

    def to_json(self, *, api_root: str, keep_s: float) -> dict[str, Any]:
        """Return the job as it is told over HTTP.

        Args:
            api_root: Where the API begins in addresses, such as `/v1`.
            keep_s: How long a finished job is kept.
        """
        address = f"{api_root}/jobs/{self.id}"
        progress, outcome = self.progress, self.outcome
        return {
            "id": self.id,
            "kind": self.kind,
            "title": self.title,
            "state": self.state,
            "cancelling": self.is_cancelling and not self.is_finished,
            "created_at": _iso(self.created_at),
            "started_at": _iso(self.started_at),
            "finished_at": _iso(self.finished_at),
            "expires_at": None if self.finished_at is None else _iso(self.finished_at + keep_s),
            "progress": None
            if progress is None
            else {
                "stage": progress.stage,
                "done": progress.done,
                "total": progress.total,
                "fraction": progress.fraction,
                "seconds_left": progress.seconds_left,
            },
            "facts": None if outcome is None else dict(outcome.facts),
            "problem": None if self.problem is None else dict(self.problem),
            "address": address,
            "result": f"{address}/result" if outcome is not None and outcome.file is not None else None,
        }


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
