"""Small documents with random vectors, and the exact content of a knowledge base, for tests of storage."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from storage.reader import KBReader
from storage.records import NewDocument, NewPassage, StoredPassage
from storage.settings import KBSettings

D = 8
WORDS = ["amber", "basalt", "cedar", "delta", "ember", "fjord", "glacier", "harbor", "island", "juniper", "kelp"]


def make_settings(**changes: Any) -> KBSettings:
    """Settings of an 8-dimensional knowledge base."""
    values: dict[str, Any] = {
        "encoder_name": "toy",
        "encoder_fingerprint": "f" * 64,
        "d": D,
        "token_scale": 0.03125,
        "passage_scale": 0.0078125,
    }
    return KBSettings(**{**values, **changes})


def make_passage(text: str, ordinal: int = 1, *, kept: ArrayLike | None = None) -> NewPassage:
    """A passage whose vectors follow from its text: every second word kept, as the toy encoder does."""
    spans, position = [], 0
    for word in text.split(" "):
        spans.append((position, position + len(word)))
        position += len(word) + 1
    ordinals = np.arange(0, len(spans), 2) if kept is None else np.asarray(kept)
    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(len(spans), D)).astype(np.float32)
    vector = rng.normal(size=D).astype(np.float32)
    chosen = ordinals.astype(np.int64)
    return NewPassage(
        ordinal=ordinal,
        text=text,
        vectors=vectors[chosen],
        token_ordinals=ordinals.astype(np.uint32),
        starts=np.array([spans[index][0] for index in chosen], dtype=np.int32),
        ends=np.array([spans[index][1] for index in chosen], dtype=np.int32),
        filter_logits=rng.normal(size=(len(spans), 2)).astype(np.float32)[chosen],
        passage_vector=vector / np.linalg.norm(vector),
        n_tokens=len(spans),
    )


def make_document(doc_id: str, *texts: str, title: str | None = None) -> NewDocument:
    """A document with one passage per text."""
    passages = tuple(make_passage(text, ordinal) for ordinal, text in enumerate(texts, start=1))
    url = f"https://example.org/{doc_id}"
    return NewDocument(doc_id, title or f"Title of {doc_id}", url, {"n": len(texts)}, passages)


def random_document(doc_id: str, rng: np.random.Generator, *, passages: int | None = None) -> NewDocument:
    """A document of a few random words."""
    n = int(rng.integers(0, 4)) if passages is None else passages
    return make_document(doc_id, *(" ".join(rng.choice(WORDS, size=int(rng.integers(1, 12)))) for _ in range(n)))


def reencode(stored: Sequence[StoredPassage]) -> list[NewPassage]:
    """The toy encoder: the same vectors for the same text."""
    return [make_passage(passage.text, passage.ordinal, kept=passage.token_ordinals) for passage in stored]


def content(path: Path) -> dict[str, tuple[str, ...]]:
    """Each live document's texts, as the database gives them, after comparing them with the segments' vectors."""
    with KBReader.open(path, allow_incomplete=True) as reader:
        snapshot = reader.snapshot()
        found: dict[str, tuple[str, ...]] = {}
        live = 0
        for document, passages in reader.iterate_documents():
            found[document.doc_id] = tuple(passage.text for passage in passages)
            for passage in passages:
                live += 1
                (found_at,) = np.nonzero(snapshot.passage_ids == passage.passage_id)
                assert len(found_at) == 1, f"passage {passage.passage_id} is in {len(found_at)} segments"
                index = int(found_at[0])
                assert snapshot.live_passages[index]
                rows = snapshot.first_rows[index] + np.arange(snapshot.token_counts[index])
                codes, scales = snapshot.gather(rows)
                expected = make_passage(passage.text, passage.ordinal).vectors
                np.testing.assert_allclose(codes * scales[:, None], expected, atol=0.02 * 4)
        assert live == int(snapshot.live_passages.sum())
        return found
