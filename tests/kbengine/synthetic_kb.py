"""A knowledge base of random vectors and an encoder that gives the vectors it was told: search without a network."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np

from kbengine.encoders.encoder import QueryVectors
from kbengine.encoders.passage_windows import PassageVectors
from storage.records import NewDocument, NewPassage
from storage.settings import KBSettings
from storage.writer import KBWriter

D = 16
FINGERPRINT = "f" * 64
WORDS = [
    "amber",
    "basil",
    "cedar",
    "dune",
    "ember",
    "fjord",
    "grove",
    "heron",
    "iris",
    "jade",
    "kelp",
    "lark",
    "mesa",
    "nectar",
    "opal",
    "pine",
    "quartz",
    "reed",
]


class VectorEncoder:
    """Answers with vectors drawn from the query's own text, so that the same query always has the same vectors."""

    d = D
    fingerprint = FINGERPRINT
    passage_fingerprint = FINGERPRINT
    name = "synthetic"
    max_phrase_tokens = 4
    sparse = None
    directory = None

    def encode_queries(self, inputs, *, truncate=False):
        """Return random vectors seeded by each input's text."""
        rows = []
        for each in inputs:
            rng = np.random.default_rng(sum(ord(c) * (i + 1) for i, c in enumerate(each.text)))
            rows.append(rng.normal(size=(3, D)).astype(np.float32))
        stacked = np.stack(rows)
        passage = stacked[:, 2] / np.linalg.norm(stacked[:, 2], axis=1, keepdims=True)
        n = len(inputs)
        return QueryVectors(stacked[:, 0], stacked[:, 1], passage, np.full(n, 3), np.zeros(n, dtype=np.bool_))

    def prepare_queries(self):
        """There is nothing to prepare."""


class WordEncoder(VectorEncoder):
    """Also encodes passages: a token is a word, its vector is drawn from the word."""

    def encode_passages(self, passages, *, progress=None):
        """Return a vector for each word, the same wherever the word stands."""
        return [self._encode(passage.text) for passage in passages]

    def _encode(self, text):
        words = list(re.finditer(r"\w+", text))
        vectors = np.zeros((len(words), D), np.float32)
        for row, word in enumerate(words):
            vectors[row] = np.random.default_rng(zlib.crc32(word.group().encode())).normal(size=D)
        mean = vectors.mean(axis=0) if len(words) else np.ones(D, np.float32)
        return PassageVectors(
            vectors=vectors,
            starts=np.array([word.start() for word in words], np.int32),
            ends=np.array([word.end() for word in words], np.int32),
            filter_logits=vectors[:, :2].copy(),
            passage_vector=(mean / np.linalg.norm(mean)).astype(np.float32),
            n_encoded_tokens=len(words) + 2,
        )


def random_document(
    rng: np.random.Generator, doc_id: str, *, n_passages: int = 3, keep: float = 0.7, parted_by: str = ". "
) -> NewDocument:
    """Return a document of words with a random vector for each kept word, in passages of two parts."""
    passages = []
    for ordinal in range(1, n_passages + 1):
        words = [str(rng.choice(WORDS)) for _ in range(int(rng.integers(6, 14)))]
        words[0] = words[0].title()
        text = " ".join(words[:5]) + parted_by + " ".join([words[5].title(), *words[6:]]) + "."
        starts, position = [], 0
        for word in text.split(" "):
            starts.append(position)
            position += len(word) + 1
        lengths = [len(word.rstrip(".;")) for word in text.split(" ")]
        kept = np.flatnonzero(rng.random(len(starts)) < keep)
        if not len(kept):
            kept = np.array([0])
        vector = rng.normal(size=D).astype(np.float32)
        passages.append(
            NewPassage(
                ordinal=ordinal,
                text=text,
                vectors=rng.normal(size=(len(kept), D)).astype(np.float32),
                token_ordinals=kept.astype(np.uint32),
                starts=np.array(starts, np.int32)[kept],
                ends=(np.array(starts) + np.array(lengths)).astype(np.int32)[kept],
                filter_logits=np.zeros((len(kept), 2), np.float32),
                passage_vector=vector / np.linalg.norm(vector),
                n_tokens=len(starts),
            )
        )
    return NewDocument(doc_id=doc_id, title=f"Title {doc_id}", passages=tuple(passages))


def synthetic_settings() -> KBSettings:
    """Return the settings of a complete knowledge base for `VectorEncoder`."""
    return KBSettings(encoder_name="synthetic", encoder_fingerprint=FINGERPRINT, d=D)


def write_synthetic_kb(path: Path, *, n_documents: int = 40, seed: int = 5, parted_by: str = ". ") -> None:
    """Create a knowledge base of random documents `doc-0`, `doc-1`, … in several commits."""
    rng = np.random.default_rng(seed)
    with KBWriter.create(path, synthetic_settings()) as writer:
        for begin in range(0, n_documents, 15):
            ids = range(begin, min(begin + 15, n_documents))
            writer.add([random_document(rng, f"doc-{i}", parted_by=parted_by) for i in ids])


def passages_of(*texts: str) -> tuple[NewPassage, ...]:
    """Passages of words, encoded a word at a time; every third token is below the filter's threshold."""
    made = []
    for ordinal, text in enumerate(texts, start=1):
        encoded = WordEncoder()._encode(text)
        made.append(
            NewPassage(
                ordinal=ordinal,
                text=text,
                vectors=encoded.vectors,
                token_ordinals=np.arange(len(encoded.starts), dtype=np.uint32),
                starts=encoded.starts,
                ends=encoded.ends,
                filter_logits=encoded.filter_logits,
                passage_vector=encoded.passage_vector,
                n_tokens=len(encoded.starts),
            )
        )
    return tuple(made)
