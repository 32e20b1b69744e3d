"""Run by test_faults under strace: a fixed series of operations; each one done is told on a pipe.

Told with writev, which no fault is injected into. The first error ends the series.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from storage.errors import KBError
from storage.writer import KBWriter
from tests.storage.small_world import make_document

Model = dict[str, tuple[str, ...]]
LONG = " ".join(f"word{n}" for n in range(300))

STEPS: list[tuple[Callable[[KBWriter], object], Callable[[Model], Model]]] = [
    (lambda w: w.add([make_document("a", "amber", LONG)]), lambda m: {**m, "a": ("amber", LONG)}),
    (lambda w: w.add([make_document("b", "basalt")]), lambda m: {**m, "b": ("basalt",)}),
    (lambda w: w.add([make_document("a", "ash")]), lambda m: {**m, "a": ("ash",)}),
    (lambda w: w.delete(["seed0"]), lambda m: {key: value for key, value in m.items() if key != "seed0"}),
    (lambda w: w.merge_all(), lambda m: m),
    (lambda w: w.compact(purge=True), lambda m: m),
    (lambda w: w.add([make_document("c", "cedar")]), lambda m: {**m, "c": ("cedar",)}),
]


def tell(word: str) -> None:
    """Write the word to standard output."""
    os.writev(1, [word.encode() + b"\n"])


def main(directory: Path) -> None:
    """Do the steps, or tell the error."""
    try:
        writer = KBWriter.open(directory, background_merging=False)
        for step, _ in STEPS:
            step(writer)
            tell("done")
        writer.close()
        tell("closed")
    except KBError as error:
        tell(f"error:{error.code}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
