"""A writer killed at any moment loses nothing that it acknowledged, and leaves nothing half done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.storage.small_world import content, make_settings
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
Model = dict[str, tuple[tuple[str, ...], frozenset[str]]]


def apply(model: Model, entry: dict[str, Any]) -> Model:
    """The model after the operation of a journal line."""
    changed = dict(model)
    if entry["kind"] in ("add", "replace"):
        for doc_id, texts in entry["texts"].items():
            changed[doc_id] = (tuple(texts), changed.get(doc_id, ((), frozenset()))[1])
    elif entry["kind"] == "delete":
        for doc_id in entry["ids"]:
            del changed[doc_id]
    elif entry["kind"] == "alias":
        for doc_id in entry["ids"]:
            changed[doc_id] = (changed[doc_id][0], changed[doc_id][1] | {entry["alias"]})
    elif entry["kind"] == "unalias" and entry["ids"]:
        changed[entry["ids"][0]] = (changed[entry["ids"][0]][0], frozenset())
    return changed


def content_and_aliases(directory: Path) -> Model:
    """Each live document's texts, compared with its vectors, and the aliases that it was given."""
    given: dict[str, set[str]] = {}
    with KBReader.open(directory) as reader:
        for alias in reader.list_aliases(source="manual", limit=100_000):
            given.setdefault(alias.doc_id, set()).add(alias.alias)
    return {doc_id: (texts, frozenset(given.get(doc_id, ()))) for doc_id, texts in content(directory).items()}


class Nursery:
    """A process that forks writers to be killed; see crash_child."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.storage.crash_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )

    def run_and_kill(
        self, directory: Path, journal: Path, *, seed: int, live: Model, n_done: int, delay_s: float
    ) -> list[Any]:
        """The journal of a child that was killed `delay_s` seconds after so many operations were done."""
        assert self._process.stdin is not None and self._process.stdout is not None
        order = {"directory": str(directory), "journal": str(journal), "seed": seed, "live": sorted(live)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        wait_until(lambda: journal.exists() and journal.read_text().count("\n") > 2 * n_done, interval_s=0.001)
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        status = int(self._process.stdout.readline())  # only now is it dead: a write may have been under way
        assert os.WIFSIGNALED(status), "the child ended by itself: an operation failed"
        return [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def kill_many_times(directory: Path, scratch: Path, *, kills: int, seed: int) -> int:
    """The number of acknowledged operations; asserts after each kill that the content is what was acknowledged.

    A kill comes at a random moment after a random number of operations: counts do not depend on the machine's speed.
    """
    rng = np.random.default_rng(seed)
    nursery = Nursery()
    KBWriter.create(directory, make_settings(token_scale=None, passage_scale=None)).close()
    model: Model = {}
    acknowledged = 0
    for number in range(kills):
        journal = scratch / f"journal-{number}"
        moment = {"n_done": int(rng.integers(0, 12)), "delay_s": float(rng.uniform(0, 0.03))}
        entries = nursery.run_and_kill(directory, journal, seed=seed * 1000 + number, live=model, **moment)
        in_flight = None
        for entry in entries:
            if entry["event"] == "done":
                model, in_flight = apply(model, entry), None
                acknowledged += 1
            elif entry["event"] == "intent":
                in_flight = entry
        before = content_and_aliases(directory)  # readers open it as the crash left it
        KBWriter.open(directory, lock_timeout_s=0, background_merging=False).close()
        seen = content_and_aliases(directory)
        assert before == seen
        allowed = [model] if in_flight is None else [model, apply(model, in_flight)]
        assert seen in allowed, f"after kill {number}: {in_flight}"
        model = seen
        report = verify(directory, deep=number % 5 == 0)
        assert report.clean, report.findings
    nursery.close()
    return acknowledged


def test_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Twenty kills at random moments: each time the content is the acknowledged one and verify finds nothing."""
    assert kill_many_times(tmp_path / "kb", tmp_path, kills=20, seed=1) >= 20


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_writer_killed_hundreds_of_times_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The same with 250 kills."""
    assert kill_many_times(tmp_path / "kb", tmp_path, kills=250, seed=2) >= 250
