"""Series of operations, run on a machine that remembers, and what restarts find after its power was cut."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from pysqlite3 import dbapi2

from storage.operating_system import using
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.power.cluster_steps import CLUSTER_SERIES, check_cluster, cluster_beside
from tests.storage.power.disk import MODES, Event, Mode, Tree, after_power_cut
from tests.storage.power.machine import Machine
from tests.storage.power.state import Read, State, state_beside, state_of
from tests.storage.power.steps import FROZEN, MIGRATE, SERIES, Step

Check = Callable[[Path, list[State], Read], None]
"""Opens what a restart finds; raises where the state is none of those allowed, or anything is wrong."""


@dataclass
class Recording:
    """A series that was run: what the machine saw, and the states after each step."""

    machine: Machine
    states: list[State]
    names: list[str]
    read: Read = state_of
    check: Check = field(default_factory=lambda: check)


def record(
    root: Path, steps: Iterable[Step], machine: type[Machine] = Machine, *, origin: Path | None = None
) -> Recording:
    """Run the steps one after the other on a new machine; its knowledge base is `root`/kb.

    Args:
        root: A directory that is not there.
        steps: What is done.
        machine: Which machine.
        origin: What the disk holds at first as `kb`, by default nothing.
    """
    root.mkdir(parents=True)
    if origin is not None:
        shutil.copytree(origin, root / "kb")
    states: list[State] = [{} if origin is None else state_of(root / "kb")]
    names = []
    with machine(root) as recorder, using(recorder):
        for number, (name, run, change) in enumerate(steps, start=1):
            run(root / "kb")
            recorder.ack(number)
            states.append(change(states[-1]))
            names.append(name)
    return Recording(recorder, states, names, state_beside)


def record_series(root: Path, name: str, machine: type[Machine] = Machine) -> Recording:
    """Run a series by its name."""
    steps = series()[name]
    recording = record(root, steps, machine, origin=FROZEN if steps[0] is MIGRATE else None)
    if name in CLUSTER_SERIES:
        recording.read, recording.check = cluster_beside, check_cluster
    return recording


def series() -> dict[str, list[Step]]:
    """All series, of knowledge bases and of clusters."""
    return SERIES | CLUSTER_SERIES


def cuts_of(events: list[Event]) -> list[int]:
    """After how many events a power cut tells something: at acknowledgements, before and after syncs and new names."""
    places: set[int] = set()
    for number, event in enumerate(events):
        if event[0] in ("sync", "rename", "unlink", "truncate"):
            places |= {number, number + 1}
        elif event[0] == "ack":
            places.add(number + 1)
    return sorted(places)


@dataclass(frozen=True)
class Cuts:
    """Which power cuts are tried.

    Attributes:
        modes: What is left of what was not synced, in turn; at acknowledgements nothing.
        since: Only cuts after so many steps were acknowledged.
        stride: Only every so many-th place.
        random: So many places at random instead.
        seed: Where the turn begins, and of what is random.
    """

    modes: tuple[Mode, ...] = MODES
    since: int = 0
    stride: int = 1
    random: int = 0
    seed: int = 0


def states_after_cuts(recording: Recording, cuts: Cuts) -> Iterator[tuple[str, int, Tree]]:
    """What disks may hold: a description, how many steps were acknowledged, the tree; each tree once."""
    rng = np.random.default_rng(cuts.seed)
    events, modes = recording.machine.events, cuts.modes
    places = cuts_of(events)
    chosen: list[tuple[int, Mode]] = [(place, "drop") for place in places if events[place - 1][0] == "ack"]
    if cuts.random:
        places = [int(place) for place in rng.integers(1, len(events) + 1, size=cuts.random)]
    places = places[cuts.seed % cuts.stride :: cuts.stride]
    chosen += [(place, modes[(number + cuts.seed) % len(modes)]) for number, place in enumerate(places)]
    seen: set[int] = set()
    for place, mode in chosen:
        done = sum(event[0] == "ack" for event in events[:place])
        if done < cuts.since:
            continue
        tree = after_power_cut(recording.machine.before, events[:place], mode, rng)
        key = hash((done, tree.content()))
        if key not in seen:
            seen.add(key)
            yield f"event {place} of {len(events)}, {mode}, after {recording.names[done - 1 : done + 1]}", done, tree


def check_all(recording: Recording, scratch: Path, cuts: Cuts | None = None) -> int:
    """Restart after each cut; return how many. Raises what is wrong: something acknowledged lost, torn or damaged."""
    n = 0
    for where, done, tree in states_after_cuts(recording, cuts or Cuts()):
        directory = scratch / f"cut-{n}"
        tree.write(directory)
        try:
            recording.check(directory / "kb", recording.states[done : done + 2], recording.read)
        except Exception as error:
            raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
        shutil.rmtree(directory)
        n += 1
    return n


def check(kb: Path, allowed: list[State], read: Read = state_of) -> None:
    """Open it as after a restart; the state is one of those allowed, and nothing is wrong."""
    if kb.exists():
        KBWriter.open(kb, background_merging=False).close()
    seen = read(kb)
    assert seen in allowed, f"{seen.keys()} is none of {[state.keys() for state in allowed]}"
    if kb.exists():
        report = verify(kb)
        assert report.clean, report.findings
        with KBReader.open(kb) as reader:
            (newest, *_) = reader.info().last_commits
        with closing(dbapi2.connect(str(kb / "kb.sqlite"))) as connection:
            ((n_dead,),) = connection.execute("SELECT count(*) FROM documents WHERE dead_generation IS NOT NULL")
        assert newest.operation != "compact" or not n_dead, "a compaction was done by halves"
