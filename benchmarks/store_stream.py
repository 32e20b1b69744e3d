"""A process that stores the pages that `benchmarks.stored_pages` writes to its standard input.

It runs with the packages of this working tree or of commit 39f580c, so it uses what both have, and asks which it has
where they differ. Run by that script: python store_stream.py DIRECTORY ENCODER
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np


def documents_of(record: dict[str, Any], source: IO[bytes]) -> list[Any]:
    """Return the documents of one chunk, ready to be stored."""
    from storage.alias_records import NewAlias, NewLink
    from storage.records import NewDocument, NewPassage

    counts, d = record["counts"], record["d"]
    n = sum(counts)

    def array(dtype: str, *shape: int) -> np.ndarray[Any, Any]:
        wanted = int(np.prod(shape)) * np.dtype(dtype).itemsize
        data = source.read(wanted)
        assert len(data) == wanted
        return np.frombuffer(data, dtype=dtype).reshape(shape)

    vectors, ordinals, starts = array("<f4", n, d), array("<i4", n).astype(np.uint32), array("<i4", n)
    ends, logits, of_passages = array("<i4", n), array("<f4", n), array("<f4", len(counts), d)
    place = at = 0
    documents = []
    for each in record["documents"]:
        passages = []
        for passage in each["passages"]:
            rows = slice(at, at + counts[place])
            unit = of_passages[place] / np.linalg.norm(of_passages[place])
            passages.append(
                NewPassage(
                    ordinal=passage["ordinal"],
                    text=passage["text"],
                    vectors=vectors[rows],
                    token_ordinals=ordinals[rows],
                    starts=starts[rows],
                    ends=ends[rows],
                    filter_logits=np.stack([logits[rows], logits[rows]], axis=1),
                    passage_vector=unit,
                    n_tokens=passage["n_tokens"],
                    section=passage["section"],
                    char_offset=passage["char_offset"],
                )
            )
            at, place = rows.stop, place + 1
        aliases = tuple(NewAlias(alias, origin, prior, uses) for alias, origin, prior, uses in each["aliases"])
        links = tuple(NewLink(*link) for link in each["links"])
        documents.append(
            NewDocument(each["doc_id"], each["title"], each["url"], each["meta"], tuple(passages), aliases, links)
        )
    return documents


def received(source: IO[bytes]) -> Iterator[list[Any]]:
    """Return the documents of each chunk until there are no more."""
    while line := source.readline():
        yield documents_of(json.loads(line), source)


def store(target: Path, name: str, source: IO[bytes]) -> None:
    """Make the knowledge base in the directory `target`, of vectors of the encoder of a name."""
    from kbengine.encoders.encoder import Encoder

    encoder = Encoder.load(name)
    try:
        from kbengine.build.builder import build_writer, finish
    except ImportError:
        store_then(target, source, encoder)
        return
    from kbengine.build.filtering import DEFAULT_FILTER
    from kbengine.progress import NoProgress

    with build_writer(target, encoder, DEFAULT_FILTER, request={}, before=lambda: None) as writer:
        for documents in received(source):
            writer.add(documents)
        finish(writer, NoProgress())


def store_then(target: Path, source: IO[bytes], encoder: Any) -> None:
    """Make the knowledge base with the packages of commit 39f580c: its builder, less the encoding."""
    from kbengine.builder import _train_index

    from kbengine.progress import NoProgress
    from storage.settings import KBSettings
    from storage.writer import KBWriter

    settings = KBSettings(
        encoder_name=encoder.name,
        encoder_fingerprint=encoder.fingerprint,
        passage_fingerprint=encoder.passage_fingerprint,
        d=encoder.d,
        filter={"threshold": None, "keep_fraction": 0.5},
        build={"state": "building", "position": {"request": {}}},
    )
    with KBWriter.create(target, settings) as writer:
        for documents in received(source):
            writer.add(documents)
        writer.count_links()
        writer.merge_all()
        _train_index(writer, NoProgress())
        writer.finish_build()


def main() -> None:
    """Store what comes and tell what is there."""
    target = Path(sys.argv[1])
    began = time.perf_counter()
    store(target, sys.argv[2], sys.stdin.buffer)
    from storage.reader import KBReader

    with KBReader.open(target) as reader:
        info = reader.info()
    facts = {"documents": info.documents, "passages": info.passages, "stored_vectors": info.tokens_stored}
    print(json.dumps({**facts, "elapsed_s": round(time.perf_counter() - began, 1)}))


if __name__ == "__main__":
    main()
