"""A knowledge base whose token vectors lie in clusters, large enough for quantisers, and what is true of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from storage.reader import KBReader
from storage.records import NewDocument, NewPassage, StoredPassage
from storage.reindexing import ReindexRequest
from storage.settings import KBSettings
from storage.snapshot import Snapshot
from storage.writer import KBWriter

D = 32
PASSAGE_ROWS = 40
_CENTRES = np.random.default_rng(7).normal(size=(60, D))


def vectors_of(seed: int, n: int) -> NDArray[np.float32]:
    """Vectors float32 (n, D) around 60 centres, some directions stronger than others, as token vectors are."""
    rng = np.random.default_rng(seed)
    spread = np.linspace(1.5, 0.2, D) * 0.6
    return (_CENTRES[rng.integers(60, size=n)] + spread * rng.normal(size=(n, D))).astype(np.float32)


def make_passage(seed: int, ordinal: int = 1) -> NewPassage:
    """A passage of forty words, whose vectors follow from the seed, which is its text."""
    words = [f"w{seed}x{i}" for i in range(PASSAGE_ROWS)]
    text = " ".join(words)
    starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])]).astype(np.int32)
    vectors = vectors_of(seed, PASSAGE_ROWS)
    mean = vectors.mean(axis=0)
    return NewPassage(
        ordinal=ordinal,
        text=text,
        vectors=vectors,
        token_ordinals=np.arange(PASSAGE_ROWS, dtype=np.uint32),
        starts=starts,
        ends=(starts + [len(word) for word in words]).astype(np.int32),
        filter_logits=np.random.default_rng(seed).normal(size=(PASSAGE_ROWS, 2)).astype(np.float32),
        passage_vector=(mean / np.linalg.norm(mean)).astype(np.float32),
        n_tokens=PASSAGE_ROWS,
    )


def make_document(seed: int) -> NewDocument:
    """The document `doc<seed>` of one passage."""
    return NewDocument(f"doc{seed}", f"Title {seed}", None, {}, (make_passage(seed),))


def reencode(stored: list[StoredPassage]) -> list[NewPassage]:
    """The encoder: the seed is in the text."""
    passages = []
    for entry in stored:
        whole = make_passage(int(entry.text.split("x", 1)[0][1:]), entry.ordinal)
        kept = entry.token_ordinals.astype(np.int64)
        passages.append(
            NewPassage(
                ordinal=entry.ordinal,
                text=whole.text,
                vectors=whole.vectors[kept],
                token_ordinals=entry.token_ordinals,
                starts=whole.starts[kept],
                ends=whole.ends[kept],
                filter_logits=whole.filter_logits[kept],
                passage_vector=whole.passage_vector,
                n_tokens=PASSAGE_ROWS,
            )
        )
    return passages


def create(path: Path, *, n_documents: int = 60) -> None:
    """Make a knowledge base of that many documents in one segment, with lists from 500 rows on."""
    settings = KBSettings("clustered", "c" * 64, D, ann={"exact_below_rows": 500, "sample_per_list": 256})
    with KBWriter.create(path, settings) as writer:
        writer.add([make_document(seed) for seed in range(n_documents)])


def change(path: Path, kind: str | None = None, *, drop: bool = False) -> None:
    """Change the index to this kind, and drop the int8 vectors if that is wanted."""
    with KBWriter.open(path) as writer:
        writer.reindex(ReindexRequest(ann=None if kind is None else {"kind": kind}, drop_vectors=drop))


def true_vectors(reader: KBReader, snapshot: Snapshot) -> NDArray[np.float32]:
    """The vectors that the encoder made, in the snapshot's order of rows."""
    passages = reader.passages(snapshot.passage_ids)
    parts = []
    for passage_id in snapshot.passage_ids.tolist():
        passage = passages[passage_id]
        whole = make_passage(int(passage.text.split("x", 1)[0][1:]))
        parts.append(whole.vectors[passage.offsets.ordinals.astype(np.int64)])
    return np.concatenate(parts)


def cosines(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine of each row of the one with the same row of the other."""
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    result: NDArray[np.float32] = (a * b).sum(axis=1) / norms
    return result


def queries(n: int = 30) -> NDArray[np.float32]:
    """Queries near the clusters."""
    return vectors_of(10_001, n) + np.float32(0.2) * vectors_of(10_002, n)


def recall(snapshot: Snapshot, vectors: NDArray[np.float32], *, k: int = 20) -> float:
    """The share of the k best live rows, by these vectors and numpy, that the default search finds."""
    products = queries() @ vectors.T
    live = snapshot.live_passages[snapshot.passages_of_rows(np.arange(snapshot.n_rows))]
    products[:, ~live] = -np.inf
    wanted = np.argsort(-products, axis=1)[:, :k]
    _, found = snapshot.search_tokens(queries(), k)
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]))
