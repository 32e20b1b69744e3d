"""Every call that changes a file is killed, fails, finds the disk full, or writes half of what it should.

A kill at a call leaves what the calls before it did: the recording says what that is. The other faults are injected
into the operation itself, through the seam and SQLite's VFS.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from storage.errors import KBError
from storage.operating_system import using
from storage.repair import repair
from tests.storage.power.disk import Event, after_power_cut
from tests.storage.power.machine import Machine, ShortWriteError
from tests.storage.power.scenarios import Recording, record_series, series
from tests.storage.power.steps import REPAIR, SERIES
from tests.storage.small_world import reencode

FAULTS = ("kill", "EIO", "ENOSPC", "short write")
SHARE = 40
"""A batch tries every so many-th fault of a series, those of the next batch of the series lie beside them."""


@dataclass(frozen=True)
class Fault:
    """At which call of which step of a series what happens."""

    step: int
    call: int
    kind: str


def faults_of(recording: Recording) -> list[Fault]:
    """All of them."""
    found = []
    step = call = 0
    for event in recording.machine.events:
        if event[0] == "ack":
            step, call = step + 1, 0
            continue
        kinds = [kind for kind in FAULTS if kind != "short write" or event[0] == "write"]
        found += [Fault(step, call, kind) for kind in kinds]
        call += 1
    return found


def run(
    seed: int, scratch: Path, *, share: int = SHARE, names: Collection[str] = SERIES, count: str = "fault"
) -> dict[str, int]:
    """A share of the faults of one series; series take turns, so seeds up to their number times SHARE try all."""
    name = sorted(names)[seed % len(names)]
    steps = series()[name]
    recording = record_series(scratch / "run", name)
    chosen = faults_of(recording)[seed // len(names) % share :: share]
    counts = {f"{count}: {kind}": 0 for kind in FAULTS}
    for number, fault in enumerate(chosen):
        root = scratch / f"fault-{number}"
        try:
            inject(recording, steps[fault.step][1], steps[fault.step][0], fault, root)
        except Exception as error:
            raise AssertionError(f"{name}, {steps[fault.step][0]}, {fault}: {error}") from error
        shutil.rmtree(root)
        counts[f"{count}: {fault.kind}"] += 1
    return counts


def inject(recording: Recording, operation: object, name: str, fault: Fault, root: Path) -> None:
    """Do the step with the fault, and check what a restart finds."""
    before, after = recording.states[fault.step : fault.step + 2]
    start = _place_of(recording.machine.events, fault.step)
    rng = np.random.default_rng(0)
    if fault.kind == "kill":
        tree = after_power_cut(recording.machine.before, recording.machine.events[: start + fault.call], "keep", rng)
        tree.write(root)
        recording.check(root / "kb", [before, after], recording.read)
        return
    after_power_cut(recording.machine.before, recording.machine.events[:start], "keep", rng).write(root)
    assert callable(operation)
    allowed = [after]
    with Machine(root) as machine, using(machine):
        machine.hook = _Hook(fault)
        try:
            operation(root / "kb")
        except KBError:
            allowed = [before, after]
        machine.hook = lambda _event: None
        if name == REPAIR[0] and len(allowed) > 1:
            repair(root / "kb", reencode)
    recording.check(root / "kb", allowed, recording.read)


class _Hook:
    """Fails at a call; a full disk stays full for what needs room."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._calls = 0

    def __call__(self, event: Event) -> None:
        number, self._calls = self._calls, self._calls + 1
        needs_room = event[0] in ("write", "link", "mkdir")
        if self._fault.kind == "ENOSPC" and number > self._fault.call and needs_room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if number != self._fault.call:
            return
        if self._fault.kind == "short write" and event[0] == "write":
            raise ShortWriteError(len(event[3]) // 2)
        code = errno.EIO if self._fault.kind == "EIO" else errno.ENOSPC
        raise OSError(code, os.strerror(code))


def _place_of(events: list[Event], step: int) -> int:
    acknowledged: Iterator[int] = (number for number, event in enumerate(events, start=1) if event[0] == "ack")
    return 0 if step == 0 else list(acknowledged)[step - 1]
