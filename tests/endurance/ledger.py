"""What was tried so far, over all runs: one line of JSON for each batch, appended when it is over."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """One batch.

    Attributes:
        part: What was tried.
        seed: Of the batch; with the part it says exactly what was done.
        counts: How much of it.
        failure: What went wrong, empty when nothing did.
        elapsed_s: How long it took.
        commit: Of the code.
        machine: Where.
    """

    part: str
    seed: int
    counts: dict[str, int]
    failure: str
    elapsed_s: float
    commit: str
    machine: str


class Ledger:
    """The file of entries; several runs may append to it, a line that was cut short by a kill does not count."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def entries(self) -> list[Entry]:
        """What is in it."""
        found = []
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else []:
            try:
                found.append(Entry(**json.loads(line)))
            except ValueError:
                continue
        return found

    def append(self, entry: Entry) -> None:
        """Add an entry for good."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, (json.dumps(asdict(entry)) + "\n").encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def totals(self) -> Counter[str]:
        """How much was tried without a failure."""
        total: Counter[str] = Counter()
        for entry in self.entries():
            total.update({} if entry.failure else entry.counts)
        return total

    def next_seed(self, part: str) -> int:
        """The first seed that no batch of the part had."""
        done = {entry.seed for entry in self.entries() if entry.part == part}
        return next(seed for seed in range(len(done) + 1) if seed not in done)
