"""Kills, power cuts, faults, flips and a soak, until the counts are reached: `make test-slow`.

python -m tests.endurance [--minutes 60] [--part kills] [--ledger build/endurance.jsonl] [--report]

Each batch runs in a process forked from this one, which has imported everything and computes nothing. The ledger has a
line for each batch with its seed, so a run goes on where the last one stopped, and counts add up over runs.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.endurance.ledger import Entry, Ledger

GOALS = {
    "kills": ("kills", 10_000),
    "cuts": ("power cuts", 5_000),
    "faults": ("faults batches", 6 * 40),
    "flips": ("flips", 10_000),
    "cluster_kills": ("cluster kills", 1_000),
    "cluster_cuts": ("cluster power cuts", 1_000),
    "cluster_faults": ("cluster_faults batches", 2 * 40),
    "cluster_flips": ("cluster flips", 2_000),
    "soak": ("soak seconds", 3_600),
}
"""For each part the count that says when it is done, and the wanted number. Faults: all seeds, so each fault once."""

ALSO = {"acknowledged": 100_000}
ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run batches, the part that is furthest behind first; 1 when a batch failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long; by default when done")
    parser.add_argument("--part", choices=GOALS, action="append", help="only this one; may be given several times")
    parser.add_argument("--ledger", type=Path, default=ROOT / "build" / "endurance.jsonl")
    parser.add_argument("--report", action="store_true", help="only say what was reached")
    options = parser.parse_args()
    ledger = Ledger(options.ledger)
    end = time.monotonic() + options.minutes * 60
    failed = 0
    if not options.report:
        modules = {part: importlib.import_module(f"tests.endurance.{part}") for part in options.part or GOALS}
        warm()
        while time.monotonic() < end:
            share = {part: ledger.totals()[GOALS[part][0]] / GOALS[part][1] for part in modules}
            part = min(share, key=lambda each: share[each])
            if share[part] >= 1:
                break
            failed += batch(ledger, part, modules[part].run)
    print(report(ledger))
    return 1 if failed else 0


def warm() -> None:
    """Import what the batches use and make what a process makes once."""
    from storage.newest_schema import newest_schema

    logging.disable(logging.ERROR)
    newest_schema()


def batch(ledger: Ledger, part: str, run: object) -> bool:
    """Run one batch in a child and write it down; return whether it failed."""
    assert callable(run)
    seed = ledger.next_seed(part)
    began = time.monotonic()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        with tempfile.TemporaryDirectory(prefix="kbengine-endurance-") as scratch:
            try:
                counts, failure = run(seed, Path(scratch)), ""
            except BaseException:
                counts, failure = {}, traceback.format_exc(limit=4)[-1500:]
        if part.endswith("faults"):
            counts[f"{part} batches"] = 1
        entry = Entry(part, seed, counts, failure, round(time.monotonic() - began, 1), commit(), machine())
        ledger.append(entry)
        os.write(write, b"1" if failure else b"0")
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as told:
        outcome = told.read(1)
    os.waitpid(pid, 0)
    if outcome != b"0":
        print(f"{part}, seed {seed}: failed; the ledger says how", file=sys.stderr, flush=True)
    return outcome != b"0"


def commit() -> str:
    """The code that is run."""
    told = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return told.stdout.strip()


def machine() -> str:
    """Where it runs."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    )


def report(ledger: Ledger) -> str:
    """What was reached so far, and what failed."""
    totals, entries = ledger.totals(), ledger.entries()
    wanted = dict(GOALS.values()) | ALSO
    lines = [
        f"{name}: {totals[name]:,}" + (f" of {wanted[name]:,}" if name in wanted else "") for name in sorted(totals)
    ]
    lines += [f"failed: {entry.part}, seed {entry.seed}: {entry.failure}" for entry in entries if entry.failure]
    return "\n".join(lines or ["nothing was tried yet"])


if __name__ == "__main__":
    sys.exit(main())
