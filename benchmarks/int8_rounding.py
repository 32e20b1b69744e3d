"""What storing token vectors as int8 costs in passage recall, against the float32 vectors that the encoder gives.

Run: python -m benchmarks.int8_rounding --data DIR [--rows 60] [--pages 800]

Every phrase of every passage of some pages is scored, by either vectors: no index, no filter, phrases alone. So
"exact" in other figures, which is ranking by all int8 vectors, can be read as ranking by float32 ones.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapters.tuning.tuning_files import tuning_rows
from benchmarks.kilt_sets import data_folder, page_files, set_files
from benchmarks.measurement import write_result
from benchmarks.ranking_scores import TOP, RankedSet
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.encoders.location import DEFAULT_ENCODER
from kbengine.search.query import Weights
from kbengine.search.scoring import best_phrases
from storage.codes import common_scale, dequantise, quantise

SETS = ("squad", "newwiki", "qed", "nqopen", "docred", "knet")

Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
Place = tuple[str, int]


@dataclass(frozen=True)
class Tokens:
    """All tokens of some passages.

    Attributes:
        vectors: float32 (n, d).
        ordinals: int64 (n), the place of each in its passage.
        passages: int64 (n), rising, the passage of each.
        first: int64 (p), each passage's first token.
        places: The page and paragraph number of each passage.
    """

    vectors: Float32
    ordinals: Int64
    passages: Int64
    first: Int64
    places: list[Place]


def encode(encoder: Encoder, texts: Sequence[tuple[Place, PassageText]]) -> Tokens:
    """Return the tokens of the passages that have any."""
    encoded = encoder.encode_passages([text for _, text in texts])
    kept = [(place, each.vectors) for (place, _), each in zip(texts, encoded, strict=True) if len(each.vectors)]
    lengths = np.array([len(vectors) for _, vectors in kept], dtype=np.int64)
    return Tokens(
        np.concatenate([vectors for _, vectors in kept]),
        np.concatenate([np.arange(n, dtype=np.int64) for n in lengths]),
        np.repeat(np.arange(len(kept), dtype=np.int64), lengths),
        np.cumsum(lengths) - lengths,
        [place for place, _ in kept],
    )


def ranking(tokens: Tokens, vectors: Float32, start: Float32, end: Float32, longest: int) -> list[Place]:
    """Return the passages of the five best by their best phrase, by these vectors and one query's two."""
    n = len(vectors)
    stops = np.append(tokens.first[1:], n)[tokens.passages]
    best = best_phrases(
        vectors @ start,
        vectors @ end,
        rows=np.arange(n, dtype=np.int64),
        range_stops=stops,
        token_ordinals=tokens.ordinals,
        passages=tokens.passages,
        max_phrase_tokens=longest,
    )
    of_passages = np.maximum.reduceat(best.start + best.end, tokens.first)
    return [tokens.places[i] for i in np.argsort(-of_passages, kind="stable")[:TOP].tolist()]


def measure(data: Path, n_rows: int, n_pages: int) -> dict[str, Any]:
    """Return recall@5 by float32 and by int8 vectors, and how many of the rows differ."""
    sets = [RankedSet.read(path, limit=n_rows) for path in set_files(data, "dev", SETS).values()]
    encoder = Encoder.load(DEFAULT_ENCODER)
    rows = [row for each in sets for row in tuning_rows(each.file, each.rows, Weights())]
    texts = passages(data, {page for row in rows for page in row.doc_ids}, n_pages)
    tokens = encode(encoder, texts)
    codes, scales = quantise(tokens.vectors, common_scale(tokens.vectors))
    rounded = dequantise(codes, scales)
    queries = encoder.encode_queries([row.query.input for row in rows], truncate=True)
    found: dict[str, list[bool]] = {}
    same = 0
    for row, start, end in zip(rows, queries.start, queries.end, strict=True):
        lists = [ranking(tokens, each, start, end, encoder.max_phrase_tokens) for each in (tokens.vectors, rounded)]
        same += lists[0] == lists[1]
        for name, places in zip(("float32", "int8"), lists, strict=True):
            found.setdefault(name, []).append(any(place in row.passages for place in places))
    return {
        "rows": len(rows),
        "passages": len(tokens.places),
        "vectors": len(tokens.vectors),
        "recall@5": {name: round(100 * float(np.mean(each)), 2) for name, each in found.items()},
        "rows_found_by_one_alone": int(np.sum(np.array(found["float32"]) != np.array(found["int8"]))),
        "rows_with_the_same_five_in_the_same_order": same,
    }


def passages(data: Path, gold: set[str], n_pages: int) -> list[tuple[Place, PassageText]]:
    """Return the passages of the gold pages and of random others, so many pages together at least."""
    documents = [document for document, _ in read_corpus(page_files(data))]
    others = [document for document in documents if document.doc_id not in gold]
    chosen = [document for document in documents if document.doc_id in gold]
    chosen += random.Random(0).sample(others, min(len(others), max(0, n_pages - len(chosen))))
    return [
        ((document.doc_id, passage.ordinal), PassageText(document.title, passage.text))
        for document in chosen
        for passage in document.passages
    ]


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=int, default=60, help="random rows of each set")
    parser.add_argument("--pages", type=int, default=800)
    given = parser.parse_args()
    figures = measure(data_folder(given.data), given.rows, given.pages)
    write_result("int8_rounding", "int8 token vectors rank passages as float32 ones do", figures)


if __name__ == "__main__":
    main()
