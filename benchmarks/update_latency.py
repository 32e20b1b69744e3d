"""Adding one short document to a large knowledge base, and deleting it: durable, searchable, and how long it takes.

Run: python -m benchmarks.update_latency --kb DIR

It works on the directory itself; the documents it adds are deleted again.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from benchmarks.measurement import quantiles_ms, write_result
from kbengine.build.document_encoder import DocumentEncoder
from kbengine.build.filtering import FilterOptions
from kbengine.corpus.document import CorpusDocument, CorpusPassage
from kbengine.knowledge_base import KnowledgeBase
from storage.reader import KBReader
from storage.writer import KBWriter


def measure(kb: Path, n: int) -> dict[str, Any]:
    """Return the times of n additions and deletions, with the state that a reader in this process sees after each."""
    adds, searchables, deletes, encodes = [], [], [], []
    with KnowledgeBase.open(kb) as knowledge_base:
        document_encoder = DocumentEncoder(knowledge_base.encoder, FilterOptions(keep_fraction=0.5))
        n_vectors = knowledge_base.info().tokens_stored
        with KBWriter.open(kb) as writer, KBReader.open(kb) as reader:
            reader.snapshot()
            for i in range(n):
                text = f"The town of Quillmere number {i} lies on the Tarn and has a clock tower built in {1700 + i}."
                document = CorpusDocument(f"latency-{i}", f"Quillmere {i}", None, {}, (CorpusPassage(1, text),))
                began = time.perf_counter()
                chunk = document_encoder.encode([document])
                encodes.append(time.perf_counter() - began)
                began = time.perf_counter()
                writer.add(chunk.documents)
                adds.append(time.perf_counter() - began)
                reader.snapshot()
                searchables.append(time.perf_counter() - began)
                found = knowledge_base.search(f"When was the clock tower of Quillmere number {i} built?", k=1)
                if found.hits[0].document.doc_id != f"latency-{i}":
                    raise SystemExit(f"document latency-{i} was not found at once: {found.hits[0]}")
            for i in range(n):
                began = time.perf_counter()
                writer.delete([f"latency-{i}"])
                reader.snapshot()
                deletes.append(time.perf_counter() - began)
    return {
        "stored_vectors": n_vectors,
        "add_durable": quantiles_ms(adds),
        "add_durable_and_searchable": quantiles_ms(searchables),
        "delete_durable_and_seen": quantiles_ms(deletes),
        "encode": quantiles_ms(encodes),
        "n": n,
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kb", type=Path, required=True)
    parser.add_argument("-n", type=int, default=50)
    arguments = parser.parse_args()
    write_result(
        "update_latency",
        "one short document at 1,000,000 vectors: added, durable, searchable in <= 150 ms; deleted in <= 30 ms",
        measure(arguments.kb, arguments.n),
    )


if __name__ == "__main__":
    main()
