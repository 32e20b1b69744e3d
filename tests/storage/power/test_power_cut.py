"""The power fails anywhere: what was acknowledged is there, what was not is there wholly or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.power import scenarios as s
from tests.storage.power.disk import Event, Tree
from tests.storage.power.machine import Machine
from tests.storage.power.scenarios import Cuts, check_all, record, record_series
from tests.storage.power.steps import ADD, CREATE, SERIES


@pytest.mark.parametrize("name", s.series())
def test_a_power_cut_loses_nothing_acknowledged(name: str, tmp_path: Path) -> None:
    """Some ten cuts of each series (`make test-slow`: thousands); what was recorded is what is on the real disk."""
    recording = record_series(tmp_path / "run", name)
    for lock in (tmp_path / "run").rglob("writer.lock"):
        lock.write_bytes(b"")  # its holder's name is nobody's promise
    assert recording.machine.now.content() == Tree.of(tmp_path / "run").content()
    assert recording.read(tmp_path / "run" / "kb") == recording.states[-1]
    stride = 24 if name in SERIES else 100
    assert check_all(recording, tmp_path, Cuts(stride=stride, seed=len(name))) >= len(s.series()[name])


class LyingDisk(Machine):
    """Says that it synced, and did not: files, directories, or those of SQLite."""

    def lies(self, number: int) -> bool:
        """Whether a sync of this file or directory is one."""
        raise NotImplementedError

    def note(self, *event: object) -> None:
        if event[0] != "sync" or not self.lies(int(str(event[1]))):
            super().note(*event)


class ForgetsFiles(LyingDisk):
    def lies(self, number: int) -> bool:
        return number in self.now.files and number not in self._of_sqlite()

    def _of_sqlite(self) -> set[int]:
        return {
            number
            for entries in self.now.directories.values()
            for name, number in entries.items()
            if name.startswith("kb.sqlite")
        }


class ForgetsNames(LyingDisk):
    def lies(self, number: int) -> bool:
        return number in self.now.directories


class ForgetsDatabase(ForgetsFiles):
    def lies(self, number: int) -> bool:
        return number in self._of_sqlite()


@pytest.mark.parametrize("machine", [ForgetsFiles, ForgetsNames, ForgetsDatabase])
def test_the_replayer_notices_disks_that_lie(machine: type[Machine], tmp_path: Path) -> None:
    """Negative controls: without syncs acknowledged documents are lost, and that is seen."""
    recording = record(tmp_path / "run", [CREATE, ADD], machine)
    with pytest.raises(AssertionError, match="event"):
        check_all(recording, tmp_path, Cuts(since=2, modes=("drop",)))


@pytest.mark.slow
@pytest.mark.parametrize("name", s.series())
def test_thousands_of_power_cuts(name: str, tmp_path: Path) -> None:
    """Any place, anything left of what was not synced."""
    recording = record_series(tmp_path / "run", name)
    assert check_all(recording, tmp_path, Cuts(random=1500, seed=1)) > 500


def test_unsynced_events_are_what_is_lost() -> None:
    """The model itself, on four events."""
    before = Tree()
    events: list[Event] = [("link", 0, "a", 1), ("write", 1, 0, b"abc"), ("sync", 1), ("write", 1, 3, b"def")]
    rng = s.np.random.default_rng(0)
    assert s.after_power_cut(before, events, "keep", rng).content() == (("a", b"abcdef"),)
    assert s.after_power_cut(before, events, "drop", rng).content() == ()
    assert s.after_power_cut(before, events, "names", rng).content() == (("a", b"abc"),)
    synced: list[Event] = [*events, ("sync", 0)]
    assert s.after_power_cut(before, synced, "drop", rng).content() == (("a", b"abc"),)
