"""What sparse scores give to reading and to telling passages apart, and bytes, by the n-grams stored of a token.

Run: python -m benchmarks.sparse_top --encoder DIR --data DIR --scratch DIR [--half choose|score] [--top N …]
On development rows of a half (see benchmarks/kilt_sets.py), 70 of each set with phrases: their number is chosen on one
half; the other, which nothing was chosen on, says what it is worth.
"""

from __future__ import annotations

import argparse
import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.kilt_sets import (
    DATA_VARIABLE,
    HALVES,
    PHRASE_ROWS,
    PHRASE_SETS,
    Half,
    data_folder,
    half_rows,
    page_files,
)
from benchmarks.measurement import write_result
from kbengine.encoders.checkpoint import read_checkpoint
from kbengine.encoders.encoder import Encoder, PassageText
from kbengine.encoders.sparse.checkpoint import read_sparse
from kbengine.encoders.sparse.encoding import SparseEncoder
from kbengine.encoders.sparse.grams import content_ids
from kbengine.encoders.sparse.model import SparseHeads
from kbengine.encoders.tokenization import TextTokenizer
from kbengine.learning.loop.processes import join_processes
from kbengine.learning.runs.data_section import DataSection
from kbengine.learning.runs.examples import read_examples
from kbengine.learning.sparse.batches import Featurizer
from kbengine.learning.sparse.options import SparseOptions
from kbengine.learning.sparse.task import SparseTask
from storage.sparse_rows import sparse_arrays

TOPS = (4, 8, 16, 24, 32, 64, 255)
SIZED_PASSAGES = 100


def measure(encoder: Path, data: Path, scratch: Path, half: Half, tops: tuple[int, ...]) -> dict[str, Any]:
    """Return the figures of each number of n-grams, with those of dense scores alone."""
    files = tuple(half_rows(data / f"{name}.dev.jsonl.gz", half, PHRASE_ROWS, scratch) for name in PHRASE_SETS)
    files = tuple(path for path in files if path.stat().st_size)
    examples = read_examples(DataSection(train=files[:1], dev=files, pages=page_files(data)), seed=0).dev
    checkpoint = read_checkpoint(encoder)
    backbone = checkpoint.config.backbone
    tokenizer = TextTokenizer(
        checkpoint.tokenizer_json, uncased=checkpoint.config.uncased, vocab_size=backbone.vocab_size, source="encoder"
    )
    is_content = content_ids(checkpoint.tokenizer_json, backbone.vocab_size)
    trained = read_sparse(encoder, hidden_size=backbone.hidden_size)
    featurizer = Featurizer(
        tokenizer, checkpoint.config, is_content, trained.config.orders, truecaser=checkpoint.truecaser
    )
    model = checkpoint.model().prepare_inference(torch.device("cpu"), torch.bfloat16)
    plain = Encoder.load(encoder)
    texts = [PassageText(each.title, each.passage) for each in examples[:: max(1, len(examples) // SIZED_PASSAGES)]]
    found: dict[str, Any] = {"half": half, "rows": len(examples), "trained_with": trained.config.top, "tops": {}}
    for top in tops:
        heads = SparseHeads(replace(trained.config, top=top))
        heads.load_state_dict(trained.state_dict())
        options = SparseOptions(as_stored=True)
        task = SparseTask(model, heads.eval(), featurizer, examples, options, development=examples)
        with torch.inference_mode():
            evaluation = task.evaluate(join_processes("cpu"))
        assert evaluation is not None
        sparse = SparseEncoder(
            heads, checkpoint.tokenizer_json, vocab_size=backbone.vocab_size, device=plain.device, source="encoder"
        )
        found["tops"][top] = {name: round(value, 1) for name, value in evaluation.measures.items()} | {
            "bytes_a_token": bytes_a_token(plain, sparse, texts)
        }
        print(top, found["tops"][top], flush=True)
    return found


def bytes_a_token(plain: Encoder, sparse: SparseEncoder, texts: list[PassageText]) -> float:
    """Return the bytes of sparse rows a token takes in a segment."""
    encoder = copy.copy(plain)
    encoder.sparse = sparse
    passages = [each.sparse for each in encoder.encode_passages(texts) if each.sparse is not None]
    return round(sparse_arrays(passages).n_bytes / sum(each.n_tokens for each in passages), 1)


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", type=Path, required=True, help="the model directory with sparse heads")
    parser.add_argument("--data", type=Path, help=f"folder of the KILT sets; by default {DATA_VARIABLE}")
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--half", choices=HALVES, default="choose", help="of the development pages")
    parser.add_argument("--top", type=int, action="append", help=f"n-grams kept; by default {TOPS} in turn")
    parser.add_argument("--name", default="sparse_top", help="of the result file")
    given = parser.parse_args()
    given.scratch.mkdir(parents=True, exist_ok=True)
    figures = measure(given.encoder, data_folder(given.data), given.scratch, given.half, tuple(given.top or TOPS))
    write_result(given.name, "sparse scores read better and tell passages apart better than dense ones alone", figures)


if __name__ == "__main__":
    main()
