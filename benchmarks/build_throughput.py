"""Tokens per second of a whole build against the bare forward pass on the same batches.

Run: python -m benchmarks.build_throughput CORPUS… --scratch DIR
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.measurement import write_result
from kbengine.build.document_encoder import chunks
from kbengine.corpus.reader import read_corpus
from kbengine.encoders.encoder import Encoder, PassageText


def recorded_batches(encoder: Encoder, paths: list[Path]) -> tuple[list[tuple[Any, Any]], int]:
    """Return the (ids, is_token) batches that a build of the corpus puts through the encoder, and their tokens.

    The model is replaced by one that notes its input and answers with zeros, so this costs no forward pass.
    """
    model = encoder._model  # a benchmark may look inside: it must see the very batches of a build
    batches: list[tuple[Any, Any]] = []
    real = model.passage_states

    def note(ids: torch.Tensor, is_token: torch.Tensor | None) -> torch.Tensor:
        batches.append((ids, is_token))
        return torch.ones((*ids.shape, encoder.d))

    model.passage_states = note  # type: ignore[method-assign]
    n_tokens = 0
    try:
        for documents, _ in chunks(read_corpus(paths)):
            texts = [PassageText(document.title, p.text) for document in documents for p in document.passages]
            n_tokens += sum(each.n_encoded_tokens for each in encoder.encode_passages(texts))
    finally:
        model.passage_states = real  # type: ignore[method-assign]
    return batches, n_tokens


def bare_forward_s(encoder: Encoder, batches: list[tuple[Any, Any]]) -> float:
    """Return the seconds of nothing but the forward passes of the batches."""
    with torch.inference_mode():
        encoder._model.passage_states(*batches[0])
        began = time.perf_counter()
        for ids, is_token in batches:
            encoder._model.passage_states(ids, is_token)
    return time.perf_counter() - began


def measure(paths: list[Path], scratch: Path, runs: int) -> dict[str, Any]:
    """Return the figures of both, interleaved so that the machine's drift hits both alike."""
    encoder = Encoder.load("minilm-phrase")
    batches, n_tokens = recorded_batches(encoder, paths)
    bare, whole, facts = [], [], {}
    for run in range(runs):
        bare.append(n_tokens / bare_forward_s(encoder, batches))
        kb = scratch / f"kb-{run}"
        command = [sys.executable, "-m", "kbengine.cli", "build", *map(str, paths), "--kb", str(kb), "--json"]
        began = time.perf_counter()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        whole.append(n_tokens / (time.perf_counter() - began))
        facts = json.loads(done.stdout)
        shutil.rmtree(kb)
    return {
        "encoded_tokens": n_tokens,
        "bare_forward_tokens_per_s": [round(rate) for rate in bare],
        "whole_process_tokens_per_s": [round(rate) for rate in whole],
        "share": [round(a / b, 3) for a, b in zip(whole, bare, strict=True)],
        "build": {name: value for name, value in facts.items() if name != "corpus"},
        "corpus": [path.name for path in paths],
    }


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", nargs="+", type=Path)
    parser.add_argument("--scratch", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=2)
    arguments = parser.parse_args()
    write_result(
        "build_throughput",
        "whole process >= 80 % of the tokens/s of the bare encoder forward pass on the same batches",
        measure(arguments.corpus, arguments.scratch, arguments.runs),
    )


if __name__ == "__main__":
    main()
