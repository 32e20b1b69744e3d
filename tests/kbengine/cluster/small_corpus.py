"""A small corpus and encoder, and how to build a cluster of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kbengine.build.builder import CorpusOptions
from kbengine.build.filtering import FilterOptions
from kbengine.cluster.plan import PlanOptions
from kbengine.cluster.planning import ClusterBuild
from kbengine.encoders.encoder import Encoder
from tests.tiny_encoder import SENTENCES, write_tiny_encoder

N = 24


def write_corpus(path: Path, *, n: int = N) -> Path:
    """Documents of two passages, with links to the next one by its id and to document 0 by its title."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(n):
            record: dict[str, Any] = {
                "doc_id": f"doc {number}",
                "title": f"Page {number}",
                "url": None,
                "meta": {"number": number},
                "passages": [
                    {"ordinal": each, "text": SENTENCES[(number + each) % len(SENTENCES)] + f" Part {number}."}
                    for each in range(1, 3)
                ],
                "links": [
                    {"text": f"number {(number + 1) % n}", "doc_id": f"doc {(number + 1) % n}"},
                    {"text": "the first", "title": "Page 0"},
                    {"text": "gone", "doc_id": "missing"},
                ],
            }
            file.write(json.dumps(record) + "\n")
    return path


def load_encoder(folder: Path) -> Encoder:
    """The tiny encoder, in a directory that workers can load it from."""
    directory = folder / "tiny"
    if not directory.exists():
        write_tiny_encoder(directory)
    return Encoder.load(directory, device="cpu", dtype="float32")


def request_for(corpus: Path, *, shards: int = 3, **changes: Any) -> ClusterBuild:
    """What to build: chunks of a few documents."""
    values: dict[str, Any] = {
        "filter": FilterOptions(keep_fraction=0.5),
        "plan": PlanOptions(shards=shards, chunk_bytes=2_000, sample_passages=10),
        "device": "cpu",
    }
    return ClusterBuild(CorpusOptions((corpus,)), **{**values, **changes})
