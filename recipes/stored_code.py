"""Measures the 4-bit code that an encoder's token vectors are stored in, on text that may be trained on.

Run: python -m recipes.stored_code --data DIR [--encoder NAME] [--pages 4000] [--out FILE]

Every token of some pages counts, those that the filter would not index as well. Pages whose text is not to be trained
on (`unseen_pages.txt`) are left out. Beside the encoder's weights the file is used by every build from then on.
"""

from __future__ import annotations

import argparse
import hashlib
import random
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.kilt_sets import data_folder, page_files, read_pages
from kbengine.build.storing import STORED_CODE_FILE
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.progress import progress_for_terminal
from storage.quantiser import Quantiser
from storage.quantiser_file import write_quantiser_of
from storage.stored_code import MEASURED_ROWS, measure_stored_code

Float32 = NDArray[np.float32]

_BATCH_PASSAGES = 256
# One token in so many is looked at: neighbours are much alike, and many pages say more than many tokens.
_EVERY = 3


def sample_vectors(encoder: Encoder, data: Path, n_pages: int, seed: int) -> Float32:
    """Return token vectors float32 (n, d) of pages drawn at random, in random order."""
    unseen = set((data / "unseen_pages.txt").read_text(encoding="utf-8").split())
    pages = [page for page in read_pages(page_files(data)) if page[0] not in unseen]
    chosen = random.Random(seed).sample(pages, min(n_pages, len(pages)))
    texts = [PassageText(title, text) for _, title, paragraphs in chosen for text in paragraphs[1:] if text.strip()]
    parts: list[Float32] = []
    with progress_for_terminal() as progress:
        progress.begin("encoding passages", len(texts), "")
        for start in range(0, len(texts), _BATCH_PASSAGES):
            batch = encoder.encode_passages(texts[start : start + _BATCH_PASSAGES])
            parts += [passage.vectors[seed % _EVERY :: _EVERY] for passage in batch]
            progress.advance(len(batch))
    vectors = np.concatenate(parts)
    return vectors[np.random.default_rng(seed).permutation(len(vectors))[:MEASURED_ROWS]]


def error_of(code: Quantiser, vectors: Float32) -> tuple[float, float]:
    """Return the mean cosine of vectors and what is decoded of them, and the squared error as a share."""
    lists = np.zeros(len(vectors), dtype=np.uint16)
    decoded = code.decode(lists, code.encode(vectors, lists))
    norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(decoded, axis=1)
    cosine = float(((vectors * decoded).sum(axis=1) / norms).mean())
    return cosine, float(((vectors - decoded) ** 2).sum() / (vectors**2).sum())


def main() -> None:
    """Measure, say how good it is on vectors that it was not measured on, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of KILT sets")
    parser.add_argument("--encoder", default="minilm-phrase", help="name or directory")
    parser.add_argument("--pages", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="by default beside the encoder's weights")
    given = parser.parse_args()
    encoder = Encoder.load(given.encoder)
    vectors = sample_vectors(encoder, data_folder(given.data), given.pages, given.seed)
    n_held_back = len(vectors) // 10
    name = hashlib.sha256(vectors.tobytes()).hexdigest()[:32]
    code = measure_stored_code(vectors[n_held_back:], name=name)
    cosine, error = error_of(code, vectors[:n_held_back])
    bits = {int(width): int((code.bits == width).sum()) for width in np.unique(code.bits)}
    print(f"{len(vectors):,} vectors; {code.code_bytes} bytes, dimensions by bits {bits}")
    print(f"on vectors held back: cosine {cosine:.4f}, squared error {error:.4f}")
    assert encoder.directory is not None
    out = given.out or encoder.directory / STORED_CODE_FILE
    write_quantiser_of(out, code, passage_fingerprint=encoder.passage_fingerprint)
    print(f"written to {out}")


if __name__ == "__main__":
    main()
