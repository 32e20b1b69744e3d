"""A knowledge base made of another one's stored pages and vectors: nothing is encoded again.

Run: python -m benchmarks.stored_pages --kb DIR --out DIR [--pages N] [--copies N] [--packages DIR --indexed-only]

Some of the pages, drawn at random, or all of them several times: then each copy has an id of its own and everything
else in common with its page. What stores them runs in a process of its own, with the packages of this working tree or
of an earlier commit (`benchmarks.store_stream`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from storage.alias_records import DocumentNames
from storage.reader import KBReader
from storage.records import DocumentRecord, PassageRecord
from storage.snapshot import Snapshot

ROOT = Path(__file__).resolve().parent.parent
SEED = 13
CHUNK_PASSAGES = 2048

Page = tuple[DocumentRecord, list[PassageRecord], DocumentNames]


@dataclass(frozen=True)
class Config:
    """What is stored where.

    Attributes:
        source: the knowledge base whose pages are taken.
        target: the directory of the new one.
        pages: how many different pages; None: all.
        copies: how often each.
        packages: the folder with the packages that store them; None: this working tree.
        encoder: name or directory of what made the vectors; None: the name that the source has.
        indexed_only: whether only tokens that are indexed are stored, as commits before decision 0031 did.
    """

    source: Path
    target: Path
    pages: int | None = None
    copies: int = 1
    packages: Path | None = None
    indexed_only: bool = False
    encoder: str | None = None


class Vectors:
    """The vectors of a knowledge base by passage."""

    def __init__(self, snapshot: Snapshot, indexed_from: float) -> None:
        self._snapshot = snapshot
        self._indexed_from = indexed_from
        segments = [loaded.segment for loaded in snapshot.segments]
        starts = np.cumsum([0, *(segment.n_rows for segment in segments)])
        self._ids = np.concatenate([segment.arrays.passage_ids for segment in segments])
        self._first = np.concatenate(
            [segment.arrays.first_rows + start for segment, start in zip(segments, starts, strict=False)]
        )
        self._counts = np.concatenate([segment.arrays.token_counts for segment in segments]).astype(np.int64)
        self._logits = np.concatenate([segment.best_logits for segment in segments])

    def of(self, passages: list[PassageRecord], *, indexed_only: bool) -> tuple[list[int], list[np.ndarray[Any, Any]]]:
        """Return how many tokens each passage has, and arrays of all of them: as `send` writes them."""
        places = np.searchsorted(self._ids, [passage.passage_id for passage in passages])
        assert all(
            int(self._ids[i]) == passage.passage_id and int(self._counts[i]) == len(passage.offsets.starts)
            for i, passage in zip(places, passages, strict=True)
        )
        keeps = []
        for place in places:
            logits = self._logits[self._first[place] : self._first[place] + self._counts[place]]
            keep = np.ones(len(logits), dtype=np.bool_)
            if indexed_only:
                keep = logits >= self._indexed_from
                if len(logits) and not keep.any():
                    keep[int(np.argmax(logits))] = True
            keeps.append(keep)
        rows = np.concatenate(
            [first + np.flatnonzero(keep) for first, keep in zip(self._first[places], keeps, strict=True)]
        )
        offsets = [passage.offsets for passage in passages]
        arrays = [
            self._snapshot.vectors(rows).astype("<f4"),
            *(
                np.concatenate(
                    [np.asarray(getattr(each, name))[keep] for each, keep in zip(offsets, keeps, strict=True)]
                ).astype("<i4")
                for name in ("ordinals", "starts", "ends")
            ),
            self._logits[rows].astype("<f4"),
            self._snapshot.passage_vectors(places).astype("<f4"),
        ]
        return [int(keep.sum()) for keep in keeps], arrays


def chunks(pages: Iterator[Page]) -> Iterator[list[Page]]:
    """Return the pages, some at a time."""
    chunk: list[Page] = []
    n = 0
    for page in pages:
        chunk.append(page)
        n += len(page[1])
        if n >= CHUNK_PASSAGES:
            yield chunk
            chunk, n = [], 0
    if chunk:
        yield chunk


def chosen(reader: KBReader, n: int | None) -> Iterator[Page]:
    """Return all pages, or `n` drawn at random, in the order in which they were added."""
    total = reader.info().documents
    wanted = set(range(total) if n is None else random.Random(SEED).sample(range(total), n))
    return (page for i, page in enumerate(reader.iterate_with_names()) if i in wanted)


def send(out: IO[bytes], chunk: list[Page], vectors: Vectors, *, copy: int, indexed_only: bool) -> None:
    """Write one chunk: a line of JSON that says what follows, then its arrays."""
    passages = [passage for _, own, _ in chunk for passage in own]
    counts, arrays = vectors.of(passages, indexed_only=indexed_only)
    record = {
        "documents": [
            {
                "doc_id": document.doc_id if not copy else f"{document.doc_id} ({copy + 1})",
                "title": document.title,
                "url": document.url,
                "meta": dict(document.meta),
                "aliases": [[alias.alias, alias.source, alias.prior, alias.uses] for alias in names.aliases],
                "links": [[link.text, link.target, link.by_title, link.count] for link in names.links],
                "passages": [
                    {
                        "ordinal": passage.ordinal,
                        "text": passage.text,
                        "section": passage.section,
                        "char_offset": passage.char_offset,
                        "n_tokens": passage.encoded_token_count,
                    }
                    for passage in own
                ],
            }
            for document, own, names in chunk
        ],
        "counts": counts,
        "d": arrays[0].shape[1],
    }
    out.write(json.dumps(record).encode() + b"\n")
    for array in arrays:
        out.write(np.ascontiguousarray(array).data)


def store(config: Config) -> dict[str, Any]:
    """Make the knowledge base and return what the process that stored it tells."""
    packages = config.packages or ROOT
    with KBReader.open(config.source) as reader:
        settings = reader.settings
        script, encoder = ROOT / "benchmarks" / "store_stream.py", config.encoder or settings.encoder_name
        command = [sys.executable, "-P", str(script), str(config.target), encoder]
        vectors = Vectors(reader.snapshot(), -np.inf if settings.indexed_from is None else settings.indexed_from)
        with subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(packages)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for copy in range(config.copies):
                for chunk in chunks(chosen(reader, config.pages)):
                    send(process.stdin, chunk, vectors, copy=copy, indexed_only=config.indexed_only)
            process.stdin.close()
            told = process.stdout.read()
        if process.returncode:
            raise SystemExit(f"storing ended with {process.returncode}; its error stands above")
        facts: dict[str, Any] = json.loads(told.splitlines()[-1])
        return facts


def main() -> None:
    """Make the knowledge base."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pages", type=int)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--packages", type=Path)
    parser.add_argument("--indexed-only", action="store_true")
    given = parser.parse_args()
    config = Config(given.kb, given.out, given.pages, given.copies, given.packages, given.indexed_only)
    print(json.dumps(store(config)))


if __name__ == "__main__":
    main()
