"""A writer killed at any moment loses nothing that it acknowledged, and leaves nothing half done."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.crash_child import INDEXES
from tests.storage.power.state import State, state_of
from tests.storage.small_world import make_settings

ROOT = Path(__file__).parents[2]


def apply(state: State, entry: dict[str, Any]) -> State:
    """The state after the operation of a journal line."""
    kind, ids = entry["kind"], entry["ids"]
    gone: set[str] = set()
    new: State = {}
    if kind in ("add", "replace"):
        new = {f"text {doc_id}": tuple(texts) for doc_id, texts in entry["texts"].items()}
    elif kind == "delete":
        gone = {key for key in state for doc_id in ids if key == f"text {doc_id}" or key.endswith(f" of {doc_id}")}
    elif kind == "alias":
        new = {f"alias {entry['alias']} of {doc_id}": True for doc_id in ids}
    elif kind == "unalias" and ids:
        gone = {key for key in state if key.startswith("alias ") and key.endswith(f" of {ids[0]}")}
    elif kind == "setting":
        new = {"note": entry["number"]}
    elif kind == "feedback":
        new = {f"feedback Which {entry['number'] % 9}?": str(entry["number"])}
    elif kind == "tune":
        new = {"encoder": str(entry["number"]).encode() * 1000}
    elif kind == "untune":
        gone = {"encoder"}
    elif kind == "reindex":
        new = {"settings": (INDEXES[entry["number"] % 2], False, "{}")}
    return {key: value for key, value in state.items() if key not in gone} | new


def live_in(state: State) -> list[str]:
    """The ids of the documents."""
    return [key.removeprefix("text ") for key in state if key.startswith("text ")]


class Nursery:
    """A process that forks writers which are killed; see crash_child.

    Args:
        orders: Where it takes orders; None starts one.
        answers: Where it answers.
        wait: Waits for its end.
    """

    def __init__(
        self, orders: IO[str] | None = None, answers: IO[str] | None = None, wait: Callable[[], object] = lambda: None
    ) -> None:
        if orders is not None and answers is not None:
            self._orders, self._answers, self._wait = orders, answers, wait
            return
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.storage.crash_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        assert process.stdin is not None and process.stdout is not None
        self._orders, self._answers, self._wait = process.stdin, process.stdout, process.wait

    def run_and_kill(
        self, directory: Path, journal: Path, *, seed: int, live: Iterable[str], n_done: int, delay_s: float
    ) -> list[Any]:
        """The journal of a child that was killed `delay_s` seconds of its work after so many operations were done."""
        order: dict[str, object] = {
            "directory": str(directory),
            "journal": str(journal),
            "seed": seed,
            "live": sorted(live),
        }
        order |= {"n_done": n_done, "delay_s": delay_s}
        journal.touch()
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        status = int(self._answers.readline())  # only now is it dead: a write may have been under way
        assert os.WIFSIGNALED(status), "the child ended by itself: an operation failed"
        return [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]

    def close(self) -> None:
        """End the process."""
        self._orders.close()
        self._wait()
        self._answers.close()


def kill_many_times(
    directory: Path, scratch: Path, *, kills: int, seed: int, nursery: Nursery | None = None, max_done: int = 12
) -> int:
    """The number of acknowledged operations; asserts after each kill that the content is what was acknowledged.

    A kill comes at a random moment after a random number of operations: counts do not depend on the machine's speed.
    """
    rng = np.random.default_rng(seed)
    nursery = nursery or Nursery()
    KBWriter.create(directory, make_settings(token_scale=None, passage_scale=None)).close()
    model: State = state_of(directory)
    acknowledged = 0
    for number in range(kills):
        journal = scratch / f"journal-{number}"
        moment = {"n_done": int(rng.integers(0, max_done)), "delay_s": float(rng.uniform(0.0005, 0.03))}
        entries = nursery.run_and_kill(directory, journal, seed=seed * 1000 + number, live=live_in(model), **moment)
        in_flight = None
        for entry in entries:
            if entry["event"] == "done":
                model, in_flight = apply(model, entry), None
                acknowledged += 1
            elif entry["event"] == "intent":
                in_flight = entry
        before = state_of(directory)  # readers open it as the crash left it
        KBWriter.open(directory, lock_timeout_s=0, background_merging=False).close()
        seen = state_of(directory)
        assert before == seen
        allowed = [model] if in_flight is None else [model, apply(model, in_flight)]
        assert seen in allowed, f"after kill {number}: {in_flight}"
        model = seen
        report = verify(directory, deep=number % 5 == 0)
        assert report.clean, report.findings
    nursery.close()
    return acknowledged


def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Ten kills at random moments: each time the content is the acknowledged one and verify finds nothing."""
    assert kill_many_times(tmp_path / "kb", tmp_path, kills=10, seed=1) >= 10


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_writer_killed_hundreds_of_times_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The same with 250 kills."""
    assert kill_many_times(tmp_path / "kb", tmp_path, kills=250, seed=2) >= 250
