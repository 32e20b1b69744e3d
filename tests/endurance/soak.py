"""Readers, a writer, background merging, compaction and a service beside each other while calls fail, for minutes.

What a reader sees is whole and never older than what was acknowledged when it looked. Memory stays what it was after
the first quarter; descriptors are as many as there are segments to read, and all are gone at the end.
"""

from __future__ import annotations

import errno
import gc
import os
import threading
import time
from pathlib import Path

import numpy as np

from kbengine.errors import KBError
from storage.operating_system import using
from storage.reader import KBReader
from storage.verify import verify
from storage.writer import KBWriter
from tests.endurance.flatness import check_flat, own_memory_kb
from tests.endurance.service_load import ServiceLoad, build_served
from tests.storage.failing_calls import FailingCalls
from tests.storage.power.state import state_of
from tests.storage.small_world import WORDS, make_settings, random_document

SLICE_S = float(os.environ.get("KBENGINE_SOAK_S", "120"))
READERS, KEPT, FAILING = 3, 40, 0.002
PAUSE_S = float(os.environ.get("KBENGINE_SOAK_PAUSE_S", "0"))
"""Between what readers and the writer do: an hour of a machine that others use, too."""


def run(seed: int, scratch: Path) -> dict[str, int]:
    """One slice; seconds are added up over slices."""
    served = build_served(scratch / "served")
    before = n_descriptors()
    load = ServiceLoad(served, seed, SLICE_S)
    with load.running():
        world = _beside(scratch / "kb", seed, load.end)
    if load.wrong:
        raise AssertionError(f"service: {load.wrong[0]}")
    gc.collect()
    assert n_descriptors() <= before, f"{before} descriptors at first, {n_descriptors()} at the end"
    own = {"soak seconds": int(SLICE_S), "soak searches": world.searches, "soak commits": world.commits}
    return own | {"soak faults": world.faults, **load.counts}


def _beside(kb: Path, seed: int, end: float) -> _World:
    """Read and write a knowledge base in this process until the end, and return what is known of it."""
    world = _World(kb, seed, end)
    threads = [threading.Thread(target=world.read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    world.write()
    for thread in threads:
        thread.join()
    if world.wrong:
        raise AssertionError(world.wrong[0])
    KBWriter.open(world.kb).close()
    assert state_of(world.kb).keys() >= {f"text {doc_id}" for doc_id in world.live}
    assert verify(world.kb, deep=True).clean
    check_flat("memory in kB", world.memory, allowed=20_000)
    assert max(world.descriptors, default=0) < 400, f"{max(world.descriptors)} descriptors at once"
    return world


class _World:
    """One knowledge base and what is known of it."""

    def __init__(self, kb: Path, seed: int, end: float) -> None:
        self.kb, self.seed, self.end = kb, seed, end
        self.acknowledged = 1
        self.live: list[str] = []
        self.searches = self.commits = self.faults = 0
        self.wrong: list[str] = []
        self.memory: list[int] = []
        self.descriptors: list[int] = []
        KBWriter.create(kb, make_settings(ann={"exact_below_rows": 50, "nlist": 4})).close()

    def write(self) -> None:
        rng = np.random.default_rng(self.seed)
        broken = FailingCalls(errno.EIO, lambda _call, _path: rng.random() < FAILING)
        number = 0
        while time.monotonic() < self.end and not self.wrong:
            try:
                with KBWriter.open(self.kb) as writer, using(broken):
                    while time.monotonic() < self.end and not self.wrong:
                        number += 1
                        time.sleep(PAUSE_S)
                        self._change(writer, number, rng)
                        self.commits += 1
                        if number % 20 == 0:
                            self._measure()
            except KBError:
                self._find_out()
            except Exception as error:
                self.wrong.append(f"writer: {type(error).__name__}: {error}")
        self.faults = broken.failed

    def _change(self, writer: KBWriter, number: int, rng: np.random.Generator) -> None:
        if number % 50 == 0:
            writer.compact()
        elif len(self.live) >= KEPT:
            gone = self.live[:5]
            self.acknowledged = writer.delete(gone).generation
            self.live = self.live[5:]
        else:
            names = [f"{number}-{each}" for each in range(3)]
            self.acknowledged = writer.add([random_document(name, rng, passages=2) for name in names]).generation
            self.live += names

    def _find_out(self) -> None:
        """After an error the change was made, or not."""
        with KBReader.open(self.kb) as reader:
            there = {document.doc_id for document in reader.iterate_records()}
        lost = set(self.live) - there
        if lost and len(there) + 5 != len(self.live):
            self.wrong.append(f"lost: {sorted(lost)}")
        self.live = [name for name in self.live if name in there] + sorted(there - set(self.live))

    def read(self, number: int) -> None:
        rng = np.random.default_rng(self.seed * 10 + number)
        try:
            while time.monotonic() < self.end and not self.wrong:
                with KBReader.open(self.kb) as reader:
                    for _ in range(200):
                        time.sleep(PAUSE_S)
                        known = self.acknowledged
                        snapshot = reader.snapshot()
                        if snapshot.generation < known:
                            self.wrong.append(f"served commit {snapshot.generation}, {known} was acknowledged")
                        scores = snapshot.lexical_scores(str(rng.choice(WORDS)))
                        if (scores[~snapshot.live_passages] > 0).any():
                            self.wrong.append("a deleted passage was found")
                        query = rng.normal(size=(1, snapshot.d)).astype(np.float32)
                        _, rows = snapshot.search_tokens(query, 5)
                        found = snapshot.passages_of_rows(rows[rows >= 0])
                        if not snapshot.live_passages[found].all():
                            self.wrong.append("a token of a deleted passage was found")
                        self.searches += 1
                        if time.monotonic() > self.end:
                            break
        except Exception as error:
            self.wrong.append(f"reader: {type(error).__name__}: {error}")

    def _measure(self) -> None:
        gc.collect()
        self.memory.append(own_memory_kb())
        self.descriptors.append(n_descriptors())


def n_descriptors() -> int:
    """How many this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))
