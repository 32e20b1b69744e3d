"""A little of each part of `make test-slow`, and its ledger."""

from __future__ import annotations

from pathlib import Path

from tests.endurance import cluster_flips, cluster_kills, faults, flips
from tests.endurance.__main__ import batch, report
from tests.endurance.ledger import Entry, Ledger
from tests.storage.power.cluster_steps import CLUSTER_SERIES
from tests.storage.power.scenarios import record_series


def test_bits_of_every_kind_of_file_are_flipped(tmp_path: Path) -> None:
    """Each is noticed, or nothing is answered otherwise."""
    counts = flips.run(0, tmp_path, flips=10)
    kinds = {name for name in counts if name.startswith("flip: ")}
    assert counts["flips"] == 10 == len(kinds) and all(counts[kind] == 1 for kind in kinds)


def test_calls_fail_and_nothing_is_lost_or_raw(tmp_path: Path) -> None:
    """Killed, broken, full and cut short, here and there in a series of operations."""
    counts = faults.run(3, tmp_path, share=150)
    assert set(counts) == {"fault: kill", "fault: EIO", "fault: ENOSPC", "fault: short write"}
    assert sum(counts.values()) >= 5


def test_a_cluster_is_killed_flipped_and_fails(tmp_path: Path) -> None:
    """A little of each: nothing acknowledged is lost, nothing else is answered."""
    kills = cluster_kills.run(0, tmp_path / "kills", kills=2)
    assert kills["cluster kills"] == 2 and kills["cluster acknowledged"] > 2
    flipped = cluster_flips.run(0, tmp_path / "flips", flips=10)
    kinds = [count for name, count in flipped.items() if name.startswith("cluster flip: ")]
    assert flipped["cluster flips"] == 10 and kinds == [1] * 10
    failed = faults.run(3, tmp_path / "faults", share=600, names=CLUSTER_SERIES, count="cluster fault")
    assert sum(failed.values()) >= 2


def test_each_seed_of_faults_has_others(tmp_path: Path) -> None:
    """All of them are tried when all seeds were."""
    recording = record_series(tmp_path / "run", "people")
    found = faults.faults_of(recording)
    shares = [found[number :: faults.SHARE] for number in range(faults.SHARE)]
    assert sum(map(len, shares)) == len(found) == len(set(found))
    n_calls = sum(event[0] != "ack" for event in recording.machine.events)
    n_writes = sum(event[0] == "write" for event in recording.machine.events)
    assert len(found) == 3 * n_calls + n_writes


def test_counts_add_up_and_seeds_are_not_tried_twice(tmp_path: Path) -> None:
    """Over runs; what a kill cut short is tried again, what failed does not count and is told."""
    ledger = Ledger(tmp_path / "build" / "ledger.jsonl")
    assert (ledger.next_seed("kills"), report(ledger)) == (0, "nothing was tried yet")
    for seed in (0, 2):
        ledger.append(Entry("kills", seed, {"kills": 20}, "", 1.0, "abc", "here"))
    ledger.append(Entry("flips", 0, {}, "AssertionError: other answers", 1.0, "abc", "here"))
    with ledger.path.open("a") as file:
        file.write('{"part": "kills", "seed": 1, "cou')
    again = Ledger(ledger.path)
    assert again.totals() == {"kills": 40}
    assert again.next_seed("kills") == 1
    assert report(again).splitlines() == ["kills: 40 of 10,000", "failed: flips, seed 0: AssertionError: other answers"]


def test_a_batch_that_fails_is_written_down(tmp_path: Path) -> None:
    """And the next one runs all the same."""
    ledger = Ledger(tmp_path / "ledger.jsonl")

    def wrong(seed: int, scratch: Path) -> dict[str, int]:
        assert seed, f"nothing was at {scratch.name[:8]}"
        return {"kills": 1}

    assert batch(ledger, "kills", wrong)
    assert not batch(ledger, "kills", wrong)
    first, second = ledger.entries()
    assert "nothing was at kbengine" in first.failure and second.counts == {"kills": 1}
