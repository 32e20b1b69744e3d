"""Looking up names among many aliases: what it adds to a query, alone and in a batch, and how long counting takes.

Run: python -m benchmarks.alias_lookup --scratch DIR

The names are made up: a fifth of the links have one of fifty texts, so that hundreds of documents share each of them.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measurement import quantiles_ms, write_result
from storage.alias_records import NewLink
from storage.reader import KBReader
from storage.records import NewDocument
from storage.settings import KBSettings
from storage.writer import KBWriter

LINKS_OF_A_DOCUMENT = 20
BATCH = 64


def build(kb: Path, n_documents: int, rng: random.Random) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the texts that few documents share, those that many share, and the figures of counting."""
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyzäöüéł", k=rng.randint(3, 9))) for _ in range(20_000)]
    popular = words[:50]
    rare: list[str] = []

    def link() -> NewLink:
        target = str(int(n_documents * rng.random() ** 2))
        if rng.random() < 0.2:
            return NewLink(rng.choice(popular), target)
        rare.append(f"{rng.choice(words)} {rng.choice(words)}")
        return NewLink(rare[-1], target)

    building = {"state": "building", "position": {}}
    with KBWriter.create(kb, KBSettings("none", "f" * 64, 1, build=building)) as writer:
        for first in range(0, n_documents, 2_000):
            ids = range(first, min(first + 2_000, n_documents))
            links = {i: tuple(link() for _ in range(LINKS_OF_A_DOCUMENT)) for i in ids}
            writer.add([NewDocument(str(i), f"Document {i}", links=links[i]) for i in ids])
        began = time.perf_counter()
        counts = writer.count_links()
        counted_s = time.perf_counter() - began
        writer.finish_build()
    figures = {"links": counts.links, "aliases": counts.aliases, "counting_s": round(counted_s, 2)}
    return rare, popular, figures


def look_up(reader: KBReader, names: Sequence[str], size: int) -> dict[str, float]:
    """Return the time a name takes when so many are looked up at once."""
    times = []
    for first in range(0, len(names) - size + 1, size):
        began = time.perf_counter()
        reader.alias_matches(names[first : first + size])
        times.append((time.perf_counter() - began) / size)
    return quantiles_ms(times)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--documents", type=int, default=20_000)
    arguments = parser.parse_args()
    rng = random.Random(0)
    kb = arguments.scratch / "alias-lookup-kb"
    shutil.rmtree(kb, ignore_errors=True)
    rare, popular, figures = build(kb, arguments.documents, rng)
    asked = rng.sample(rare, 2_000)
    with KBReader.open(kb) as reader:
        look_up(reader, asked[:100], 1)
        figures["names_of_few_documents"] = look_up(reader, asked, 1)
        figures["absent_names"] = look_up(reader, [f"{name}?" for name in asked], 1)
        figures["names_of_many_documents"] = look_up(reader, popular * 4, 1)
        figures[f"names_of_few_documents_in_batches_of_{BATCH}"] = look_up(reader, asked, BATCH)
        with KBWriter.open(kb) as writer:
            writer.delete([str(i) for i in range(arguments.documents)])
        figures["without_any_alias"] = look_up(reader, asked, 1)
    shutil.rmtree(kb)
    write_result("alias_lookup", "looking up a query's name adds < 0.5 ms, and nothing without aliases", figures)


if __name__ == "__main__":
    main()
